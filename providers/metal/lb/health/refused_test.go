package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

const nodePort = 30000

// rounds probes the kube-proxies of three nodes, and a health-check node port of each if that says something, twice a second.
type rounds struct {
	*board
	now time.Time
}

func newRounds(nodes int) *rounds {
	r := &rounds{newBoard(limitsOf(settings())), time.UnixMilli(1_000_000)}
	for i := 1; i <= nodes; i++ {
		r.add(nodeOf(i), false)
	}
	return r
}

func portOf(i int) model.Probe { return model.Probe{Node: nodeOf(i).Node, Port: nodePort} }

// probe has each node answer, and its health-check node port after it.
func (r *rounds) probe(count int, port *answer, nodes ...answer) {
	for range count {
		for i, said := range nodes {
			began := r.now.Add(time.Duration(i) * 20 * time.Millisecond)
			r.observe(nodeOf(i+1), outcome{answer: said, began: began, witness: r.witness(nodeOf(i + 1))})
			if port != nil {
				r.observe(portOf(i+1), outcome{answer: *port, began: began.Add(time.Millisecond), witness: r.witness(portOf(i + 1))})
			}
		}
		r.now = r.now.Add(500 * time.Millisecond)
	}
}

func (r *rounds) want(t *testing.T, healths ...model.Health) {
	t.Helper()
	for i, want := range healths {
		if got := r.ports[nodeOf(i+1)].health; got != want {
			t.Errorf("node %d is %s, want %s", i+1, got, want)
		}
	}
}

// TestFirstServiceWithPolicyLocalTakesNoNodeOut is a cluster whose nodes drop what comes to kube-proxy's port. The health-check node
// port of the first Service with policy Local answers, which proves that the prober's network works.
func TestFirstServiceWithPolicyLocalTakesNoNodeOut(t *testing.T) {
	r := newRounds(3)
	r.probe(20, nil, silent, silent, silent)
	r.want(t, model.HealthUnknown, model.HealthUnknown, model.HealthUnknown)
	for i := 1; i <= 3; i++ {
		r.add(portOf(i), false)
	}
	said := welcoming
	r.probe(10, &said, silent, silent, silent)
	r.want(t, model.HealthUnreached, model.HealthUnreached, model.HealthUnreached)
	if got := r.ports[portOf(1)].health; got != model.Healthy || !r.unproven() {
		t.Errorf("the health-check node port is %s, unproven: %t", got, r.unproven())
	}
	r.probe(3, &said, welcoming, silent, silent) // so kube-proxy does answer, and nodes on which it never has are suspect
	r.want(t, model.Healthy, model.Unhealthy, model.Unhealthy)
	if r.unproven() {
		t.Error("kube-proxy answers, and counts as unproven")
	}
}

// TestClusterWithoutKubeProxy has no process that listens where kube-proxy would: refused connections still say which machines live.
func TestClusterWithoutKubeProxy(t *testing.T) {
	r := newRounds(3)
	r.probe(3, nil, closed, closed, silent)
	r.want(t, model.HealthRefused, model.HealthRefused, model.Unhealthy)
	if !r.unproven() || !r.decided() {
		t.Errorf("unproven: %t, decided: %t", r.unproven(), r.decided())
	}
}

// TestNodeThatNeverAnsweredIsSuspect is a replica that starts while one node of three is dead.
func TestNodeThatNeverAnsweredIsSuspect(t *testing.T) {
	r := newRounds(3)
	r.probe(3, nil, welcoming, welcoming, silent)
	r.want(t, model.Healthy, model.Healthy, model.Unhealthy)
}

func TestProofIsAboutThePortThatIsAsked(t *testing.T) {
	inNetwork(t, 2, func(t *testing.T, network *network, prober *Prober) {
		until(t, func() bool { return prober.Snapshot().Ready })
		if prober.Snapshot().Unproven {
			t.Error("two kube-proxies answer")
		}
		network.set(closed, 1, 2)
		elsewhere := settings()
		elsewhere.KubeProxyPort = 10250
		prober.Configure(elsewhere)
		if snapshot := prober.Snapshot(); !snapshot.Unproven || snapshot.Health[nodeOf(1)] != model.Healthy {
			t.Errorf("another port: %+v", snapshot)
		}
	})
}

// TestKubeProxiesReturnTogether has the kube-proxies of all nodes end, and come back one after the other. The first one to answer does not
// make fallbacks of the others.
func TestKubeProxiesReturnTogether(t *testing.T) {
	inNetwork(t, 3, func(t *testing.T, network *network, prober *Prober) {
		until(t, func() bool { return prober.Snapshot().Ready })
		network.set(closed, 1, 2, 3)
		until(t, func() bool {
			return prober.healthOf(1) == model.HealthRefused && prober.healthOf(2) == model.HealthRefused && prober.healthOf(3) == model.HealthRefused
		})
		time.Sleep(time.Minute)
		network.set(welcoming, 1)
		until(t, func() bool { return prober.healthOf(1) == model.Healthy })
		if !prober.Snapshot().Unproven {
			t.Error("the first kube-proxy that answers makes fallbacks of the others at once")
		}
		for len(prober.Changed()) > 0 {
			<-prober.Changed()
		}
		took := until(t, func() bool { return !prober.Snapshot().Unproven })
		if took < 14*time.Second || took > 16*time.Second {
			t.Errorf("the others have %s to follow", took)
		}
		time.Sleep(time.Second)
		if len(prober.Changed()) == 0 {
			t.Error("the end of that time is no change")
		}
	})
}

