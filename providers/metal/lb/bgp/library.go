package bgp

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/server"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

const (
	// sendMax is how many paths of a destination the library sends; it counts in eight bits.
	sendMax = 255
	// deferral is how long a speaker that restarts gracefully waits for what its routers have to say before it says its own
	// (RFC 4724 section 4.1). It learns nothing from them, so it need not wait; the library's least is a second, and while it
	// waits for one router that is away it says nothing to the others.
	deferral = time.Second
	// idleAfterReset is how long the library rests after it ended a session itself.
	idleAfterReset = 2 * time.Second
	// stopTimeout bounds how long the end of all sessions may take.
	stopTimeout = 10 * time.Second
)

// library is a running GoBGP server with the speaker's policies and no routers yet.
type library struct {
	server *server.BgpServer
	log    *bridge
	mode   config.BGPMode
	// restartTime is how long routers keep routes in mode GracefulRestart.
	restartTime time.Duration
	endWatch    context.CancelFunc
	tables      tables
}

// startLibrary starts a server. It notifies sessions about the state of peers.
func startLibrary(ctx context.Context, id identity, settings *settings, log *bridge, sessions *sessions) (*library, error) {
	policies, err := policies(settings)
	if err != nil {
		return nil, err
	}
	watching, endWatch := context.WithCancel(context.WithoutCancel(ctx))
	l := &library{
		server: server.NewBgpServer(server.LoggerOption(log.logger(), nil)),
		log:    log, mode: id.mode, restartTime: id.restart, endWatch: endWatch, tables: newTables(),
	}
	go l.server.Serve()
	if err := l.configure(watching, id, policies, sessions); err != nil {
		return nil, joinStop(err, l.stop(false))
	}
	return l, nil
}

func joinStop(err, stopped error) error {
	if stopped != nil {
		return fmt.Errorf("%w (and then: %w)", err, stopped)
	}
	return err
}

func (l *library) configure(ctx context.Context, id identity, policies *api.SetPoliciesRequest, sessions *sessions) error {
	global := &api.Global{Asn: id.asn, RouterId: id.routerID.String(), ListenPort: id.listenPort}
	if err := l.server.StartBgp(ctx, &api.StartBgpRequest{Global: global}); err != nil {
		return fmt.Errorf("start BGP with AS %d and router ID %s: %w", id.asn, id.routerID, err)
	}
	if err := l.setPolicies(ctx, policies); err != nil {
		return err
	}
	for _, assignment := range assignments() {
		if err := l.server.SetPolicyAssignment(ctx, &api.SetPolicyAssignmentRequest{Assignment: assignment}); err != nil {
			return fmt.Errorf("put the policies in force: %w", err)
		}
	}
	callbacks := server.WatchEventMessageCallbacks{OnPeerUpdate: sessions.observe}
	if err := l.server.WatchEvent(ctx, callbacks, server.WatchPeer()); err != nil {
		return fmt.Errorf("watch the sessions: %w", err)
	}
	return nil
}

func (l *library) setPolicies(ctx context.Context, policies *api.SetPoliciesRequest) error {
	if err := l.server.SetPolicies(ctx, policies); err != nil {
		return fmt.Errorf("set the policies: %w", err)
	}
	return nil
}

// apply announces to a group and withdraws from it, in this order.
func (l *library) apply(group string, s step, encoder *encoder) error {
	if len(s.add) > 0 {
		paths, err := encoder.encode(group, s.add, false)
		if err != nil {
			return err
		}
		var before map[netip.Addr]uint64
		if s.moves {
			before = l.sentTo(group)
		}
		if _, err := l.server.AddPath(apiutil.AddPathRequest{VRFID: group, Paths: paths}); err != nil {
			return fmt.Errorf("announce %d paths: %w", len(paths), err)
		}
		if s.moves {
			l.awaitSent(group, before)
		}
	}
	if len(s.withdraw) > 0 {
		paths, err := encoder.encode(group, s.withdraw, true)
		if err != nil {
			return err
		}
		if err := l.server.DeletePath(apiutil.DeletePathRequest{VRFID: group, Paths: paths}); err != nil {
			return fmt.Errorf("withdraw %d paths: %w", len(paths), err)
		}
	}
	return nil
}

// add begins a session. Restarting says that routers may still have what an earlier process announced.
func (l *library) add(ctx context.Context, n neighbor, restarting bool) error {
	if err := l.server.AddPeer(ctx, &api.AddPeerRequest{Peer: l.peer(n, restarting)}); err != nil {
		return fmt.Errorf("add peer %s: %w", n.name, err)
	}
	l.tables.of[n.addr] = n.session.group
	return nil
}

