package announce

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

const silent = "does not answer"

func TestRouterStates(t *testing.T) {
	type look struct {
		after time.Duration
		why   string
		known bool
		says  string
	}
	for name, looks := range map[string][]look{
		"a router that is up is known at once": {{0, "", true, ""}},
		"one that is down gets its time":       {{0, silent, false, ""}, {9 * time.Second, "refuses", false, ""}, {time.Second, "refuses", true, "refuses"}},
		"and is known as soon as it is up":     {{0, silent, false, ""}, {time.Second, "", true, ""}},
		"a reset is nothing":                   {{0, "", true, ""}, {time.Second, silent, true, ""}, {8 * time.Second, "", true, ""}, {8 * time.Second, silent, true, ""}},
		"an outage is, and so is its end":      {{0, "", true, ""}, {time.Second, silent, true, ""}, {10 * time.Second, silent, true, silent}, {time.Second, "", true, ""}},
		"other words have to last":             {{0, silent, false, ""}, {10 * time.Second, silent, true, silent}, {time.Second, "refuses", true, silent}, {9 * time.Second, silent, true, silent}, {time.Second, "refuses", true, silent}, {10 * time.Second, "refuses", true, "refuses"}},
	} {
		t.Run(name, func(t *testing.T) {
			state, now := &routerState{}, start
			for i, look := range looks {
				now = now.Add(look.after)
				state.observe(look.why, now)
				if state.known != look.known || state.why != look.says {
					t.Errorf("look %d: known %t as %q, want %t as %q", i+1, state.known, state.why, look.known, look.says)
				}
			}
		})
	}
}

// TestFlappingRouterIsBounded has a router come and go at random: what conditions say of it changes once a minute in the long run, and is
// right once the router stays as it is.
func TestFlappingRouterIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state, now := &routerState{}, start
		changes, said := 0, ""
		why := rapid.SampledFrom([]string{"", silent, "refuses"})
		last := ""
		for range rapid.IntRange(1, 300).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(100, 30_000).Draw(t, "milliseconds")) * time.Millisecond)
			last = why.Draw(t, "why")
			state.observe(last, now)
			if state.known && state.why != said {
				changes, said = changes+1, state.why
			}
		}
		if most := routerChanges + 2 + int(now.Sub(start)/routerPause); changes > most {
			t.Fatalf("%d changes in %s, want at most %d", changes, now.Sub(start), most)
		}
		for wait := time.Duration(1); wait > 0; {
			wait = state.observe(last, now)
			now = now.Add(wait)
		}
		if !state.known || state.why != last {
			t.Fatalf("known %t as %q, and it is %q", state.known, state.why, last)
		}
	})
}

// routersOf returns routers of both families by what keeps them from taking anything.
func routersOf(whys ...string) []Router {
	routers := make([]Router, len(whys))
	for i, why := range whys {
		is := RouterFamily{Wanted: true, Why: why}
		routers[i] = Router{Name: fmt.Sprintf("rack-%d", i+1), Families: [model.Families]RouterFamily{is, is}}
	}
	return routers
}

// writing is a ConditionWriter over Services that are all announced.
type writing struct {
	*ConditionWriter
	mu      sync.Mutex
	routers []Router
	changed chan struct{}
	patches int
	store   cache.Indexer
	// slow makes each write take a second.
	slow atomic.Bool
}

// slowClient is a client of which each write to a Service takes a second while slow is set.
type slowClient struct {
	kubernetes.Interface
	slow *atomic.Bool
}

func (c slowClient) CoreV1() typedcorev1.CoreV1Interface {
	return slowCore{c.Interface.CoreV1(), c.slow}
}

type slowCore struct {
	typedcorev1.CoreV1Interface
	slow *atomic.Bool
}

func (c slowCore) Services(namespace string) typedcorev1.ServiceInterface {
	return slowServices{c.CoreV1Interface.Services(namespace), c.slow}
}

type slowServices struct {
	typedcorev1.ServiceInterface
	slow *atomic.Bool
}