func TestKubeProxyIsRestarted(t *testing.T) {
	inNetwork(t, 5, func(t *testing.T, network *network, prober *Prober) {
		until(t, func() bool { return prober.Snapshot().Ready })
		for i := 1; i <= 5; i++ {
			network.set(closed, i)
			for range 14 {
				time.Sleep(time.Second)
				if got := prober.healthOf(i); got != model.Healthy {
					t.Fatalf("node %d is %s while its kube-proxy is restarted", i, got)
				}
			}
			network.set(welcoming, i)
			time.Sleep(2 * time.Second)
		}
		network.set(closed, 1)
		took := until(t, func() bool { return prober.healthOf(1) == model.HealthRefused })
		if took < 14*time.Second || took > 16*time.Second {
			t.Errorf("a kube-proxy that does not come back is noticed after %s", took)
		}
		network.set(welcoming, 1)
		if took := until(t, func() bool { return prober.healthOf(1) == model.Healthy }); took > 3*time.Second {
			t.Errorf("it is back after %s", took)
		}
	})
}

// TestMachineDiesWhileItsKubeProxyIsRestarted has silence follow refused connections: it is out as soon as any machine that dies.
func TestMachineDiesWhileItsKubeProxyIsRestarted(t *testing.T) {
	inNetwork(t, 5, func(t *testing.T, network *network, prober *Prober) {
		until(t, func() bool { return prober.Snapshot().Ready })
		network.set(closed, 1)
		time.Sleep(5 * time.Second)
		network.set(silent, 1)
		if took := until(t, func() bool { return prober.healthOf(1) == model.Unhealthy }); took > 2*time.Second {
			t.Errorf("after %s", took)
		}
	})
}

// TestRefusedBySilenceBetween has some packets be lost while kube-proxy is away for good: its time goes on.
func TestRefusedBySilenceBetween(t *testing.T) {
	inNetwork(t, 5, func(t *testing.T, network *network, prober *Prober) {
		until(t, func() bool { return prober.Snapshot().Ready })
		network.set(closed, 1)
		for range 7 {
			time.Sleep(1600 * time.Millisecond)
			network.set(silent, 1)
			time.Sleep(400 * time.Millisecond)
			network.set(closed, 1)
		}
		if took := until(t, func() bool { return prober.healthOf(1) == model.HealthRefused }); took > 3*time.Second {
			t.Errorf("14 s, and %s", took)
		}
	})
}

// TestFlappingNodeIsDamped has a node fail as soon as it is healthy, again and again.
func TestFlappingNodeIsDamped(t *testing.T) {
	inNetwork(t, 3, func(t *testing.T, network *network, prober *Prober) {
		until(t, func() bool { return prober.Snapshot().Ready })
		var pauses []time.Duration
		for range 9 {
			network.set(silent, 1)
			until(t, func() bool { return prober.healthOf(1) == model.Unhealthy })
			network.set(welcoming, 1)
			began := time.Now()
			for prober.healthOf(1) != model.Healthy && time.Since(began) < 2*lastHold {
				time.Sleep(100 * time.Millisecond)
			}
			pauses = append(pauses, time.Since(began).Round(time.Second))
		}
		for i, want := range []time.Duration{1, 5, 10, 20, 40, 60, 60, 60, 60} {
			if got := pauses[i]; got < want*time.Second || got > (want+2)*time.Second {
				t.Errorf("failure %d: back after %s, want %d s", i+1, got, want)
			}
		}
		time.Sleep(forgetAfter)
		network.set(silent, 1)
		until(t, func() bool { return prober.healthOf(1) == model.Unhealthy })
		network.set(welcoming, 1)
		if took := until(t, func() bool { return prober.healthOf(1) == model.Healthy }); took > 3*time.Second {
			t.Errorf("after a while without failures: %s", took)
		}
	})
}

// TestFlappingChangesFewSets bounds what a node may do to flows, however it flaps: its health leaves Healthy at most as often as the
// pauses that double let it.
func TestFlappingChangesFewSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const minutes, step = 10, 500 * time.Millisecond
		flapping, limits := state{node: true}, limitsOf(settings())
		now, left := time.UnixMilli(1_000_000), 0
		for end := now.Add(minutes * time.Minute); now.Before(end); {
			said := rapid.SampledFrom([]answer{silent, closed, refusing, welcoming, welcoming}).Draw(t, "said")
			for range rapid.IntRange(1, 40).Draw(t, "times") {
				before := flapping.health
				flapping.observe(outcome{answer: said, began: now, witness: now.Add(-step / 4), reached: true}, limits)
				if before == model.Healthy && flapping.health != model.Healthy {
					left++
				}
				now = now.Add(step)
			}
		}
		if most := 6 + minutes; left > most {
			t.Fatalf("it left %d times in %d minutes", left, minutes)
		}
	})
}

