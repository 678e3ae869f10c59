package service

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/names"
)

func named(name string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Name, s.UID = name, types.UID("uid-"+name) }
}

// A burst of changes is one call for each load balancer.
func TestABurstIsOneUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 4)
		defer e.stop()
		const services, nodes = 30, 200
		for i := range services {
			e.addService(serviceWith(named(fmt.Sprintf("s%d", i))))
		}
		time.Sleep(time.Minute)
		if got := e.cloud.count("ensure"); got != services {
			t.Errorf("%d load balancers were ensured, want %d", got, services)
		}
		lists := e.cluster.nodeLists
		for i := range nodes {
			name := fmt.Sprintf("n%d", i)
			e.changeNode(name, nodeWith(name, identified(""), tainted(cloudproviderapi.TaintExternalCloudProvider)))
			e.changeNode(name, nodeWith(name))
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if listed := e.cluster.nodeLists - lists; listed > 2+services { // each goes through all nodes: two for the set, and one for a call at most
			t.Errorf("all nodes were looked at %d times", listed)
		}
		if err := e.mismatch(); err != nil {
			t.Error(err)
		}
		if ensured, updated := e.cloud.count("ensure"), e.cloud.count("update"); ensured != services || updated != services {
			t.Errorf("%d ensured and %d updated, want %d each", ensured, updated, services)
		}
	})
}

// A call gets all nodes of its set, as they are now. One that is gone, or whose name another node has, is as it was: left out, it would count as
// written, and would stay out if it came back soon.
func TestACallGetsNodesAsTheyAreNow(t *testing.T) {
	all := newCluster()
	for _, name := range []string{"a", "b", "c", "d"} {
		all.nodes[name] = nodeWith(name)
	}
	targets := &targets{reader: all, owners: ownership.Rules{ProviderName: "sim"}}
	set, err := targets.latest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	beating := nodeWith("a")
	beating.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	other := nodeWith("c")
	other.UID = "another"
	all.nodes = map[string]*corev1.Node{"a": beating, "c": other, "d": nodeWith("d"), "e": nodeWith("e")}
	same, nodes, err := targets.handOver(t.Context(), serviceWith())
	if err != nil || same != set {
		t.Fatalf("another set, %v", err)
	}
	if diff := cmp.Diff([]*corev1.Node{beating, nodeWith("b"), nodeWith("c"), nodeWith("d")}, nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

// Changes that never come to rest do not keep load balancers waiting forever, and do not make each change a call.
func TestTheDelayIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		e.addService(serviceWith())
		time.Sleep(time.Minute)
		began := time.Now()
		const changes = 100
		for i := range changes {
			name := fmt.Sprintf("n%d", i)
			e.changeNode(name, nodeWith(name))
			time.Sleep(time.Second)
			if !e.cloud.has("uid-1", "n0") && time.Since(began) > DefaultTargetDelay+time.Second {
				t.Fatalf("the first node is no target after %s", time.Since(began))
			}
		}
		time.Sleep(time.Minute)
		most := int(time.Since(began)/DefaultTargetDelay) + 1
		if got := e.cloud.count("update"); got > most {
			t.Errorf("%d updates in %s, want at most %d", got, time.Since(began), most)
		}
		if err := e.mismatch(); err != nil {
			t.Error(err)
		}
	})
}

// Nodes come while the first pass over a Service writes what it made. Its row does not say yet which targets these are.
func TestTargetsSettleDuringAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patch = 10 * time.Second
		e := startEngine(t, 1, func(e *engine) { e.cluster.patchTakes = patch })
		defer e.stop()
		synctest.Wait() // the set of nodes is known
		e.addService(serviceWith())
		time.Sleep(patch + time.Second) // the finalizer is written, and the addresses are being written
		if ensured := e.cloud.count("ensure"); ensured != 1 {
			t.Fatalf("the load balancer was ensured %d times, want once", ensured)
		}
		e.changeNode("a", nodeWith("a"))
		time.Sleep(time.Minute)
		if err := e.mismatch(); err != nil {
			t.Error(err)
		}
	})
}

func namesIn(set map[string]string) []types.NodeName {
	names := []types.NodeName{}
	for name := range set {
		names = append(names, types.NodeName(name))
	}
	return names
}

