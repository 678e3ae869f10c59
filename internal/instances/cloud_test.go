package instances_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listingCloud can list its instances. What a listing shows is what there is when it begins; it takes a while, page by page.
type listingCloud struct {
	cloudprovider.Interface
	pageTime time.Duration
	pageSize int
	standby  bool

	mu        sync.Mutex
	instances map[string]provider.Instance
	fail      func() error // asked before each page
	listings  int
	underway  int
	overlap   bool
	stopped   int // listings whose context ended
}

func newListingCloud(names ...string) *listingCloud {
	cloud := &listingCloud{pageTime: time.Second, pageSize: 500, instances: map[string]provider.Instance{}}
	cloud.add(names...)
	return cloud
}

func instanceFor(name string) provider.Instance {
	return provider.Instance{
		NodeName: types.NodeName(name), State: provider.InstanceRunning,
		InstanceMetadata: cloudprovider.InstanceMetadata{ProviderID: "sim://" + name, InstanceType: "small"},
	}
}

func (c *listingCloud) ProviderName() string                           { return "sim" }
func (c *listingCloud) Instances() (cloudprovider.Instances, bool)     { return nil, false }
func (c *listingCloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

func (c *listingCloud) Capabilities() provider.Capabilities {
	return provider.Capabilities{ListInstances: c.list, StandbySafe: c.standby}
}

func (c *listingCloud) add(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		instance := instanceFor(name)
		c.instances[instance.ProviderID] = instance
	}
}

func (c *listingCloud) change(providerID string, change func(*provider.Instance)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	instance := c.instances[providerID]
	change(&instance)
	c.instances[providerID] = instance
}

func (c *listingCloud) remove(providerID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.instances, providerID)
}

func (c *listingCloud) failWith(fail func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = fail
}

func (c *listingCloud) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listings
}

func (c *listingCloud) total() int { return c.count() }

func (c *listingCloud) begin() []provider.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listings++
	c.underway++
	c.overlap = c.overlap || c.underway > 1
	seen := slices.Collect(maps.Values(c.instances))
	slices.SortFunc(seen, func(a, b provider.Instance) int { return compare(a.ProviderID, b.ProviderID) })
	return seen
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (c *listingCloud) list(ctx context.Context, yield func([]provider.Instance) error) error {
	seen := c.begin()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.underway--
	}()
	pages := slices.Collect(slices.Chunk(seen, c.pageSize))
	if len(pages) == 0 {
		pages = [][]provider.Instance{nil}
	}
	for _, page := range pages {
		if err := c.turn(ctx); err != nil {
			return err
		}
		if err := yield(page); err != nil {
			return err
		}
		clear(page) // pages are only valid during the call of yield
	}
	return nil
}

// turn is the time of one page, and what may go wrong with it.
func (c *listingCloud) turn(ctx context.Context) error {
	select {
	case <-time.After(c.pageTime):
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stopped++
		return ctx.Err()
	}
	c.mu.Lock()
	fail := c.fail
	c.mu.Unlock()
	if fail != nil {
		return fail()
	}
	return nil
}

// v2Cloud can only be asked for one instance at a time.
type v2Cloud struct {
	cloudprovider.Interface
	callTime time.Duration
	metadata func(node *corev1.Node) (*cloudprovider.InstanceMetadata, error)

	mu    sync.Mutex
	calls map[string]int
}

func newV2Cloud(metadata func(*corev1.Node) (*cloudprovider.InstanceMetadata, error)) *v2Cloud {
	return &v2Cloud{callTime: time.Second, metadata: metadata, calls: map[string]int{}}
}

func (c *v2Cloud) ProviderName() string                           { return "sim" }
func (c *v2Cloud) Instances() (cloudprovider.Instances, bool)     { return nil, false }
func (c *v2Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return v2Instances{cloud: c}, true }

func (c *v2Cloud) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[name]
}

func (c *v2Cloud) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sum(c.calls)
}

func found(id string) (*cloudprovider.InstanceMetadata, error) {
	return &cloudprovider.InstanceMetadata{ProviderID: id}, nil
}

func everything(n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return found("sim://" + n.Name)
}

func sum(calls map[string]int) (n int) {
	for _, count := range calls {
		n += count
	}
	return n
}

type v2Instances struct {
	cloudprovider.InstancesV2
	cloud *v2Cloud
}

func (i v2Instances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	c := i.cloud
	c.mu.Lock()
	c.calls[node.Name]++
	c.mu.Unlock()
	select {
	case <-time.After(c.callTime):
		return c.metadata(node)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
}

func nodeWithID(name, providerID string) *corev1.Node {
	n := node(name)
	n.Spec.ProviderID = providerID
	return n
}

func nodes(count int) ([]*corev1.Node, []string) {
	made, names := make([]*corev1.Node, count), make([]string, count)
	for i := range made {
		names[i] = fmt.Sprintf("node-%d", i)
		made[i] = node(names[i])
	}
	return made, names
}

// lookup is one lookup that must succeed.
func lookup(t *testing.T, inv *instances.Inventory, n *corev1.Node, maxAge time.Duration) instances.Observation {
	t.Helper()
	observation, err := inv.Lookup(t.Context(), n, maxAge)
	if err != nil {
		t.Fatalf("looking up %s: %v", n.Name, err)
	}
	return observation
}