func (s slowServices) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*corev1.Service, error) {
	if s.slow.Load() {
		time.Sleep(time.Second)
	}
	return s.ServiceInterface.Patch(ctx, name, kind, data, options, subresources...)
}

func (w *writing) set(routers []Router) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.routers = routers
	w.changed <- struct{}{}
}

func (w *writing) written() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.patches
}

// newWriting returns one with some Services, which runs until the bubble's context ends.
func newWriting(t *testing.T, services int, routers []Router) *writing {
	t.Helper()
	w := &writing{routers: routers, changed: make(chan struct{}, 10), store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
	snapshot := Snapshot{Complete: true, Services: map[types.NamespacedName]model.ServiceState{}}
	client := fake.NewClientset()
	for i := range services {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("web-%d", i), UID: types.UID(fmt.Sprint(i)),
		}}
		addr := netip.AddrFrom4([4]byte{192, 0, byte(i / 256), byte(i % 256)})
		snapshot.Services[keyOf(service.Namespace, service.Name)] = model.ServiceState{UID: service.UID, Addresses: []model.AddressState{{
			Addr: addr, Pool: "public", NextHops: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Reason: model.Announced,
		}}}
		if err := w.store.Add(service); err != nil {
			t.Fatal(err)
		}
		if err := client.Tracker().Add(service); err != nil {
			t.Fatal(err)
		}
	}
	// What is patched is in the cache, as the informer's.
	client.PrependReactor("patch", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		w.patches++
		w.mu.Unlock()
		_, patched, err := clienttesting.ObjectReaction(client.Tracker())(action)
		if err == nil {
			err = w.store.Update(patched)
		}
		return true, patched, err
	})
	w.ConditionWriter = &ConditionWriter{
		Announcer: &Announcer{current: snapshot, watchers: map[chan struct{}]bool{}}, Client: slowClient{client, &w.slow},
		Services: corelisters.NewServiceLister(w.store), Recorder: &recorder{}, RoutersChanged: w.changed,
		Routers: func() []Router {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.routers
		},
	}
	return w
}

// run runs it until the test's function is over.
func (w *writing) run(t *testing.T, test func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	test()
	cancel()
	running.Wait()
}

// says returns the condition of the first Service.
func (w *writing) says(t *testing.T) string {
	t.Helper()
	object, found, err := w.store.GetByKey("default/web-0")
	if err != nil || !found {
		t.Fatal(found, err)
	}
	is := conditionOf(object.(*corev1.Service))
	if is == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", is.Status, is.Reason, is.Message)
}

// TestConditionFollowsSessions has the sessions of a leader come, go and stay away.
func TestConditionFollowsSessions(t *testing.T) {
	const hops = "192.0.0.0 is announced with 1 next hop"
	synctest.Test(t, func(t *testing.T) {
		w := newWriting(t, 1, routersOf("", "", silent))
		w.run(t, func() {
			expect := func(after time.Duration, want string) {
				t.Helper()
				time.Sleep(after)
				synctest.Wait()
				if got := w.says(t); !strings.HasPrefix(got, want) || want == "" && got != "" {
					t.Errorf("it says %q, want %q", got, want)
				}
			}
			expect(9*time.Second, "")
			expect(2*time.Second, "True Announced: "+hops+", by the leader to 2 of 3 routers (rack-3 does not answer)")
			w.set(routersOf(silent, "refuses the connection", silent))
			expect(9*time.Second, "True")
			expect(6*time.Second, "False NoSession: 192.0.0.0 has 1 next hop and is announced by the leader to 0 of 3 routers "+
				"(rack-1 does not answer, rack-2 refuses the connection, rack-3 does not answer); what sessions the other replicas have")
			w.set(routersOf("", "", ""))
			expect(time.Second, "True Announced: "+hops+", by the leader to 3 of 3 routers")
			w.set(nil)
			expect(6*time.Second, "False NoSession: 192.0.0.0 has 1 next hop and is announced to no router")
		})
	})
}

