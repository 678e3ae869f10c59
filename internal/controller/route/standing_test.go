package route

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	cloud := &answering{answers: map[string]string{
		"proven": "robot://1", "bare": "i-1", "twin": "sim://2", "silent": "error", "odd": "error",
	}}
	known := newStandings(ownership.Rules{ProviderName: "sim"}, inventory.New(inventory.Options{Cloud: cloud}), time.Hour, nil)
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
	if asked := cloud.calls(); asked != 7 {
		t.Errorf("the cloud was asked %d times, want once for each of 7 nodes in doubt", asked)
	}
	if diff := cmp.Diff(want, look(epoch.Add(59*time.Minute))); diff != "" {
		t.Errorf("standings when looked at again (-want +got):\n%s", diff)
	}
	if asked := cloud.calls(); asked != 1 {
		t.Errorf("the cloud was asked %d times, want once, for the node about which nothing is known", asked)
	}
}

// A node for which the cloud hangs is undecided at once, and holds up nothing that is known of others. What the cloud says late is
// there for the pass that it asks for.
func TestWhoseNodesAreIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &answering{answers: map[string]string{"hangs": "hangs", "slow": "slow", "bare": "i-3"}}
		var late atomic.Int32
		known := newStandings(ownership.Rules{ProviderName: "sim"}, inventory.New(inventory.Options{Cloud: cloud}), time.Hour, func() { late.Add(1) })
		var nodes []*corev1.Node
		for name, providerID := range map[string]string{"hangs": "i-1", "slow": "i-2", "bare": "i-3", "ours": "sim://4"} {
			n := node(name, "10.120.0.0/24").node
			n.Spec.ProviderID = providerID
			nodes = append(nodes, n)
		}
		look := func(want map[string]standing, most time.Duration) {
			t.Helper()
			began, got := time.Now(), map[string]standing{}
			members, _ := known.of(t.Context(), nodes, time.Now())
			for _, m := range members {
				got[m.node.Name] = m.standing
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("standings (-want +got):\n%s", diff)
			}
			if took := time.Since(began); took > most {
				t.Errorf("took %s, want at most %s", took, most)
			}
		}
		want := map[string]standing{"hangs": undecided, "slow": undecided, "bare": ours, "ours": ours}
		look(want, inventory.AnswerWait)
		for range 5 { // it is not waited for again
			time.Sleep(time.Second)
			look(want, 0)
		}
		time.Sleep(10 * time.Second)
		if late.Load() != 1 {
			t.Errorf("%d passes were asked for, want one for the late answer", late.Load())
		}
		want["slow"] = ours
		look(want, 0)
		time.Sleep(time.Minute)
		if asked := cloud.calls(); asked != 3 {
			t.Errorf("%d calls, want one for each node", asked)
		}
		look(want, 0)
	})
}
