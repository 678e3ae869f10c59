package bgp

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

func configured(peers ...config.BGPPeer) config.BGP {
	return config.BGP{ASN: 64512, ListenPort: -1, Mode: config.ActiveActive, Peers: peers}
}

var router = config.BGPPeer{
	Name: "rack-1", Address: "10.0.0.1", ASN: 64513, Port: 179, Families: []config.AddressFamily{config.IPv4, config.IPv6},
}

// observed returns a session event with what the router can.
func observed(state bgp.FSMState, capabilities ...bgp.ParameterCapabilityInterface) *apiutil.WatchEventMessage_PeerEvent {
	return &apiutil.WatchEventMessage_PeerEvent{Type: apiutil.PEER_EVENT_STATE, Peer: apiutil.Peer{State: apiutil.PeerState{
		NeighborAddress: netip.MustParseAddr(router.Address), SessionState: state, RemoteCap: capabilities,
		DisconnectMessage: "read-failed",
	}}}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	speaker, err := New(Options{Config: configured(router), Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Config: configured(router), Registerer: registry}); err == nil {
		t.Error("a second speaker registers the same metrics")
	}
	speaker.sessions.now = func() time.Time { return time.Unix(1700000000, 0) }
	up := func() {
		speaker.sessions.observe(observed(bgp.BGP_FSM_ESTABLISHED, bgp.NewCapMultiProtocol(bgp.RF_IPv4_UC),
			bgp.NewCapAddPath([]*bgp.CapAddPathTuple{bgp.NewCapAddPathTuple(bgp.RF_IPv4_UC, bgp.BGP_ADD_PATH_BOTH)})), time.Now())
	}
	up()
	speaker.sessions.observe(observed(bgp.BGP_FSM_IDLE), time.Now())
	up()
	speaker.record("", step{after: map[netip.Prefix]destination{service: {hops: []hop{{one, 1}, {two, 2}}, leftOut: 3}}})
	const want = `
# HELP mooring_metal_bgp_next_hops_left_out Next hops that are not announced because their destination has more than can be.
# TYPE mooring_metal_bgp_next_hops_left_out gauge
mooring_metal_bgp_next_hops_left_out 3
# HELP mooring_metal_bgp_paths Paths that were announced to a router: with ADD-PATH one for each next hop of a destination.
# TYPE mooring_metal_bgp_paths gauge
mooring_metal_bgp_paths{family="IPv4",peer="rack-1"} 2
mooring_metal_bgp_paths{family="IPv6",peer="rack-1"} 0
# HELP mooring_metal_bgp_prefixes Destinations that were announced to a router. Zero while the session is not up.
# TYPE mooring_metal_bgp_prefixes gauge
mooring_metal_bgp_prefixes{family="IPv4",peer="rack-1"} 1
mooring_metal_bgp_prefixes{family="IPv6",peer="rack-1"} 0
# HELP mooring_metal_bgp_session_failures_total How often the session with a router ended or could not begin, by problem.
# TYPE mooring_metal_bgp_session_failures_total counter
mooring_metal_bgp_session_failures_total{peer="rack-1",problem="SessionEnded"} 1
# HELP mooring_metal_bgp_session_flaps_total How often the session with a router went down.
# TYPE mooring_metal_bgp_session_flaps_total counter
mooring_metal_bgp_session_flaps_total{peer="rack-1"} 1
# HELP mooring_metal_bgp_session_last_transition_timestamp_seconds When the session with a router came up or went down.
# TYPE mooring_metal_bgp_session_last_transition_timestamp_seconds gauge
mooring_metal_bgp_session_last_transition_timestamp_seconds{peer="rack-1"} 1.7e+09
# HELP mooring_metal_bgp_session_problem 1 for each problem that keeps a router from having everything that is announced. The family is empty for a problem of the whole session.
# TYPE mooring_metal_bgp_session_problem gauge
mooring_metal_bgp_session_problem{family="IPv6",peer="rack-1",problem="FamilyNotNegotiated"} 1
# HELP mooring_metal_bgp_session_state 1 for the state that the session with a router is in, by the names of RFC 4271, 0 for the others.
# TYPE mooring_metal_bgp_session_state gauge
mooring_metal_bgp_session_state{peer="rack-1",state="Active"} 0
mooring_metal_bgp_session_state{peer="rack-1",state="Connect"} 0
mooring_metal_bgp_session_state{peer="rack-1",state="Established"} 1
mooring_metal_bgp_session_state{peer="rack-1",state="Idle"} 0
mooring_metal_bgp_session_state{peer="rack-1",state="OpenConfirm"} 0
mooring_metal_bgp_session_state{peer="rack-1",state="OpenSent"} 0
# HELP mooring_metal_bgp_session_up Whether the session with a router is established.
# TYPE mooring_metal_bgp_session_up gauge
mooring_metal_bgp_session_up{peer="rack-1"} 1
# HELP mooring_metal_bgp_updates_sent_total Messages with routes that were sent to a router, since its configuration last changed.
# TYPE mooring_metal_bgp_updates_sent_total counter
mooring_metal_bgp_updates_sent_total{peer="rack-1"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
}

func TestStandbyShowsNoSessions(t *testing.T) {
	for mode, want := range map[config.BGPMode]int{config.ActiveActive: 1, config.GracefulRestart: 0} {
		registry, settings := prometheus.NewPedanticRegistry(), configured(router)
		settings.Mode = mode
		if _, err := New(Options{Config: settings, Registerer: registry}); err != nil {
			t.Fatal(err)
		}
		if found, err := testutil.GatherAndCount(registry, "mooring_metal_bgp_session_up"); err != nil || found != want {
			t.Errorf("mode %s, before it runs: %d sessions are shown (%v), want %d", mode, found, err, want)
		}
	}
}

func TestStatusOfFamilies(t *testing.T) {
	both := []bgp.ParameterCapabilityInterface{bgp.NewCapMultiProtocol(bgp.RF_IPv4_UC), bgp.NewCapMultiProtocol(bgp.RF_IPv6_UC)}
	receive := func(mode bgp.BGPAddPathMode) bgp.ParameterCapabilityInterface {
		return bgp.NewCapAddPath([]*bgp.CapAddPathTuple{
			bgp.NewCapAddPathTuple(bgp.RF_IPv4_UC, mode), bgp.NewCapAddPathTuple(bgp.RF_IPv6_UC, mode),
		})
	}
	for name, test := range map[string]struct {
		capabilities []bgp.ParameterCapabilityInterface
		problems     []string
	}{
		"everything": {append(both[:2:2], receive(bgp.BGP_ADD_PATH_RECEIVE)), nil},
		"sends several paths but does not receive them": {
			append(both[:2:2], receive(bgp.BGP_ADD_PATH_SEND)), []string{"one IPv4 destination", "one IPv6 destination"},
		},
		"names no families": {nil, []string{"one IPv4 destination", "does not take IPv6"}},
	} {
		t.Run(name, func(t *testing.T) {
			speaker, err := New(Options{Config: configured(router)})
			if err != nil {
				t.Fatal(err)
			}
			changed, cancel := speaker.Subscribe()
			defer cancel()
			speaker.sessions.observe(observed(bgp.BGP_FSM_ESTABLISHED, test.capabilities...), time.Now())
			status := speaker.Peers()[0]
			if !status.Up() || len(status.Problems) != len(test.problems) {
				t.Fatalf("%+v", status)
			}
			for i, problem := range test.problems {
				if !strings.Contains(status.Problems[i], problem) {
					t.Errorf("problem %q, want %q", status.Problems[i], problem)
				}
			}
			select {
			case <-changed:
			default:
				t.Error("a session came up, and no change is signaled")
			}
		})
	}
}

// TestDelivery follows one router through all that keeps addresses from it.
func TestDelivery(t *testing.T) {
	speaker, err := New(Options{Config: configured(router)})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, v4, v6 Problem, all ...FamilyProblem) {
		t.Helper()
		status := speaker.Sessions()[0]
		for family, want := range map[config.AddressFamily]Problem{config.IPv4: v4, config.IPv6: v6} {
			if why, wanted := status.Delivery(family); why != want || !wanted {
				t.Errorf("%s: %s is not announced for %q (is wanted: %t), want %q", what, family, why, wanted, want)
			}
		}
		if got := status.FamilyProblems(); !slices.Equal(got, all) {
			t.Errorf("%s: problems %v, want %v", what, got, all)
		}
	}
	addr := netip.MustParseAddr(router.Address)
	v4, v6 := bgp.NewCapMultiProtocol(bgp.RF_IPv4_UC), bgp.NewCapMultiProtocol(bgp.RF_IPv6_UC)
	expect("at first", NotUp, NotUp, FamilyProblem{Problem: NotUp})
	speaker.sessions.explain(addr, dialFailure("i/o timeout"))
	expect("no answer", NoAnswer, NoAnswer, FamilyProblem{Problem: NoAnswer})
	speaker.sessions.observe(observed(bgp.BGP_FSM_ESTABLISHED, v4), time.Now())
	expect("one family", "", NoFamily, FamilyProblem{config.IPv4, NoAddPath}, FamilyProblem{config.IPv6, NoFamily})
	speaker.sessions.observe(observed(bgp.BGP_FSM_IDLE), time.Now())
	expect("it ended", Ended, Ended, FamilyProblem{Problem: Ended})
	speaker.sessions.observe(observed(bgp.BGP_FSM_ESTABLISHED, v4, v6, bgp.NewCapAddPath([]*bgp.CapAddPathTuple{
		bgp.NewCapAddPathTuple(bgp.RF_IPv4_UC, bgp.BGP_ADD_PATH_RECEIVE), bgp.NewCapAddPathTuple(bgp.RF_IPv6_UC, bgp.BGP_ADD_PATH_RECEIVE),
	})), time.Now())
	expect("everything", "", "")
	only := router
	only.Families = []config.AddressFamily{config.IPv4}
	if err := speaker.Reconfigure(t.Context(), configured(only)); err != nil {
		t.Fatal(err)
	}
	if _, wanted := speaker.Sessions()[0].Delivery(config.IPv6); wanted {
		t.Error("a session of IPv4 only is to carry IPv6")
	}
}

func TestPasswordFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(content string) string {
		file := filepath.Join(dir, "password")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for content, want := range map[string]string{
		"secret\r\n": "secret", " with spaces ": " with spaces ", "": "is empty", strings.Repeat("x", 81): "at most 80",
	} {
		got, err := Machine{}.withDefaults().password(write(content))
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
	}
	secured := router
	secured.PasswordFile = filepath.Join(dir, "absent")
	without, err := newSettings(configured(secured), settings{}, Machine{}.withDefaults())
	if err != nil || len(without.neighbors) != 0 || len(without.missing[netip.MustParseAddr(secured.Address)]) == 0 {
		t.Errorf("a router whose password was never read: %+v, %v", without, err)
	}
	secured.PasswordFile = write("secret")
	with, err := newSettings(configured(secured), without, Machine{}.withDefaults())
	if err != nil || len(with.neighbors) != 1 {
		t.Errorf("a router whose password can be read: %+v, %v", with, err)
	}
	if err := os.Remove(secured.PasswordFile); err != nil {
		t.Fatal(err)
	}
	kept, err := newSettings(configured(secured), with, Machine{}.withDefaults())
	if err != nil || kept.neighbors[netip.MustParseAddr(secured.Address)].session.password != "secret" {
		t.Errorf("a router whose password can no longer be read: %+v, %v", kept, err)
	}
}

func TestExplanations(t *testing.T) {
	for words, record := range map[string]func(*slog.Logger){
		"no answer":   func(l *slog.Logger) { l.Debug("failed to connect", "Error", "dial tcp: i/o timeout") },
		"refused":     func(l *slog.Logger) { l.Debug("failed to connect", "Error", "dial tcp: connection refused") },
		"unreachable": func(l *slog.Logger) { l.Debug("failed to connect", "Error", "dial tcp: network is unreachable") },
		"the router ended the session: the AS": func(l *slog.Logger) {
			l.Info("received notification", "Code", 2, "Subcode", 2)
		},
		`"maintenance"`: func(l *slog.Logger) {
			l.Info("received notification", "Code", 6, "Subcode", 2, "Communicated-Reason", "maintenance")
		},
		"too little processor time": func(l *slog.Logger) { l.Info("received notification", "Code", 4, "Subcode", 0) },
		"before the session began":  func(l *slog.Logger) { l.Debug("outgoing connection IO error", "reason", "read-failed") },
		"hold time":                 func(l *slog.Logger) { l.Warn("hold timer expired") },
	} {
		var heard string
		b := &bridge{to: logr.Discard(), explain: func(peer netip.Addr, why failure) {
			if peer == one {
				heard = why.words
			}
		}}
		record(b.logger().With("Topic", "Peer", "Key", one.String()))
		if !strings.Contains(heard, words) {
			t.Errorf("heard %q, want %q", heard, words)
		}
	}
}

func TestBridgeKeepsLevels(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: infoVerbosity})
	b := &bridge{to: logger, explain: func(netip.Addr, failure) {}}
	from := b.logger()
	from.Debug("debug")
	from.Info("info", "Key", "value")
	from.Warn("warn")
	from.Error("error")
	b.muted.Store(true)
	from.Error("muted")
	if len(lines) != 3 || !strings.Contains(lines[0], `"level"=2 "msg"="info" "key"="value"`) ||
		!strings.Contains(lines[1], `"level"=0`) || !strings.Contains(lines[2], `"error"=null`) {
		t.Errorf("%q", lines)
	}
}

func TestRouterID(t *testing.T) {
	loopback := netip.MustParseAddr("127.0.0.1")
	if got := deriveRouterID([]netip.Addr{loopback}); got != loopback {
		t.Errorf("router ID %s for a router that is reached from %s", got, loopback)
	}
	s := settings{config: configured(router)}
	if _, err := s.identify(func([]netip.Addr) netip.Addr { return netip.Addr{} }); err == nil {
		t.Error("a speaker without a router ID speaks")
	}
}
