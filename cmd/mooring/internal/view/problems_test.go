package view_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
)

// crowd is a cluster of 5,000 nodes in three zones, with a few that wait.
func crowd() view.Seen {
	const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	seen := view.Seen{Now: noon, NoLease: true, Services: []corev1.Service{}}
	for i := range 5000 {
		one := node(fmt.Sprintf("node-%04d", i))
		one.Labels[corev1.LabelTopologyZone] = "sim-1" + string("abc"[i%3])
		switch i {
		case 7, 8:
			tainted(uninitialized, 0)(&one)
			one.CreationTimestamp = before(time.Duration(i) * time.Minute)
		case 4000:
			conditioned("CloudInstanceGone", corev1.ConditionTrue, "DeletionLimit", "")(&one)
		case 4001:
			conditioned(corev1.NodeNetworkUnavailable, corev1.ConditionTrue, "NoRouteCreated", "table full")(&one)
			delete(one.Labels, corev1.LabelTopologyZone)
		}
		seen.Nodes = append(seen.Nodes, one)
	}
	for i := range 30 {
		seen.Services = append(seen.Services, corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("web-%02d", i)},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
			Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{
				Type: "LoadBalancerReady", Status: map[bool]metav1.ConditionStatus{true: "True", false: "False"}[i > 0], Reason: "Refused",
				LastTransitionTime: before(time.Minute),
			}}},
		})
	}
	return seen
}

func TestCrowd(t *testing.T) {
	status := view.Of(crowd())
	want := `Leader: none, there is no such lease; --lease names another

Nodes: 1 held, 4997 initialized, 2 uninitialized
ZONE    NODES  INITIALIZED  HELD  UNINITIALIZED
(none)  1      1            -     -
sim-1a  1667   1667         -     -
sim-1b  1667   1665         1     1
sim-1c  1665   1664         -     1

NAME       STATE          FOR  PROVIDER ID      TYPE       ZONE    ROUTED  WHY
node-4000  held           7m   sim://node-4000  sim.small  sim-1b  -       DeletionLimit
node-0008  uninitialized  8m   sim://node-0008  sim.small  sim-1c  -       no event says why; is a manager running?
node-0007  uninitialized  7m   sim://node-0007  sim.small  sim-1b  -       no event says why; is a manager running?
node-4001  initialized    -    sim://node-4001  sim.small  -       no      NoRouteCreated: table full
4996 nodes without problems are left out; --all shows them

Load balancers: 1 not ready, 29 ready
SERVICE      STATE      FOR  WHY
shop/web-00  not ready  1m   Refused
29 Services without problems are left out; --all shows them
`
	if diff := cmp.Diff(want, status.Text(view.Style{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if lines := strings.Count(status.Text(view.Style{EveryRow: true}), "\n"); lines < 5030 {
		t.Errorf("every row makes %d lines", lines)
	}
}

// Many problems are cut too, and counted.
func TestCrowdOfProblems(t *testing.T) {
	seen := crowd()
	for i := range seen.Nodes {
		seen.Nodes[i].Spec.ProviderID = ""
	}
	text := view.Of(seen).Text(view.Style{})
	if !strings.Contains(text, "4950 more nodes with problems and 0 without are left out; --all shows them\n") {
		t.Errorf("it lacks how many are left out:\n%s", text)
	}
}

// A Service that no manager has touched waits, but not one that another controller serves or that is for the controller of its class.
func TestServicesThatNoManagerTouches(t *testing.T) {
	for name, test := range map[string]struct {
		service view.Service
		want    bool
	}{
		"waits":          {view.Service{}, true},
		"has an address": {view.Service{Addresses: []string{"192.0.2.1"}}, false},
		"has a class":    {view.Service{Class: "example.com/other"}, false},
	} {
		test.service.State = view.ServiceUntouched
		if got := test.service.Problem(); got != test.want {
			t.Errorf("%s: a problem: %t", name, got)
		}
	}
}