// An update fails, though it took effect, and before it is tried again all is as it was before. The load balancer is not.
func TestAnUpdateWhoseAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		e.changeNode("a", nodeWith("a"))
		e.addService(serviceWith())
		time.Sleep(time.Minute)
		e.cloud.mu.Lock()
		e.cloud.chance = func(operation string) (time.Duration, error) {
			if operation == "update" {
				return 0, errLost
			}
			return 0, nil
		}
		e.cloud.mu.Unlock()
		e.changeNode("b", nodeWith("b"))
		time.Sleep(DefaultTargetQuiet + time.Second)
		if !e.cloud.has("uid-1", "b") || e.cloud.count("update") != 1 {
			t.Fatal("the update had no effect")
		}
		e.changeNode("b", nil)
		time.Sleep(time.Minute)
		if err := e.mismatch(); err != nil {
			t.Error(err)
		}
	})
}

// errTransient is an error that a cloud returns now and then.
var errTransient = errors.New("the cloud has hiccups")

// No backend is ever missed: whatever happens to nodes and whatever the cloud fails with, in the end every load balancer has
// exactly the nodes that the dumb model says.
func TestNoBackendIsMissed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		writes := rapid.IntRange(1, 3).Draw(rt, "writes")
		byDifference := rapid.Bool().Draw(rt, "by difference")
		patch := time.Duration(rapid.IntRange(0, 10).Draw(rt, "seconds a patch takes")) * time.Second
		seed := rapid.Uint64().Draw(rt, "seed")
		steps := rapid.IntRange(1, 60).Draw(rt, "steps")
		var failure error // a draw fails outside of its bubble, or nothing says which one it is
		synctest.Test(t, func(t *testing.T) {
			e := startEngine(t, writes, func(e *engine) { e.cloud.byDifference, e.cluster.patchTakes = byDifference, patch })
			defer e.stop()
			heal := e.cloud.misbehave(seed)
			chance := rand.New(rand.NewPCG(seed, 1))
			for step := range steps {
				e.randomStep(chance, step)
				if chance.IntN(3) == 0 {
					time.Sleep(time.Duration(chance.IntN(20000)) * time.Millisecond)
				}
			}
			heal()
			time.Sleep(time.Hour)
			failure = e.mismatch()
			calls := e.cloud.count("ensure") + e.cloud.count("update") + e.cloud.count("change")
			time.Sleep(time.Hour)
			if now := e.cloud.count("ensure") + e.cloud.count("update") + e.cloud.count("change"); now != calls {
				failure = errors.Join(failure, fmt.Errorf("%d more calls although nothing changes", now-calls))
			}
		})
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}

// misbehave makes calls take a while and fail now and then, until they are healed.
func (m *memoryCloud) misbehave(seed uint64) (heal func()) {
	var mu sync.Mutex
	failing, chance := true, rand.New(rand.NewPCG(seed, 0))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chance = func(operation string) (time.Duration, error) {
		mu.Lock()
		defer mu.Unlock()
		took := time.Duration(chance.IntN(4000)) * time.Millisecond
		switch {
		case !failing || chance.IntN(5) > 0:
			return took, nil
		case operation == "ensure" && chance.IntN(2) == 0:
			return took, cloudproviderapi.NewRetryError("still at it", time.Duration(1+chance.IntN(9))*time.Second)
		case chance.IntN(2) == 0:
			return took, errLost
		default:
			return took, errTransient
		}
	}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		failing = false
	}
}

// randomStep changes a node, creates a Service, or deletes a load balancer in the cloud.
func (e *engine) randomStep(chance *rand.Rand, step int) {
	name := fmt.Sprintf("n%d", chance.IntN(6))
	e.cluster.mu.Lock()
	node := nodeWith(name)
	if before := e.cluster.nodes[name]; before != nil {
		node = before.DeepCopy()
	}
	e.cluster.mu.Unlock()
	switch chance.IntN(10) {
	case 0, 1:
		e.changeNode(name, nodeWith(name, tainted(cloudproviderapi.TaintExternalCloudProvider)))
	case 2:
		e.changeNode(name, nil)
	case 3:
		excluded(node)
		e.changeNode(name, node)
	case 4:
		tainted(names.TaintToBeDeleted)(node)
		e.changeNode(name, node)
	case 5:
		doomed(node)
		e.changeNode(name, node)
	case 6:
		addressed(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.0.%d", step)})(node)
		e.changeNode(name, node)
	case 7:
		node.Annotations = map[string]string{"mooring.dev/ignore": fmt.Sprint(chance.IntN(2) == 0)}
		e.changeNode(name, node)
	case 8:
		e.addService(serviceWith(named(fmt.Sprintf("s%d", step))))
	default:
		e.changeNode(name, nodeWith(name))
	}
}
