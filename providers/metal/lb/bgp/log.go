package bgp

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Verbosities of what the library logs. Its "info" is about single sessions, its "debug" about single messages.
const (
	infoVerbosity  = 2
	debugVerbosity = 6
)

// bridge passes on what the library logs. Why a session does not come up the library says nowhere else, so explain reads it.
type bridge struct {
	to      logr.Logger
	explain func(peer netip.Addr, why failure)
	// reset is called while the library has a session reset. What it is asked for after that comes after the reset.
	reset func(peer netip.Addr)
	muted atomic.Bool
}

func (b *bridge) logger() *slog.Logger { return slog.New(handler{bridge: b}) }

// handler is a bridge with the attributes of one of the library's loggers.
type handler struct {
	bridge *bridge
	attrs  []slog.Attr
	// peer is the router that the logger is about, if it is about one.
	peer netip.Addr
}

// Enabled lets records pass that are logged. It also lets pass what the library says about single routers, for explanations.
func (h handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.peer.IsValid() || h.bridge.to.V(debugVerbosity).Enabled()
}

// WithAttrs returns the handler of a logger with further attributes.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	for _, attr := range attrs {
		if attr.Key == "Key" {
			h.peer, _ = netip.ParseAddr(attr.Value.String())
		}
	}
	return h
}

// WithGroup returns the handler itself: the library has no groups.
func (h handler) WithGroup(string) slog.Handler { return h }

// Handle passes a record on.
func (h handler) Handle(_ context.Context, record slog.Record) error {
	if h.bridge.muted.Load() {
		return nil
	}
	if peer, why := h.explanation(record); why != (failure{}) {
		h.bridge.explain(peer, why)
	}
	if record.Message == "Send operation notification" {
		h.bridge.reset(addressIn(record, "Key"))
	}
	logger := h.bridge.to
	switch {
	case record.Level < slog.LevelInfo:
		logger = logger.V(debugVerbosity)
	case record.Level < slog.LevelWarn:
		logger = logger.V(infoVerbosity)
	}
	if !logger.Enabled() {
		return nil
	}
	var values []any
	add := func(attr slog.Attr) bool {
		values = append(values, strings.ToLower(attr.Key[:1])+attr.Key[1:], attr.Value.Any())
		return true
	}
	for _, attr := range h.attrs {
		add(attr)
	}
	record.Attrs(add)
	if record.Level >= slog.LevelError {
		logger.Error(nil, record.Message, values...)
	} else {
		logger.Info(record.Message, values...)
	}
	return nil
}

// explanation returns why a session does not come up or has ended, when a record says so.
func (h handler) explanation(record slog.Record) (peer netip.Addr, why failure) {
	value := func(key string) slog.Value { return valueIn(record, key) }
	switch record.Message {
	case "failed to connect":
		return h.peer, dialFailure(value("Error").String())
	case "outgoing connection IO error":
		return h.peer, failure{ConnectionClosed, fmt.Sprintf("the router closed the connection before the session began (%s): "+
			"does it expect this speaker's address and AS?", value("reason"))}
	case "sent notification":
		return h.peer, notificationFailure("the speaker ended the session: ", value)
	case "received notification":
		return h.peer, notificationFailure("the router ended the session: ", value)
	case "hold timer expired":
		return h.peer, failure{HoldTimeOver, "the router was silent for the hold time"}
	case "Expired":
		return addressIn(record, "Peer"), failure{BFDDown, "BFD: the router is silent"}
	case "Remote peer signaled BFD down":
		return addressIn(record, "Peer"), failure{BFDDown, "BFD: the router says that it receives nothing from the speaker"}
	}
	return netip.Addr{}, failure{}
}

// valueIn returns what a record says under a key.
func valueIn(record slog.Record, key string) (found slog.Value) {
	record.Attrs(func(attr slog.Attr) bool {
		if attr.Key == key {
			found = attr.Value
		}
		return attr.Key != key
	})
	return found
}

// addressIn returns the router that a record names under a key.
func addressIn(record slog.Record, key string) netip.Addr {
	peer, _ := netip.ParseAddr(valueIn(record, key).String())
	return peer
}

// dialFailure says what may be behind a failed connection. The kernel drops what has no signature or a wrong one, on both sides,
// so a password that differs looks like a router that is not there.
func dialFailure(err string) failure {
	switch {
	case strings.Contains(err, "i/o timeout"):
		return failure{NoAnswer, fmt.Sprintf("no answer (%s): the router is down, a firewall drops the packets, or only one side has "+
			"a password, or another one", err)}
	case strings.Contains(err, "connection refused"):
		return failure{ConnectionRefused,
			fmt.Sprintf("refused (%s): nothing listens there; is BGP running on the router, and does it know this speaker?", err)}
	}
	return failure{CannotConnect, "cannot connect: " + err}
}

// notificationFailure says what a notification means (RFC 4271 section 4.5).
func notificationFailure(who string, value func(string) slog.Value) failure {
	code, subcode := value("Code"), value("Subcode")
	if code.Kind() != slog.KindInt64 || subcode.Kind() != slog.KindInt64 {
		return failure{Ended, who + "for a reason that is not known"}
	}
	if code.Int64() == bgp.BGP_ERROR_OPEN_MESSAGE_ERROR && subcode.Int64() == bgp.BGP_ERROR_SUB_BAD_PEER_AS {
		return failure{WrongASN,
			who + "the AS of the router is not what the speaker has for it, or the other way round (OPEN message error, bad peer AS)"}
	}
	if code.Int64() == bgp.BGP_ERROR_HOLD_TIMER_EXPIRED {
		return failure{HoldTimeOver, who + "nothing was received for the hold time: the network lost it, or there is too little " +
			"processor time for so many routes (hold timer expired); a longer holdTime helps"}
	}
	words := bgp.NewNotificationErrorCode(uint8(code.Int64()), uint8(subcode.Int64())).String()
	if said := value("Communicated-Reason"); said.Kind() == slog.KindString && said.String() != "" {
		words += fmt.Sprintf(" (%q)", said.String())
	}
	return failure{Ended, who + words}
}
