package health

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

// network answers probes as a test says, by address, in virtual time: what is silent takes the timeout.
type network struct {
	mu   sync.Mutex
	says map[netip.Addr]answer
	cut  bool // everything is silent but what is local
	own  netip.Addr
	// asked is when each address was last asked.
	asked map[netip.Addr]time.Time
}

func (n *network) ask(ctx context.Context, at netip.AddrPort, _ bool, timeout time.Duration) answer {
	n.mu.Lock()
	if n.asked == nil {
		n.asked = map[netip.Addr]time.Time{}
	}
	n.asked[at.Addr()] = time.Now()
	said := n.says[at.Addr()]
	if n.cut && at.Addr() != n.own {
		said = silent
	}
	n.mu.Unlock()
	wait := time.Millisecond
	if said == silent {
		wait = timeout
	}
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
	return said
}

func (n *network) connect(ctx context.Context, at netip.AddrPort, timeout time.Duration) answer {
	return n.ask(ctx, at, true, timeout)
}

func (n *network) close() {}

func (n *network) asker() asker { return n }

func (n *network) locality() (locality, error) {
	return func(addr netip.Addr) bool { return addr == n.own }, nil
}

func (n *network) set(said answer, nodes ...int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, i := range nodes {
		n.says[addrOf(i)] = said
	}
}

func (n *network) setCut(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
}

func addrOf(i int) netip.Addr        { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
func nodeOf(i int) model.Probe       { return model.Probe{Node: fmt.Sprintf("n%d", i)} }
func settings() config.Health        { return config.Announcement{}.WithDefaults().Health }
func registry() *prometheus.Registry { return prometheus.NewRegistry() }

func targetsOf(count int) map[model.Probe]netip.Addr {
	targets := map[model.Probe]netip.Addr{}
	for i := 1; i <= count; i++ {
		targets[nodeOf(i)] = addrOf(i)
	}
	return targets
}

// inNetwork runs a prober of nodes that are all well, in virtual time, and hands it to the test when its first round is over.
func inNetwork(t *testing.T, nodes int, test func(t *testing.T, network *network, prober *Prober)) {
	synctest.Test(t, func(t *testing.T) {
		network := &network{says: map[netip.Addr]answer{}}
		for i := 1; i <= nodes; i++ {
			network.set(welcoming, i)
		}
		prober := newProber(settings(), registry(), network.asker, network.locality)
		prober.SetTargets(targetsOf(nodes))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			prober.Run(ctx)
		}()
		test(t, network, prober)
		cancel()
		<-done
	})
}

// until waits for a condition in virtual time and returns how long that took.
func until(t *testing.T, condition func() bool) time.Duration {
	t.Helper()
	return poll.Until(t, "what the test waits for", func(context.Context) error { return poll.Holds(condition()) })
}

func (p *Prober) healthOf(i int) model.Health { return p.Snapshot().Health[nodeOf(i)] }

// TestNewNodesDoNotBlind has the first nodes join while the prober runs. That none has answered yet says nothing of the prober.
func TestNewNodesDoNotBlind(t *testing.T) {
	inNetwork(t, 0, func(t *testing.T, network *network, prober *Prober) {
		until(t, func() bool { return prober.Snapshot().Ready })
		time.Sleep(time.Minute)
		for i := 1; i <= 5; i++ {
			network.set(welcoming, i)
		}
		prober.SetTargets(targetsOf(5))
		until(t, func() bool {
			if prober.Snapshot().Blind {
				t.Fatal("blind before anything was asked")
			}
			return prober.healthOf(5) == model.Healthy
		})
		network.setCut(true)
		if took := until(t, func() bool { return prober.Snapshot().Blind }); took > 3*time.Second {
			t.Errorf("blind after %s without an answer", took)
		}
	})
}

func TestFirstRoundIsShort(t *testing.T) {
	inNetwork(t, 50, func(t *testing.T, network *network, prober *Prober) {
		took := until(t, func() bool { return prober.Snapshot().Ready })
		if took < 100*time.Millisecond || took > 800*time.Millisecond {
			t.Errorf("three successes of each took %s", took)
		}
		for probe, health := range prober.Snapshot().Health {
			if health != model.Healthy {
				t.Errorf("%v is %v", probe, health)
			}
		}
	})
}

