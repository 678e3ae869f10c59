package instances_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// An error leaves a node what it is, and is returned.
func TestMembersReturnErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners, _ := ownersOf(map[string]string{"bare": "error"})
		nodes := []corev1.Node{*nodeWithID("bare", "")}
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