// remove ends a session; the router drops what it received.
func (l *library) remove(ctx context.Context, n neighbor) error {
	if err := l.server.DeletePeer(ctx, &api.DeletePeerRequest{Address: n.addr.String()}); err != nil {
		return fmt.Errorf("remove peer %s: %w", n.name, err)
	}
	delete(l.tables.of, n.addr)
	return nil
}

// update changes the timers of a router while its session goes on.
func (l *library) update(ctx context.Context, n neighbor) error {
	if _, err := l.server.UpdatePeer(ctx, &api.UpdatePeerRequest{Peer: l.peer(n, false)}); err != nil {
		return fmt.Errorf("update peer %s: %w", n.name, err)
	}
	return nil
}

// resend sends a router everything again, within its session (RFC 2918 without having been asked).
func (l *library) resend(ctx context.Context, n neighbor) error {
	reset := &api.ResetPeerRequest{Address: n.addr.String(), Soft: true, Direction: api.ResetPeerRequest_DIRECTION_OUT}
	if err := l.server.ResetPeer(ctx, reset); err != nil {
		return fmt.Errorf("send peer %s its other attributes: %w", n.name, err)
	}
	return nil
}

// stop ends all sessions: gracefully, so routers keep what they received for the restart time, or not. The server's own
// end has no deadline, so it gets one here.
func (l *library) stop(graceful bool) error {
	l.endWatch()
	ended := make(chan error, 1)
	go func() {
		err := l.server.StopBgp(context.Background(), &api.StopBgpRequest{AllowGracefulRestart: graceful})
		// Ends the BFD part, which StopBgp leaves, and complains that BGP has ended already.
		l.log.muted.Store(true)
		l.server.Stop()
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("stop BGP: %w", err)
		}
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("stop BGP: the sessions have not ended within %s", stopTimeout)
	}
}

func (l *library) peer(n neighbor, restarting bool) *api.Peer {
	graceful := l.mode == config.GracefulRestart
	peer := &api.Peer{
		Conf: &api.PeerConf{
			NeighborAddress: n.addr.String(), PeerAsn: n.session.asn, LocalAsn: n.session.localASN, AuthPassword: n.session.password, Vrf: n.session.group,
		},
		Transport: &api.Transport{RemotePort: uint32(n.session.port)},
		Timers: &api.Timers{Config: &api.TimersConfig{
			HoldTime: n.timers.hold, KeepaliveInterval: n.timers.keepalive, ConnectRetry: n.timers.connectRetry,
			IdleHoldTimeAfterReset: uint64(idleAfterReset.Seconds()),
		}},
		GracefulRestart: &api.GracefulRestart{
			Enabled: graceful, RestartTime: uint32(l.restartTime.Seconds()), DeferralTime: uint32(deferral.Seconds()),
			LocalRestarting: graceful && restarting,
		},
		Bfd: &api.BfdPeerConfig{
			Enabled: n.timers.bfd, DesiredMinimumTxInterval: n.timers.bfdTransmit,
			RequiredMinimumReceive: n.timers.bfdReceive, DetectionMultiplier: n.timers.bfdMultiplier,
		},
	}
	if n.session.source.IsValid() {
		peer.Transport.LocalAddress = n.session.source.String()
	}
	if n.session.multihop > 0 {
		peer.EbgpMultihop = &api.EbgpMultihop{Enabled: true, MultihopTtl: uint32(n.session.multihop)}
	}
	if n.session.minTTL > 0 {
		peer.TtlSecurity = &api.TtlSecurity{Enabled: true, TtlMin: uint32(n.session.minTTL)}
	}
	if n.session.ipv4 {
		peer.AfiSafis = append(peer.AfiSafis, afiSafi(api.Family_AFI_IP, graceful))
	}
	if n.session.ipv6 {
		peer.AfiSafis = append(peer.AfiSafis, afiSafi(api.Family_AFI_IP6, graceful))
	}
	return peer
}

func afiSafi(afi api.Family_Afi, graceful bool) *api.AfiSafi {
	return &api.AfiSafi{
		Config:            &api.AfiSafiConfig{Family: &api.Family{Afi: afi, Safi: api.Family_SAFI_UNICAST}, Enabled: true},
		AddPaths:          &api.AddPaths{Config: &api.AddPathsConfig{SendMax: sendMax}},
		MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: graceful}},
	}
}