// Ports that are probed at the same time bear no witness for each other, and their probes are a burst.
func TestProbesAreSpreadAfterTheFirstRound(t *testing.T) {
	inNetwork(t, 50, func(t *testing.T, network *network, prober *Prober) {
		until(t, func() bool { return prober.Snapshot().Ready })
		interval := settings().Interval.Duration
		time.Sleep(3 * interval)
		network.mu.Lock()
		defer network.mu.Unlock()
		var since []time.Duration
		for _, asked := range network.asked {
			since = append(since, time.Since(asked))
		}
		slices.Sort(since)
		longest := interval - since[len(since)-1] + since[0]
		for i, at := range since[1:] {
			longest = max(longest, at-since[i])
		}
		if longest > interval/2 {
			t.Errorf("of each %s, none of 50 nodes is asked for %s", interval, longest)
		}
	})
}

func TestFirstRoundEndsWithDeadNodes(t *testing.T) {
	inNetwork(t, 5, func(t *testing.T, network *network, prober *Prober) {
		network.set(silent, 2)
		if took := until(t, func() bool { return prober.Snapshot().Ready }); took > 2200*time.Millisecond {
			t.Errorf("took %s", took)
		}
		if got := prober.healthOf(2); got != model.Unhealthy {
			t.Errorf("the dead node is %v", got)
		}
	})
}

func TestDeadNodeIsOutInTime(t *testing.T) {
	for _, nodes := range []int{2, 3, 100} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			inNetwork(t, nodes, func(t *testing.T, network *network, prober *Prober) {
				until(t, func() bool { return prober.Snapshot().Ready })
				network.set(silent, 1)
				took := until(t, func() bool { return prober.healthOf(1) == model.Unhealthy })
				if took < 500*time.Millisecond || took > 2*time.Second {
					t.Errorf("after %s", took)
				}
				network.set(welcoming, 1)
				took = until(t, func() bool { return prober.healthOf(1) == model.Healthy })
				if took < 100*time.Millisecond || took > 700*time.Millisecond {
					t.Errorf("back after %s, want three successes, two of them at once", took)
				}
			})
		})
	}
}

// A kube-proxy says that it is well before it has written its rules. Where it may have been started meanwhile, its node is back after three intervals.
func TestStartedKubeProxyIsBackAfterThreeSuccesses(t *testing.T) {
	for name, answers := range map[string][]answer{
		"a machine that boots":                               {silent, closed},
		"a kube-proxy that was restarted before the silence": {closed, silent},
		"a kube-proxy with old rules":                        {refusing},
	} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, 3, func(t *testing.T, network *network, prober *Prober) {
				until(t, func() bool { return prober.Snapshot().Ready })
				for _, said := range answers {
					network.set(said, 1)
					time.Sleep(2 * time.Second)
				}
				network.set(welcoming, 1)
				if took := until(t, func() bool { return prober.healthOf(1) == model.Healthy }); took < time.Second {
					t.Errorf("back after %s", took)
				}
			})
		})
	}
}

func TestOneLostProbeIsNothing(t *testing.T) {
	inNetwork(t, 3, func(t *testing.T, network *network, prober *Prober) {
		until(t, func() bool { return prober.Snapshot().Ready })
		for range 5 {
			network.set(silent, 1)
			time.Sleep(490 * time.Millisecond) // one probe begins in an interval
			network.set(welcoming, 1)
			time.Sleep(2 * time.Second)
			if got := prober.healthOf(1); got != model.Healthy {
				t.Fatalf("the node is %v", got)
			}
		}
	})
}

