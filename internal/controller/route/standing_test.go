package route

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/inventory"
	"github.com/mooring-ccm/mooring/internal/ownership"
)

// answering is a cloud that is asked for one node at a time, and counts that.
type answering struct {
	cloudprovider.Interface
	mu      sync.Mutex
	asked   int
	answers map[string]string // provider IDs by node name; "error" is an error
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
	defer a.mu.Unlock()
	a.asked++
	switch answer, found := a.answers[node.Name]; {
	case !found:
		return nil, cloudprovider.InstanceNotFound
	case answer == "error":
		return nil, errors.New("no answer")
	default:
		return &cloudprovider.InstanceMetadata{ProviderID: answer}, nil
	}
}

func TestWhoseNodesAre(t *testing.T) {
	cloud := &answering{answers: map[string]string{
		"proven": "robot://1", "bare": "i-1", "twin": "sim://2", "silent": "error", "odd": "error",
	}}
	known := newStandings(ownership.Rules{ProviderName: "sim"}, inventory.New(inventory.Options{Cloud: cloud}), time.Hour)
	identified := func(name, providerID string, cidrs ...string) *corev1.Node {
		n := node(name, cidrs...).node
		n.Spec.ProviderID = providerID
		return n
	}
	waits := identified("waits", "", "10.120.5.0/24")
	waits.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
	ignored := identified("ignored", "sim://9", "10.120.6.0/24")
	ignored.Annotations = map[string]string{ownership.AnnotationIgnore: "true"}
	nodes := []*corev1.Node{
		identified("ours", "sim://1", "10.120.0.0/24"),
		identified("proven", "robot://1", "10.120.1.0/24"),
		identified("also-proven", "robot://2", "10.120.2.0/24"), // by the scheme
		identified("unknown", "aws:///z/i-1", "10.120.3.0/24"),
		identified("odd", "gce://z/i-1", "10.120.9.0/24"),
		identified("bare", "i-1", "10.120.4.0/24"),
		identified("twin", "", "10.120.7.0/24"),
		identified("silent", "i-2", "10.120.8.0/24"),
		identified("no-pods", "i-3"),
		waits, ignored,
	}
	want := map[string]standing{
		"ours": ours, "proven": ours, "also-proven": ours, "unknown": undecided, "odd": undecided, "bare": ours,
		"twin": undecided, "silent": undecided, "no-pods": undecided, "waits": undecided, "ignored": others,
	}
	look := func(now time.Time) map[string]standing {
		members, err := known.of(t.Context(), nodes, now)
		if err == nil {
			t.Error("that the cloud did not answer for a node is no error")
		}
		got := map[string]standing{}
		for _, m := range members {
			got[m.node.Name] = m.standing
		}
		return got
	}
	if diff := cmp.Diff(want, look(epoch)); diff != "" {
		t.Errorf("standings (-want +got):\n%s", diff)
	}
	if cloud.asked != 7 {
		t.Errorf("the cloud was asked %d times, want once for each of 7 nodes in doubt", cloud.asked)
	}
	cloud.asked = 0
	if diff := cmp.Diff(want, look(epoch.Add(59*time.Minute))); diff != "" {
		t.Errorf("standings when looked at again (-want +got):\n%s", diff)
	}
	if cloud.asked != 1 {
		t.Errorf("the cloud was asked %d times, want once, for the node about which nothing is known", cloud.asked)
	}
}
