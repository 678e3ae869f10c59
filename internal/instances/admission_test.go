package instances_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/instances"
)

// admissions are the nodes for which the plugin was called, in the order of the calls.
type admissions struct {
	mu    sync.Mutex
	nodes []string
}

func (a *admissions) add(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nodes = append(a.nodes, node)
}

func (a *admissions) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.nodes)
}

// since returns the calls from a count on.
func (a *admissions) since(count int) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.nodes[count:])
}

// A new node never waits behind a refresh, however many lookups of slow instances are under way or wait: the queue of the client of the
// cloud lets its lookup in next, at the latest when the first of the others has taken a second. It is all that decides: the inventory
// puts every question at once. Only every sixteenth call is the oldest, so a refresh ends while nodes go on joining.
func TestANewNodeNeverWaitsBehindARefresh(t *testing.T) {
	const (
		refreshed = 100 // With 200, the race detector itself crashed in one of 100 runs.
		joining   = 40
		longest   = time.Second // after which a slow call counts no more against those under way
	)
	for name, options := range map[string]cloud.Options{
		"the bound on calls that is the default": {},
		"a few calls a second":                   {QPS: 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var admitted admissions
				plugin := newV2Cloud(func(n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
					admitted.add(n.Name)
					if strings.HasPrefix(n.Name, "node-") {
						time.Sleep(20 * time.Second)
					}
					return everything(n)
				})
				plugin.callTime = 0
				inventory := instances.New(instances.Options{Cloud: cloud.Decorate(plugin, options)})
				all, _ := nodes(refreshed)
				var refresh sync.WaitGroup
				refresh.Go(func() {
					inventory.LookupEach(admission.WithPriority(t.Context(), admission.PriorityRefresh), all, 0, func(_ *corev1.Node, _ instances.Observation, err error) {
						if err != nil {
							t.Errorf("a refresh failed: %v", err)
						}
					})
				})
				time.Sleep(100 * time.Millisecond)
				oldest := 0
				for i := range joining {
					synctest.Wait()
					name, began, before := fmt.Sprintf("new-%d", i), time.Now(), admitted.count()
					if before >= refreshed {
						t.Errorf("the refresh is over after %d new nodes: this shows nothing", i)
					}
					if _, err := inventory.Lookup(admission.WithPriority(t.Context(), admission.PriorityNewNode), node(name), 0); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(began); took > longest {
						t.Errorf("%s waited %s, want %s at the most", name, took, longest)
					}
					ahead := slices.Index(admitted.since(before), name)
					if oldest += ahead; ahead > 1 {
						t.Errorf("%d of the refresh were let in before %s, want at most the one that is the oldest", ahead, name)
					}
				}
				if most := (admitted.count() + 15) / 16; oldest > most {
					t.Errorf("%d of the refresh were let in before a new node, of %d calls; want every sixteenth at the most", oldest, admitted.count())
				}
				refresh.Wait()
			})
		})
	}
}

// A new node does not wait behind lookups of new nodes that are slow either, once they have taken a second.
func TestSlowNewNodesHoldUpNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errSlow := errors.New("the machine does not answer")
		plugin := newV2Cloud(func(n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
			if strings.HasPrefix(n.Name, "node-") {
				time.Sleep(30 * time.Second)
				return nil, errSlow
			}
			return everything(n)
		})
		plugin.callTime = 0
		inventory := instances.New(instances.Options{Cloud: cloud.Decorate(plugin, cloud.Options{})})
		slow, _ := nodes(100)
		ctx := admission.WithPriority(t.Context(), admission.PriorityNewNode)
		var waiting sync.WaitGroup
		for _, n := range slow {
			waiting.Go(func() {
				if _, err := inventory.Lookup(ctx, n, 0); !errors.Is(err, errSlow) {
					t.Errorf("error %v, want the cloud's", err)
				}
			})
		}
		time.Sleep(15 * time.Second)
		began := time.Now()
		lookup(t, inventory, node("new"), 0)
		if took := time.Since(began); took > time.Second {
			t.Errorf("a new node waited %s behind others that are slow", took)
		}
		waiting.Wait()
	})
}
