package instances_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

// stateCloud answers whether instances exist and are shut down, in the form of InstancesV2 or in the legacy one, and notes
// what it was asked.
type stateCloud struct {
	cloudprovider.Interface
	legacy           bool
	id               func(name string) (string, error)
	exists, shutdown func() (bool, error)

	mu    sync.Mutex
	calls []string
}

func (c *stateCloud) ProviderName() string { return "fake" }
func (c *stateCloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return stateV2{cloud: c}, !c.legacy
}
func (c *stateCloud) Instances() (cloudprovider.Instances, bool) {
	return stateLegacy{cloud: c}, c.legacy
}

func (c *stateCloud) note(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
}

type stateV2 struct {
	cloudprovider.InstancesV2
	cloud *stateCloud
}

func (i stateV2) InstanceExists(_ context.Context, n *corev1.Node) (bool, error) {
	i.cloud.note("exists " + n.Name)
	return i.cloud.exists()
}

func (i stateV2) InstanceMetadata(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	i.cloud.note("metadata " + n.Name)
	return found("fake://" + n.Name)
}

func (i stateV2) InstanceShutdown(_ context.Context, n *corev1.Node) (bool, error) {
	i.cloud.note("shutdown " + n.Name)
	return i.cloud.shutdown()
}

type stateLegacy struct {
	cloudprovider.Instances
	cloud *stateCloud
}

func (i stateLegacy) InstanceID(_ context.Context, name types.NodeName) (string, error) {
	i.cloud.note("id " + string(name))
	return i.cloud.id(string(name))
}

func (i stateLegacy) InstanceExistsByProviderID(_ context.Context, id string) (bool, error) {
	i.cloud.note("exists " + id)
	return i.cloud.exists()
}

func (i stateLegacy) InstanceShutdownByProviderID(_ context.Context, id string) (bool, error) {
	i.cloud.note("shutdown " + id)
	return i.cloud.shutdown()
}

func answers(answer bool, err error) func() (bool, error) {
	return func() (bool, error) { return answer, err }
}

func named(id string, err error) func(string) (string, error) {
	return func(string) (string, error) { return id, err }
}

// shutDown returns a node that has the shutdown taint.
func shutDown(name string) *corev1.Node {
	node := node(name)
	node.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintNodeShutdown, Effect: corev1.TaintEffectNoSchedule}}
	return node
}

