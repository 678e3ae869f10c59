package route

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// answering is a cloud that is asked for one node at a time, and counts that.
type answering struct {
	cloudprovider.Interface
	mu      sync.Mutex
	asked   int
	answers map[string]string // provider IDs by node name; "error" is an error, "hangs" one that takes a minute, "slow" an ID that takes 10 s
}

// calls returns how often the cloud was asked since the last call of it.
func (a *answering) calls() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked = 0
	return asked
}

func (a *answering) ProviderName() string { return "sim" }

func (a *answering) InstancesV2() (cloudprovider.InstancesV2, bool) { return a, true }

func (a *answering) InstanceExists(context.Context, *corev1.Node) (bool, error) {
	return false, errors.New("not asked here")
}

func (a *answering) InstanceShutdown(context.Context, *corev1.Node) (bool, error) {
	return false, errors.New("not asked here")
}

func (a *answering) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	a.mu.Lock()
	a.asked++
	answer, found := a.answers[node.Name]
	a.mu.Unlock()
	switch {
	case !found:
		return nil, cloudprovider.InstanceNotFound
	case answer == "hangs":
		time.Sleep(time.Minute)
		return nil, errors.New("no answer")
	case answer == "slow":
		time.Sleep(10 * time.Second)
		return &cloudprovider.InstanceMetadata{ProviderID: node.Spec.ProviderID}, nil
	case answer == "error":
		return nil, errors.New("no answer")
	default:
		return &cloudprovider.InstanceMetadata{ProviderID: answer}, nil
	}
}

func TestWhoseNodesAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &answering{answers: map[string]string{
			"proven": "robot://1", "bare": "i-1", "twin": "sim://2", "silent": "error", "odd": "error",
		}}
		f := newMembershipFixture(t, cloud, "ours=sim://1", "proven=robot://1", "also-proven=robot://2", "unknown=aws:///z/i-1",
			"odd=gce://z/i-1", "bare=i-1", "twin=", "silent=", "no-pods=i-3", "waits=", "ignored=sim://9")
		f.nodes["no-pods"].Spec.PodCIDRs = nil
		f.nodes["waits"].Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
		f.nodes["ignored"].Annotations = map[string]string{ownership.AnnotationIgnore: "true"}
		want := map[string]membership{
			"ours": ours, "proven": ours, "also-proven": ours, "unknown": ours, "odd": ours, "bare": ours,
			"twin": presumed, "silent": presumed, "no-pods": ours, "waits": undecided, "ignored": others,
		}
		if err := f.expect(t, want); err == nil {
			t.Error("that the cloud did not answer for a node is no error")
		}
		if asked := cloud.calls(); asked != 2 {
			t.Errorf("the cloud was asked %d times, want once for each of 2 nodes without a provider ID", asked)
		}
		time.Sleep(believe - time.Minute)
		if err := f.expect(t, want); err == nil {
			t.Error("that the cloud did not answer for a node again is no error")
		}
		if asked := cloud.calls(); asked != 1 {
			t.Errorf("the cloud was asked %d times, want once for the node about which nothing is known", asked)
		}
	})
}

// A node about which there is nothing but errors keeps its membership, however long that lasts, and no other node loses its own.
func TestAnErrorTakesNoMembershipAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &answering{answers: map[string]string{"bare": "i-1", "twin": "", "robot": "robot://1", "silent": "error"}}
		f := newMembershipFixture(t, cloud, "ours=sim://1", "bare=i-1", "twin=", "robot=robot://1", "unknown=aws:///z/i-1", "silent=")
		want := map[string]membership{"ours": ours, "bare": ours, "twin": presumed, "robot": ours, "unknown": ours, "silent": presumed}
		_ = f.expect(t, want)
		cloud.mu.Lock()
		for _, name := range []string{"ours", "bare", "twin", "robot", "unknown", "silent", "late"} {
			cloud.answers[name] = "error"
		}
		cloud.mu.Unlock()
		cloud.calls()
		f.add("late", "i-3")
		want["late"] = ours
		const hours = 48
		for range hours {
			time.Sleep(time.Hour)
			_ = f.expect(t, want)
		}
		if asked, nodes := cloud.calls(), 2; asked > nodes*hours { // those without a provider ID
			t.Errorf("%d calls for %d nodes in %d passes", asked, nodes, hours)
		}
	})
}

// membershipFixture is nodes and what is known of them.
type membershipFixture struct {
	known *memberships
	nodes map[string]*corev1.Node
}

// newMembershipFixture returns nodes of the given names and provider IDs, each with a pod CIDR.
func newMembershipFixture(t *testing.T, cloud cloudprovider.Interface, identified ...string) *membershipFixture {
	t.Helper()
	f := &membershipFixture{nodes: map[string]*corev1.Node{}}
	f.known = newMemberships(ownersOf(cloud), nil)
	for _, each := range identified {
		name, providerID, _ := strings.Cut(each, "=")
		f.add(name, providerID)
	}
	return f
}

func ownersOf(cloud cloudprovider.Interface, schemes ...string) *instances.Owners {
	return instances.NewOwners(instances.New(instances.Options{Cloud: cloud}), ownership.Rules{ProviderName: "sim", Schemes: schemes})
}

func (f *membershipFixture) add(name, providerID string) {
	n := node(name, fmt.Sprintf("10.120.%d.0/24", len(f.nodes))).node
	n.Spec.ProviderID = providerID
	f.nodes[name] = n
}

// expect compares the membership of all nodes with what it should be, and returns what could not be found out.
func (f *membershipFixture) expect(t *testing.T, want map[string]membership) error {
	t.Helper()
	var list []corev1.Node
	for _, name := range slices.Sorted(maps.Keys(f.nodes)) { // "proven" after "also-proven", which the scheme proves
		list = append(list, *f.nodes[name])
	}
	members, err := f.known.of(t.Context(), list, time.Now())
	got := map[string]membership{}
	for _, m := range members {
		got[m.node.Name] = m.membership
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("memberships (-want +got):\n%s", diff)
	}
	return err
}

// A node whose kubelet is silent and whose instance the cloud denies is about to be deleted: its routes stay, and no other is made.
func TestNoRouteForANodeWhoseInstanceIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inventory := instances.New(instances.Options{Cloud: &answering{answers: map[string]string{"there": "sim://there"}}})
		known := newMemberships(instances.NewOwners(inventory, ownership.Rules{ProviderName: "sim"}), func() {})
		ready := func(name string, status corev1.ConditionStatus) *corev1.Node {
			n := node(name, "10.120.0.0/24").node
			n.Spec.ProviderID = "sim://" + name
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
			return n
		}
		expect := func(want membership, n *corev1.Node) {
			t.Helper()
			if got := known.membership(n); got != want {
				t.Errorf("node %s, ready %s: membership %d, want %d", n.Name, n.Status.Conditions[0].Status, got, want)
			}
		}
		there, gone, reports := ready("there", corev1.ConditionUnknown), ready("gone", corev1.ConditionUnknown), ready("reports", corev1.ConditionFalse)
		known.members.Observe([]corev1.Node{*there, *gone, *reports})
		expect(ours, gone) // nothing was asked yet
		for _, n := range []*corev1.Node{there, gone, reports} {
			_, err := inventory.Lookup(t.Context(), n, 0)
			if err != nil {
				t.Fatal(err)
			}
		}
		expect(ours, there)
		expect(undecided, gone)
		expect(ours, reports)
		time.Sleep(denialAge + time.Second)
		expect(ours, gone) // the answer is too old
	})
}