// TestPodsThatComeAndGoAreNotDamped has a health-check node port follow its pods.
func TestPodsThatComeAndGoAreNotDamped(t *testing.T) {
	r := newRounds(2)
	r.add(portOf(1), false)
	r.add(portOf(2), false)
	for range 20 {
		for _, said := range []answer{refusing, welcoming} {
			r.probe(3, &said, welcoming, welcoming)
		}
		if got := r.ports[portOf(1)].health; got != model.Healthy {
			t.Fatal(got)
		}
	}
}

// TestPortThatIsAboutToOpen is a health-check node port that kube-proxy has not opened yet: nothing is known of it.
func TestPortThatIsAboutToOpen(t *testing.T) {
	r := newRounds(1)
	r.add(portOf(1), false)
	said := closed
	r.probe(6, &said, welcoming)
	if got := r.ports[portOf(1)].health; got != model.HealthUnknown {
		t.Errorf("after 3 s it is %s", got)
	}
	r.probe(30, &said, welcoming)
	if got := r.ports[portOf(1)].health; got != model.HealthRefused {
		t.Errorf("after 18 s it is %s", got)
	}
}

// machine serves as kube-proxy does, at an address of loopback, until it is stopped.
func machine(t *testing.T, at netip.AddrPort) *httptest.Server {
	t.Helper()
	listener, err := net.Listen("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// startProber probes two machines of loopback, over real sockets, ten times a second.
func startProber(t *testing.T, change func(*config.Health)) (prober *Prober, machines [2]*httptest.Server, at [2]netip.AddrPort) {
	t.Helper()
	first := machine(t, netip.MustParseAddrPort("127.0.1.1:0"))
	at[0] = netip.MustParseAddrPort(first.Listener.Addr().String())
	at[1] = netip.AddrPortFrom(netip.MustParseAddr("127.0.1.2"), at[0].Port())
	machines = [2]*httptest.Server{first, machine(t, at[1])}
	settings := settings()
	settings.Interval.Duration, settings.Timeout.Duration = 100*time.Millisecond, 5*time.Second
	settings.KubeProxyPort = int32(at[0].Port())
	change(&settings)
	prober = New(settings, registry())
	prober.SetTargets(map[model.Probe]netip.Addr{nodeOf(1): at[0].Addr(), nodeOf(2): at[1].Addr()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); prober.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	poll.Until(t, "both are healthy", func(context.Context) error {
		if prober.healthOf(1) != model.Healthy || prober.healthOf(2) != model.Healthy {
			return fmt.Errorf("%v", prober.Snapshot().Health)
		}
		return nil
	})
	return prober, machines, at
}

// TestRestartOverRealSockets has a process end, and come back, at which a prober asks with a connection that it keeps.
func TestRestartOverRealSockets(t *testing.T) {
	for name, how := range map[string]config.KubeProxyProbe{"HTTP": config.ProbeHTTP, "TCP": config.ProbeTCP} {
		t.Run(name, func(t *testing.T) {
			const wait = time.Second
			prober, machines, at := startProber(t, func(health *config.Health) {
				health.KubeProxyProbe, health.RefusedWait = how, &metav1.Duration{Duration: wait}
			})
			ended := time.Now() // before the prober can notice
			machines[0].CloseClientConnections()
			machines[0].Close()
			poll.Until(t, "it refuses connections for long enough", func(context.Context) error {
				switch got := prober.healthOf(1); got {
				case model.HealthRefused:
					return nil
				case model.Healthy:
					return errors.New("still healthy")
				default:
					t.Fatalf("it is %s", got)
					return nil
				}
			})
			if took := time.Since(ended); took < wait-200*time.Millisecond {
				t.Errorf("it was out after %s", took)
			}
			machine(t, at[0])
			poll.Until(t, "it is healthy again", func(context.Context) error { return poll.Holds(prober.healthOf(1) == model.Healthy) })
			if got := prober.healthOf(2); got != model.Healthy {
				t.Errorf("the other one is %s", got)
			}
		})
	}
}

// TestEndedConnectionsProveThatTheMachineLives is a process that takes connections and ends them.
func TestEndedConnectionsProveThatTheMachineLives(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	asker := newHTTPAsker()
	defer asker.close()
	at := netip.MustParseAddrPort(listener.Addr().String())
	for range 5 {
		if got := asker.ask(t.Context(), at, true, 5*time.Second); got != closed {
			t.Errorf("%s", got)
		}
		if got := asker.connect(t.Context(), at, 5*time.Second); got != welcoming {
			t.Errorf("that connections are taken is %s", got)
		}
	}
}