func TestProbersOwnFaultChangesNoHealthState(t *testing.T) {
	for name, own := range map[string]netip.Addr{"elsewhere": {}, "on one of the nodes": addrOf(1)} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, 20, func(t *testing.T, network *network, prober *Prober) {
				network.own = own
				prober.SetTargets(nil)
				prober.SetTargets(targetsOf(20))
				until(t, func() bool { return prober.healthOf(20) == model.Healthy && prober.healthOf(1) == model.Healthy })
				time.Sleep(time.Second)
				network.setCut(true)
				took := until(t, func() bool { return prober.Snapshot().Blind })
				if took > 3*time.Second {
					t.Errorf("it was noticed after %s", took)
				}
				time.Sleep(20 * time.Second)
				for probe, health := range prober.Snapshot().Health {
					if health != model.Healthy {
						t.Errorf("%v is %v", probe, health)
					}
				}
				network.set(silent, 7) // dies while no probe can see it
				network.setCut(false)
				until(t, func() bool { return prober.healthOf(7) == model.Unhealthy })
				until(t, func() bool { return !prober.Snapshot().Blind })
				if snapshot := prober.Snapshot(); snapshot.Health[nodeOf(8)] != model.Healthy {
					t.Errorf("afterwards: %+v", snapshot)
				}
			})
		})
	}
}

// TestBlindFromTheBeginning is a replica that is restarted while its network is down: it must not take all nodes out when that
// ends, because none has been probed often enough.
func TestBlindFromTheBeginning(t *testing.T) {
	inNetwork(t, 5, func(t *testing.T, network *network, prober *Prober) {
		network.setCut(true)
		if took := until(t, func() bool { return prober.Snapshot().Ready }); took > 2200*time.Millisecond {
			t.Errorf("ready after %s", took)
		}
		until(t, func() bool { return prober.Snapshot().Blind })
		time.Sleep(10 * time.Second)
		network.setCut(false)
		until(t, func() bool {
			snapshot := prober.Snapshot()
			for i := 1; i <= 5; i++ {
				if health := snapshot.Health[nodeOf(i)]; health == model.Unhealthy || health == model.HealthUnknown && !snapshot.Blind {
					t.Fatalf("node %d is %v, blind %t", i, health, snapshot.Blind)
				}
			}
			return !snapshot.Blind
		})
	})
}

// TestOfTwoNodesOneDies is the smallest cluster, with the prober on one of the nodes: its own node is the only witness.
func TestOfTwoNodesOneDies(t *testing.T) {
	inNetwork(t, 2, func(t *testing.T, network *network, prober *Prober) {
		network.own = addrOf(1)
		prober.SetTargets(nil)
		prober.SetTargets(targetsOf(2))
		until(t, func() bool { return prober.healthOf(2) == model.Healthy })
		network.set(silent, 2)
		if took := until(t, func() bool { return prober.healthOf(2) == model.Unhealthy }); took > 2500*time.Millisecond {
			t.Errorf("after %s", took)
		}
	})
}

func TestAnswersNeedNoWitness(t *testing.T) {
	inNetwork(t, 1, func(t *testing.T, network *network, prober *Prober) {
		until(t, func() bool { return prober.healthOf(1) == model.Healthy })
		network.set(leaving, 1)
		until(t, func() bool { return prober.healthOf(1) == model.HealthLeaving })
		network.set(refusing, 1)
		until(t, func() bool { return prober.healthOf(1) == model.Unhealthy })
		network.set(welcoming, 1)
		until(t, func() bool { return prober.healthOf(1) == model.Healthy })
		network.set(silent, 1)
		time.Sleep(30 * time.Second)
		if got := prober.healthOf(1); got != model.Healthy || !prober.Snapshot().Blind {
			t.Errorf("the only node is silent: %v, blind %t", got, prober.Snapshot().Blind)
		}
	})
}

func TestTargetsComeAndGo(t *testing.T) {
	inNetwork(t, 3, func(t *testing.T, network *network, prober *Prober) {
		until(t, func() bool { return prober.Snapshot().Ready })
		targets := targetsOf(3)
		delete(targets, nodeOf(1))
		targets[nodeOf(2)] = addrOf(200) // no host is there
		prober.SetTargets(targets)
		snapshot := prober.Snapshot()
		_, found := snapshot.Health[nodeOf(1)]
		if found || snapshot.Health[nodeOf(2)] != model.HealthUnknown || snapshot.Health[nodeOf(3)] != model.Healthy {
			t.Errorf("at once: %v", snapshot.Health)
		}
		if !snapshot.Ready {
			t.Error("a new target made the prober unready")
		}
		until(t, func() bool { return prober.healthOf(2) == model.Unhealthy })
	})
}