// TestSegmentIsEnough has no router with a session, only a host that answers ARP.
func TestSegmentIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriting(t, 1, routersOf(silent))
		w.OnSegment = func(netip.Addr) (bool, string) { return true, "" }
		w.run(t, func() {
			time.Sleep(15 * time.Second)
			if got, want := w.says(t), "True Announced: 192.0.0.0 is announced with 1 next hop, by the leader to 0 of 1 router (rack-1 does not answer)"; got != want {
				t.Errorf("it says %q, want %q", got, want)
			}
		})
	})
}

// TestNoReplicaAnswersOnTheSegment has a host that answers ARP and cannot for this address, in a cluster with and without routers.
func TestNoReplicaAnswersOnTheSegment(t *testing.T) {
	const problem = "it is on no network"
	for name, test := range map[string]struct {
		routers       func() []Router
		problem, want string
	}{
		"no BGP":                         {nil, problem, "False NotAnswered: 192.0.0.0 is not announced: it is on no network"},
		"no BGP, and not for this pool":  {nil, "", "False NotAnswered: 192.0.0.0 is not announced: neither l2.pools nor l2.advertisements name its pool"},
		"a router has it":                {func() []Router { return routersOf("") }, problem, "True Announced: 192.0.0.0 is announced with 1 next hop, by the leader to 1 of 1 router; it is on no network"},
		"a router has it, not this pool": {func() []Router { return routersOf("") }, "", "True Announced: 192.0.0.0 is announced with 1 next hop, by the leader to 1 of 1 router"},
		"no router has it either": {func() []Router { return routersOf(silent) }, problem, "False NoSession: 192.0.0.0 has 1 next hop and is announced by the leader " +
			"to 0 of 1 router (rack-1 does not answer); what sessions the other replicas have, the leader does not know; it is on no network"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWriting(t, 1, nil)
				w.Routers, w.OnSegment = test.routers, func(netip.Addr) (bool, string) { return false, test.problem }
				w.run(t, func() {
					time.Sleep(15 * time.Second)
					if got := w.says(t); got != test.want {
						t.Errorf("it says %q, want %q", got, test.want)
					}
				})
			})
		})
	}
}

// TestFlappingSessionCostsFewWrites flaps the only session every 12 s for half an hour.
func TestFlappingSessionCostsFewWrites(t *testing.T) {
	const services = 10
	synctest.Test(t, func(t *testing.T) {
		w := newWriting(t, services, routersOf(""))
		w.run(t, func() {
			for range 75 {
				w.set(routersOf(silent))
				time.Sleep(12 * time.Second)
				w.set(routersOf(""))
				time.Sleep(12 * time.Second)
			}
			if most := (routerChanges + 30 + 2) * services; w.written() > most {
				t.Errorf("%d writes, want at most %d", w.written(), most)
			}
			time.Sleep(2 * time.Minute)
			if got := w.says(t); !strings.HasPrefix(got, "True Announced") {
				t.Errorf("it says %q in the end", got)
			}
		})
	})
}

// TestSlowWritesAreDecidedAnew has the API server take so long that the session is back before all Services were written to.
func TestSlowWritesAreDecidedAnew(t *testing.T) {
	const services = 200
	synctest.Test(t, func(t *testing.T) {
		w := newWriting(t, services, routersOf(""))
		w.run(t, func() {
			time.Sleep(5 * time.Second)
			before := w.written()
			w.slow.Store(true)
			w.set(routersOf(silent))
			time.Sleep(20 * time.Second)
			w.set(routersOf(""))
			time.Sleep(time.Minute)
			// For the 7 s between the news and its end there are 8 writes a second, and each of them is taken back.
			if wrote := w.written() - before; wrote < 10 || wrote > services*3/4 {
				t.Errorf("%d Services of %d were written to although the session was back after 20 s", wrote, services)
			}
		})
	})
}