func TestStateOfACloudThatCannotList(t *testing.T) {
	broken := errors.New("connection refused")
	unknown := instances.Observation{}
	gone := instances.Observation{Status: instances.NotFound, Listed: -1}
	there := instances.Observation{Status: instances.Found, Listed: -1}
	running := instances.Observation{Status: instances.Found, State: provider.InstanceRunning, Listed: -1}
	stopped := instances.Observation{Status: instances.Found, State: provider.InstanceStopped, Listed: -1}
	tests := []struct {
		name  string
		cloud *stateCloud
		node  *corev1.Node
		want  instances.Observation
		err   error
		calls []string
	}{
		{
			"gone", &stateCloud{exists: answers(false, nil)}, nodeWithID("a", "fake://1"), gone, nil, []string{"exists a"},
		},
		{
			"gone, by an error", &stateCloud{exists: answers(false, provider.ErrInstanceNotFound)}, nodeWithID("a", "fake://1"), gone, nil,
			[]string{"exists a"},
		},
		{
			"an error is not gone", &stateCloud{exists: answers(false, broken)}, nodeWithID("a", "fake://1"), unknown, broken, []string{"exists a"},
		},
		{
			"running", &stateCloud{exists: answers(true, nil), shutdown: answers(false, nil)}, node("a"), running, nil,
			[]string{"exists a", "shutdown a"},
		},
		{
			"shut down", &stateCloud{exists: answers(true, nil), shutdown: answers(true, nil)}, node("a"), stopped, nil,
			[]string{"exists a", "shutdown a"},
		},
		{
			"known to be shut down", &stateCloud{exists: answers(true, nil)}, shutDown("a"), stopped, nil, []string{"exists a"},
		},
		{
			"known to be shut down, and gone", &stateCloud{exists: answers(false, nil)}, shutDown("a"), gone, nil, []string{"exists a"},
		},
		{
			"shutdown is not implemented", &stateCloud{exists: answers(true, nil), shutdown: answers(false, provider.ErrNotImplemented)}, node("a"),
			there, nil, []string{"exists a", "shutdown a"},
		},
		{
			"an error about shutdown leaves that it exists", &stateCloud{exists: answers(true, nil), shutdown: answers(true, broken)}, node("a"),
			there, broken, []string{"exists a", "shutdown a"},
		},
		{
			"two answers that contradict each other say nothing",
			&stateCloud{exists: answers(true, nil), shutdown: answers(false, provider.ErrInstanceNotFound)}, node("a"),
			unknown, provider.ErrInstanceNotFound, []string{"exists a", "shutdown a"},
		},
		{
			"legacy, gone", &stateCloud{legacy: true, exists: answers(false, nil)}, nodeWithID("a", "fake://1"), gone, nil,
			[]string{"exists fake://1"},
		},
		{
			"legacy, by name", &stateCloud{legacy: true, id: named("7", nil), exists: answers(true, nil), shutdown: answers(true, nil)}, node("a"),
			stopped, nil, []string{"id a", "exists fake://7", "shutdown fake://7"},
		},
		{
			"legacy, no such name", &stateCloud{legacy: true, id: named("", provider.ErrInstanceNotFound)}, node("a"), gone, nil, []string{"id a"},
		},
		{
			"legacy, an error for the name", &stateCloud{legacy: true, id: named("", broken)}, node("a"), unknown, broken, []string{"id a"},
		},
		{
			"legacy, without provider IDs", &stateCloud{legacy: true, id: named("", provider.ErrNotImplemented)}, node("a"), unknown,
			provider.ErrNotImplemented, []string{"id a"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inv := instances.New(instances.Options{Cloud: test.cloud})
			given := 0
			inv.StateEach(t.Context(), []*corev1.Node{test.node}, 0, func(_ *corev1.Node, got instances.Observation, err error) {
				given++
				if !errors.Is(err, test.err) {
					t.Errorf("error %v, want %v", err, test.err)
				}
				got.At = time.Time{}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("observation (-want +got):\n%s", diff)
				}
			})
			if given != 1 {
				t.Errorf("%d answers, want one", given)
			}
			if diff := cmp.Diff(test.calls, test.cloud.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// ready returns a node of which the cloud is only asked whether its instance exists.
func ready(n *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func TestAReadyNodeCostsOneCall(t *testing.T) {
	cloud := &stateCloud{exists: answers(true, nil)}
	inv := instances.New(instances.Options{Cloud: cloud})
	inv.StateEach(t.Context(), []*corev1.Node{ready(node("a"))}, 0, func(_ *corev1.Node, got instances.Observation, err error) {
		if err != nil || got.Status != instances.Found || got.State != provider.InstanceStateUnknown {
			t.Errorf("%s, %s, error %v; want found, of unknown state", got.Status, got.State, err)
		}
	})
	if diff := cmp.Diff([]string{"exists a"}, cloud.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// Each of a node's three facts, its metadata, that it exists and whether it runs, is asked for once, and none answers for another:
// EC2 describes an instance for an hour after its end.
func TestEachQuestionIsPutOnce(t *testing.T) {
	ignore := func(*corev1.Node, instances.Observation, error) {}
	existing := []*corev1.Node{ready(nodeWithID("a", "fake://a"))}
	tests := []struct {
		name  string
		asks  func(*testing.T, *instances.Inventory, []*corev1.Node)
		calls []string
	}{
		{
			"existence, then state", func(t *testing.T, inv *instances.Inventory, nodes []*corev1.Node) {
				inv.StateEach(t.Context(), existing, time.Hour, ignore)
				inv.StateEach(t.Context(), nodes, time.Hour, ignore)
				inv.StateEach(t.Context(), nodes, time.Hour, ignore)
				inv.StateEach(t.Context(), existing, time.Hour, ignore)
			}, []string{"exists a", "shutdown a"},
		},
		{
			"metadata, which does not tell existence", func(t *testing.T, inv *instances.Inventory, nodes []*corev1.Node) {
				inv.LookupEach(t.Context(), nodes, time.Hour, ignore)
				inv.StateEach(t.Context(), existing, time.Hour, ignore)
				inv.StateEach(t.Context(), nodes, time.Hour, ignore)
			}, []string{"metadata a", "exists a", "shutdown a"},
		},
		{
			"state, then metadata, which it does not tell", func(t *testing.T, inv *instances.Inventory, nodes []*corev1.Node) {
				inv.StateEach(t.Context(), nodes, time.Hour, ignore)
				if _, known := inv.Peek(nodes[0], time.Hour); known {
					t.Error("a question about the state has left an answer about the metadata")
				}
				inv.LookupEach(t.Context(), nodes, time.Hour, ignore)
			}, []string{"exists a", "shutdown a", "metadata a"},
		},
		{
			"an answer that is too old", func(t *testing.T, inv *instances.Inventory, _ []*corev1.Node) {
				inv.StateEach(t.Context(), existing, time.Hour, ignore)
				time.Sleep(time.Second)
				inv.StateEach(t.Context(), existing, time.Second-1, ignore)
			}, []string{"exists a", "exists a"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := &stateCloud{exists: answers(true, nil), shutdown: answers(true, nil)}
				test.asks(t, instances.New(instances.Options{Cloud: cloud}), []*corev1.Node{nodeWithID("a", "fake://a")})
				if diff := cmp.Diff(test.calls, cloud.calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// That an instance was there a while ago does not make it there when the cloud has just said that it is not.
func TestAnInstanceThatWentSinceIsNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &stateCloud{exists: answers(true, nil), shutdown: answers(false, nil)}
		inv := instances.New(instances.Options{Cloud: cloud})
		asked := []*corev1.Node{nodeWithID("a", "fake://a")}
		inv.StateEach(t.Context(), []*corev1.Node{ready(asked[0])}, 0, func(*corev1.Node, instances.Observation, error) {})
		time.Sleep(time.Second)
		cloud.exists, cloud.shutdown = answers(false, nil), answers(false, provider.ErrInstanceNotFound)
		now := time.Now()
		inv.StateEach(t.Context(), asked, time.Minute, func(_ *corev1.Node, got instances.Observation, err error) {
			if err != nil || got.Status != instances.NotFound || got.At.Before(now) {
				t.Errorf("%s at %s, error %v; want not found from %s on", got.Status, got.At, err, now)
			}
		})
		if diff := cmp.Diff([]string{"exists a", "shutdown a", "exists a"}, cloud.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestStateOfACloudThatListsComesFromOneListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newListingCloud("a")
		off := instanceFor("b")
		off.State = provider.InstanceStopped
		cloud.instances[off.ProviderID] = off
		inv := instances.New(instances.Options{Cloud: cloud})
		if !inv.Lists() {
			t.Error("Lists() = false for a cloud that lists")
		}
		got := map[string]string{}
		asked := []*corev1.Node{nodeWithID("a", "sim://a"), nodeWithID("b", "sim://b"), nodeWithID("c", "sim://c")}
		inv.StateEach(t.Context(), asked, time.Second, func(n *corev1.Node, o instances.Observation, err error) {
			if err != nil {
				t.Errorf("%s: %v", n.Name, err)
			}
			got[n.Name] = o.Status.String() + " " + o.State.String()
		})
		want := map[string]string{"a": "found running", "b": "found stopped", "c": "not_found unknown"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		if cloud.count() != 1 {
			t.Errorf("%d listings, want one", cloud.count())
		}
	})
}