func TestSettingsChangeLive(t *testing.T) {
	inNetwork(t, 3, func(t *testing.T, network *network, prober *Prober) {
		until(t, func() bool { return prober.Snapshot().Ready })
		slower := settings()
		slower.Failures = 10
		prober.Configure(slower)
		network.set(silent, 1)
		if took := until(t, func() bool { return prober.healthOf(1) == model.Unhealthy }); took < 4500*time.Millisecond {
			t.Errorf("ten failures after %s", took)
		}
	})
}

// event is something that happens to a probe in a simulation, in milliseconds.
type event struct {
	at, node, began int
	ends, lost      bool
}

// TestCutsTakeNothingOut simulates probes of nodes that are all well, but one that may die, by a prober whose network fails for any
// time now and then. A probe is lost if the network fails in any of the time from its beginning to its answer.
func TestCutsTakeNothingOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const interval, timeout, trip, horizon = 500, 500, 90, 20_000
		limits := limits{failures: rapid.IntRange(1, 3).Draw(t, "failures"), successes: 1, margin: 100 * time.Millisecond}
		nodes := rapid.IntRange(2, 6).Draw(t, "nodes")
		dead := rapid.IntRange(0, 1).Draw(t, "dead")
		var cuts [][2]int // with time between them: two within one row of probes look like a death
		for i := range rapid.IntRange(0, 3).Draw(t, "cuts") {
			from := 2000 + i*5500 + rapid.IntRange(0, 500).Draw(t, "from")
			cuts = append(cuts, [2]int{from, from + rapid.IntRange(0, 3000).Draw(t, "length")})
		}
		lost := func(from, to int) bool {
			return slices.ContainsFunc(cuts, func(cut [2]int) bool { return from < cut[1] && to > cut[0] })
		}
		board, moment := newBoard(limits), func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
		var queue []event
		for i := range nodes {
			board.add(nodeOf(i), false)
			queue = append(queue, event{at: 1000 + rapid.IntRange(0, interval-1).Draw(t, "phase"), node: i})
		}
		slices.SortFunc(queue, func(a, b event) int { return cmp.Compare(a.at, b.at) })
		witnesses := map[int]time.Time{}
		for queue[0].at < horizon {
			now := queue[0]
			queue = queue[1:]
			var next event
			if !now.ends {
				witnesses[now.node] = board.witness(nodeOf(now.node))
				next = event{at: now.at + trip, node: now.node, began: now.at, ends: true}
				if lost(now.at, now.at+trip) || now.node < dead && now.at > 3000 {
					next.at, next.lost = now.at+timeout, true
				}
			} else {
				said := welcoming
				if now.lost {
					said = silent
				}
				board.observe(nodeOf(now.node), outcome{answer: said, began: moment(now.began), witness: witnesses[now.node]})
				if now.node >= dead && now.at > 2000 && board.ports[nodeOf(now.node)].health != model.Healthy {
					t.Fatalf("node %d is well and was taken out at %d", now.node, now.at)
				}
				next = event{at: max(now.began+interval, now.at), node: now.node}
			}
			at, _ := slices.BinarySearchFunc(queue, next, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), -1) })
			queue = slices.Insert(queue, at, next)
		}
		if dead == 1 && board.ports[nodeOf(0)].health != model.Unhealthy {
			t.Fatal("the dead node is still in, long after the last cut")
		}
	})
}

func TestMetrics(t *testing.T) {
	registry := registry()
	prober := newProber(settings(), registry, (&network{}).asker, (&network{}).locality)
	prober.SetTargets(targetsOf(2))
	prober.board.ports[nodeOf(1)].health = model.Healthy
	want := `
		# HELP mooring_metal_probed_ports Ports of nodes that are probed, by health state (healthy, damped, leaving, refused, unhealthy, unreached, unknown).
		# TYPE mooring_metal_probed_ports gauge
		mooring_metal_probed_ports{state="damped"} 0
		mooring_metal_probed_ports{state="healthy"} 1
		mooring_metal_probed_ports{state="leaving"} 0
		mooring_metal_probed_ports{state="refused"} 0
		mooring_metal_probed_ports{state="unhealthy"} 0
		mooring_metal_probed_ports{state="unknown"} 1
		mooring_metal_probed_ports{state="unreached"} 0
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "mooring_metal_probed_ports"); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}
