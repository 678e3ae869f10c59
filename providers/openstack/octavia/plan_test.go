package octavia

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// observed is a load balancer as a look finds it when it is what was wanted.
func observed(want model.LoadBalancer) observation {
	have := observation{id: "lb", name: want.Name, state: stateActive, driver: want.Provider, tags: slices.Clone(want.Tags), vipSubnetID: "nodes"}
	for _, listener := range want.Listeners {
		has := observedListener{Listener: listener, id: "listener of " + listener.Name, poolID: "pool of " + listener.Name}
		if listener.Pool.Monitor != nil {
			has.monitorID = "monitor of " + listener.Name
		}
		have.listeners = append(have.listeners, has)
	}
	return have
}

func randomly(random *rand.Rand, driver string) model.LoadBalancer {
	want := wholeWeb()
	want.Provider, want.Listeners = driver, nil
	for _, port := range random.Perm(4)[:random.IntN(5)] {
		listener := wholeWeb().Listeners[0]
		listener.Name, listener.Port = model.ListenerName(port, want.Name), 80+port
		listener.Protocol = []string{"TCP", "HTTP", "UDP"}[random.IntN(3)]
		listener.ConnectionLimit = random.IntN(2)
		listener.Pool.Protocol = []string{listener.Protocol, "PROXY"}[random.IntN(2)]
		listener.Pool.Algorithm = []string{"ROUND_ROBIN", "SOURCE_IP"}[random.IntN(2)]
		listener.Pool.Members = listener.Pool.Members[:random.IntN(3)]
		if random.IntN(2) == 0 {
			listener.Pool.Monitor = &model.Monitor{Type: []string{"TCP", "HTTP"}[random.IntN(2)], Delay: 1 + random.IntN(2), Tags: listener.Tags}
		}
		want.Listeners = append(want.Listeners, listener)
	}
	return want
}

// rank is the place of a verb in a plan.
func rank(c change, existing bool) int {
	switch c.verb {
	case claim:
		return 0
	case setMembers:
		if existing {
			return 1
		}
		return 3
	case deleteMonitor, deletePool, deleteListener:
		return 2
	case createListener, createPool:
		return 3
	case updateListener, updatePool:
		return 4
	default:
		return 5
	}
}

// TestPlans plans from any load balancer to any other: what is as wanted has no changes, the order is kept, nothing of another Service is
// changed, and with the driver ovn no listener is made beside a monitor.
func TestPlans(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		driver := []string{"amphora", "ovn"}[random.IntN(2)]
		want, had := randomly(random, driver), randomly(random, driver)
		as := claimant{tag: want.Name, owns: true}
		if changes, err := plan(want, observed(want), as); err != nil || len(changes) > 0 {
			t.Fatalf("nothing to do, and the plan is %+v, error %v", changes, err)
		}
		have := observed(had)
		have.listeners = append(have.listeners, observedListener{id: "theirs", poolID: "theirs", monitorID: "theirs",
			Listener: model.Listener{Protocol: "TCP", Port: 22, Tags: []string{"kube_service_kubernetes_default_other"}}})
		changes, err := plan(want, have, as)
		if err != nil {
			t.Fatal(err)
		}
		before, monitors := 0, 0
		for _, has := range had.Listeners {
			if has.Pool.Monitor != nil {
				monitors++
			}
		}
		for _, c := range changes {
			if c.id == "theirs" {
				t.Fatalf("the plan changes what is of another Service: %+v", c)
			}
			if now := rank(c, c.id != ""); now < before {
				t.Fatalf("%s comes too late in %+v", c.verb, changes)
			} else {
				before = now
			}
			if c.verb == deleteMonitor {
				monitors--
			}
			if c.verb == createListener && driver == annotations.DriverOVN && monitors > 0 {
				t.Fatalf("a listener is made while %d monitors are there: %+v", monitors, changes)
			}
		}
	}
}

func TestNextStep(t *testing.T) {
	for _, test := range []struct {
		state        string
		repair       annotations.Repair
		owns, worked bool
		want         step
	}{
		{"ACTIVE", annotations.RepairRecreate, true, true, stepChange},
		{"PENDING_CREATE", annotations.RepairAlways, true, false, stepWait},
		{"PENDING_DELETE", annotations.RepairAlways, true, false, stepWait},
		{"ERROR", annotations.RepairRecreate, true, false, stepRecreate},
		{"ERROR", annotations.RepairRecreate, true, true, stepReport},
		{"ERROR", annotations.RepairAlways, true, true, stepRecreate},
		{"ERROR", annotations.RepairAlways, false, false, stepReport},
		{"ERROR", annotations.RepairFailover, true, true, stepFailover},
		{"ERROR", annotations.RepairNever, true, false, stepReport},
	} {
		if got := nextStep(test.state, test.repair, test.owns, test.worked); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}
