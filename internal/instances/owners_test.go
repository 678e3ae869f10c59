package instances_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// ownersOf returns the owners of a cloud that answers by provider ID, and counts its calls. It knows nothing else.
func ownersOf(answers map[string]string) (*instances.Owners, *v2Cloud) {
	cloud := newV2Cloud(func(n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
		switch answer := answers[n.Name]; answer {
		case "":
			return nil, cloudprovider.InstanceNotFound
		case "error":
			return nil, errors.New("no answer")
		default:
			return found(answer)
		}
	})
	return instances.NewOwners(instances.New(instances.Options{Cloud: cloud}), ownership.Rules{ProviderName: "sim"}), cloud
}

// What is proven to one controller all know, without a call, and whatever the cloud says later. What it denies only who asked knows.
func TestControllersShareProofs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners, cloud := ownersOf(map[string]string{"robot": "robot://1", "bare": "i-1"})
		nodes := []corev1.Node{*nodeWithID("robot", "robot://1"), *nodeWithID("robots", "robot://2"), *nodeWithID("bare", "i-1"), *nodeWithID("bares", "i-2"), *nodeWithID("other", "other://1")}
		var all []*corev1.Node
		for i := range nodes {
			all = append(all, &nodes[i])
		}
		options := instances.MemberOptions{Believe: time.Hour, LongestPause: time.Minute}
		routes, targets := owners.Members(options), owners.Members(options)
		routes.Observe(nodes)
		targets.Observe(nodes)
		if got := routes.Doubtful(all, time.Now()); len(got) != len(all) {
			t.Fatalf("in doubt are %d nodes, want %d", len(got), len(all))
		}
		if failed := routes.Ask(t.Context(), all, time.Now()); len(failed) > 0 {
			t.Fatalf("errors: %v", failed)
		}
		asked := cloud.total()
		for i, want := range []struct {
			ours           bool
			route, targets ownership.Membership
		}{
			{true, ownership.Member, ownership.Member},
			{true, ownership.Member, ownership.Member}, // by the scheme
			{true, ownership.Member, ownership.Member},
			{false, ownership.Outsider, ownership.Undecided},
			{false, ownership.Outsider, ownership.Undecided},
		} {
			if ours, route, target := owners.Ours(all[i]), routes.Of(all[i]), targets.Of(all[i]); ours != want.ours || route != want.route || target != want.targets {
				t.Errorf("%s: ours %t, to the one that asked %s, to the other %s; want %t, %s, %s", all[i].Name,
					ours, route, target, want.ours, want.route, want.targets)
			}
		}
		if doubtful := targets.Doubtful(all, time.Now()); len(doubtful) != 2 || doubtful[0].Name != "bares" || doubtful[1].Name != "other" {
			t.Errorf("in doubt are %v, want those that were denied", doubtful)
		}
		if cloud.total() != asked {
			t.Errorf("%d calls, want %d: what was proven is known without one", cloud.total(), asked)
		}
	})
}

// An error leaves a node what it is, and is returned.
func TestMembersReturnErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners, _ := ownersOf(map[string]string{"bare": "error"})
		nodes := []corev1.Node{*nodeWithID("bare", "i-1")}
		members := owners.Members(instances.MemberOptions{Believe: time.Hour})
		members.Observe(nodes)
		if !members.Awaited(&nodes[0]) {
			t.Error("nobody awaits the first answer")
		}
		failed := members.Ask(t.Context(), []*corev1.Node{&nodes[0]}, time.Now())
		if len(failed) != 1 || failed[0].Err == nil || failed[0].Node.Name != "bare" {
			t.Errorf("errors are %v, want that for the node", failed)
		}
		if got := members.Of(&nodes[0]); got != ownership.Presumed || members.Denies() {
			t.Errorf("the node is %s, denied %t; want it presumed to take part", got, members.Denies())
		}
	})
}

// What the inventory knows already proves a node without a call, as long as it is young enough. A node that is gone is forgotten.
func TestOwnersRecallWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newV2Cloud(func(*corev1.Node) (*cloudprovider.InstanceMetadata, error) { return found("i-1") })
		inventory := instances.New(instances.Options{Cloud: cloud})
		owners := instances.NewOwners(inventory, ownership.Rules{ProviderName: "sim"})
		n := nodeWithID("bare", "i-1")
		if owners.Recall(n, time.Hour) || owners.Ours(n) {
			t.Error("a node is proven before anybody has asked")
		}
		lookup(t, inventory, n, 0)
		time.Sleep(10 * time.Minute)
		if owners.Recall(n, time.Minute) || owners.Ours(n) {
			t.Error("a node is proven by an answer that is too old")
		}
		if !owners.Recall(n, time.Hour) || !owners.Ours(n) {
			t.Error("a node is not proven by what is known of it")
		}
		if owners.Record(n, instances.Observation{Status: instances.NotFound}) || !owners.Ours(n) {
			t.Error("a denial proves the ownership of a node, or removes it")
		}
		time.Sleep(time.Hour)
		owners.Forget(func(uid types.UID) bool { return uid != n.UID })
		if owners.Ours(n) || cloud.total() != 1 {
			t.Errorf("ours %t after %d calls, want a node that is gone to be forgotten, and one call", owners.Ours(n), cloud.total())
		}
	})
}