// TestDeliveryToSomePeers counts the routers that an address is for, and no others.
func TestDeliveryToSomePeers(t *testing.T) {
	w := &ConditionWriter{Routers: func() []Router {
		var routers []Router
		for name, why := range map[string]string{"p1": "", "p2": "does not answer", "p3": ""} {
			routers = append(routers, Router{Name: name, Families: [model.Families]RouterFamily{{Wanted: true, Why: why}}})
		}
		return routers
	}}
	begin := time.Unix(0, 0)
	_, _ = w.deliveries(begin, true, false)
	known, _ := w.deliveries(begin.Add(2*downFor), true, false)
	for _, test := range []struct {
		peers         []string
		routers, took int
		missing       string
	}{
		{nil, 3, 2, "[p2 does not answer]"}, {[]string{"p1", "p3"}, 2, 2, "[]"}, {[]string{"p2"}, 1, 0, "[p2 does not answer]"},
		{[]string{"p1", "p2"}, 2, 1, "[p2 does not answer]"}, {[]string{}, 0, 0, "[]"},
	} {
		got, undecided := known.to(model.IPv4, test.peers)
		if got.Routers != test.routers || got.Took != test.took || fmt.Sprint(got.Missing) != test.missing || undecided {
			t.Errorf("to %v: %+v, undecided %t", test.peers, got, undecided)
		}
	}
}

// TestRoutersOfOthers has routers with which only other replicas have sessions. The leader does not report NoSession for an address of one
// of them.
func TestRoutersOfOthers(t *testing.T) {
	const hops = "192.0.0.0 is announced with 1 next hop"
	with := func(elsewhere int, whys ...string) []Router {
		routers := routersOf(whys...)
		for i := range elsewhere {
			is := RouterFamily{Wanted: true}
			routers = append(routers, Router{Name: fmt.Sprintf("far-%d", i+1), Elsewhere: true, Families: [model.Families]RouterFamily{is, is}})
		}
		return routers
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWriting(t, 1, with(2))
		w.run(t, func() {
			for i, step := range []struct {
				routers []Router
				want    string
			}{
				{with(2), "True Announced: " + hops + ", by other replicas than the leader to 2 routers: whether they have sessions, the leader does not know"},
				{with(1, ""), "True Announced: " + hops + ", by the leader to 1 of 1 router, and by other replicas to 1 router more: whether they"},
				{with(1, silent), "True Announced: " + hops + ", by the leader to 0 of 1 router (rack-1 does not answer), and by other replicas to 1 router more"},
				{with(0, silent), "False NoSession: 192.0.0.0 has 1 next hop and is announced by the leader to 0 of 1 router (rack-1 does not answer); what sessions"},
				{with(1, silent), "True Announced: " + hops + ", by the leader to 0 of 1 router"},
			} {
				w.set(step.routers)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if got := w.says(t); !strings.HasPrefix(got, step.want) {
					t.Errorf("step %d: it says %q, want %q", i+1, got, step.want)
				}
			}
		})
	})
}

// TestRouterComesFromOthers has a router that other replicas served be the leader's: nothing is known of it at first.
func TestRouterComesFromOthers(t *testing.T) {
	is := RouterFamily{Wanted: true}
	far := Router{Name: "rack-1", Elsewhere: true, Families: [model.Families]RouterFamily{is, is}}
	now := []Router{far}
	w := &ConditionWriter{Routers: func() []Router { return now }}
	known, _ := w.deliveries(start, true, false)
	if got, undecided := known.to(model.IPv4, []string{"rack-1"}); got.Elsewhere != 1 || got.Routers != 0 || undecided {
		t.Errorf("%+v, undecided %t", got, undecided)
	}
	now = routersOf(silent)
	known, _ = w.deliveries(start.Add(time.Hour), true, false)
	if got, undecided := known.to(model.IPv4, nil); got.Elsewhere != 0 || got.Routers != 1 || !undecided {
		t.Errorf("%+v, undecided %t", got, undecided)
	}
}
