package node

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// plainCloud is asked for one instance at a time, and answers after 50 ms. Each answer is called with the lock held.
type plainCloud struct {
	cloudprovider.Interface
	mu     sync.Mutex
	calls  map[string]int
	open   map[string]bool
	twice  bool // a node was asked for twice at a time
	answer map[string]func() (*cloudprovider.InstanceMetadata, error)
	hangs  map[string]bool // the call takes a minute
}

func newPlainCloud() *plainCloud {
	return &plainCloud{
		calls: map[string]int{}, open: map[string]bool{}, hangs: map[string]bool{}, answer: map[string]func() (*cloudprovider.InstanceMetadata, error){},
	}
}

func (c *plainCloud) ProviderName() string { return "sim" }
func (c *plainCloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return plainCloudInstances{cloud: c}, true
}

type plainCloudInstances struct {
	cloudprovider.InstancesV2
	cloud *plainCloud
}

func (i plainCloudInstances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	c := i.cloud
	c.mu.Lock()
	c.calls[node.Name]++
	c.twice = c.twice || c.open[node.Name]
	c.open[node.Name] = true
	answer, took := c.answer[node.Name], 50*time.Millisecond
	if c.hangs[node.Name] {
		took = time.Minute
	}
	c.mu.Unlock()
	select {
	case <-time.After(took):
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[node.Name] = false
	return answer()
}

// rig is a singleRefresher with its watch, its cloud and the nodes of a cluster, in virtual time.
type rig struct {
	client.Reader
	t         *testing.T
	cloud     *plainCloud
	refresher *singleRefresher
	watcher   watcher
	queue     workqueue.TypedRateLimitingInterface[reconcile.Request]

	mu    sync.Mutex
	nodes map[string]*corev1.Node
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, nodes: map[string]*corev1.Node{}, cloud: newPlainCloud()}
	inventory := instances.New(instances.Options{Cloud: r.cloud})
	owners := ownership.Rules{ProviderName: "sim"}
	options := Options{
		StatusUpdateFrequency: DefaultStatusUpdateFrequency, FullRefreshPeriod: DefaultFullRefreshPeriod, Inventory: inventory, Owners: owners,
		Recorder: record.NewFakeRecorder(10_000),
	}
	reconciler := newReconciler(options)
	r.refresher = newSingleRefresher(options, reconciler, logr.Discard())
	reconciler.reader = r
	r.watcher = watcher{reconciler: reconciler, single: r.refresher}
	r.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(r.queue.ShutDown)
	return r
}

// lead has the refresher lead until the test ends.
func (r *rig) lead() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	_ = r.refresher.queue.Capture(ctx, r.queue)
	running.Go(func() { r.refresher.run(ctx) })
	r.t.Cleanup(func() { cancel(); running.Wait() })
}

// ledForLong is a rig with an old node "n", when the first round is over and its answers are too old to be used.
func ledForLong(t *testing.T) *rig {
	r := newRig(t)
	r.add("n", old)
	r.lead()
	time.Sleep(30 * time.Minute)
	return r
}

// Get reads the cache. Nothing else is asked for.
func (r *rig) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	node, found := r.nodes[key.Name]
	if !found {
		return apierrors.NewNotFound(corev1.Resource("nodes"), key.Name)
	}
	*object.(*corev1.Node) = *node
	return nil
}

// add has the watch show a new node, of which the cloud says what it is already.
func (r *rig) add(name string, age time.Duration, edits ...edit) {
	node := newNode(withID("sim://"+name), func(n *corev1.Node) {
		n.Name, n.UID = name, types.UID("uid-"+name)
		n.CreationTimestamp = metav1.NewTime(time.Now().Add(-age))
		n.Labels = map[string]string{corev1.LabelTopologyZone: "a", corev1.LabelFailureDomainBetaZone: "a"}
		n.Status.Addresses = addresses(internalIP("10.0.0.1"))
		n.Status.NodeInfo.BootID = "1"
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: n.CreationTimestamp, LastHeartbeatTime: metav1.Now()},
		}
	})
	for _, edit := range edits {
		edit(node)
	}
	r.says(name, func() (*cloudprovider.InstanceMetadata, error) {
		return &cloudprovider.InstanceMetadata{
			ProviderID: "sim://" + name, Zone: "a", NodeAddresses: addresses(internalIP("10.0.0.1")),
		}, nil
	})
	r.mu.Lock()
	r.nodes[name] = node
	r.mu.Unlock()
	r.watcher.handler().Create(r.t.Context(), event.TypedCreateEvent[*corev1.Node]{Object: node}, r.queue)
}

// change has the watch show a change of a node.
func (r *rig) change(name string, edits ...edit) {
	r.mu.Lock()
	before := r.nodes[name]
	after := before.DeepCopy()
	for _, edit := range edits {
		edit(after)
	}
	r.nodes[name] = after
	r.mu.Unlock()
	r.watcher.handler().Update(r.t.Context(), event.TypedUpdateEvent[*corev1.Node]{ObjectOld: before, ObjectNew: after}, r.queue)
}

func (r *rig) says(name string, answer func() (*cloudprovider.InstanceMetadata, error)) {
	r.cloud.mu.Lock()
	defer r.cloud.mu.Unlock()
	r.cloud.answer[name] = answer
}

// during returns how often a node was looked up while something happens and time passes after it.
func (r *rig) during(name string, passes time.Duration, happens ...func()) int {
	before := r.count(name)
	for _, happen := range happens {
		happen()
	}
	time.Sleep(passes)
	synctest.Wait()
	return r.count(name) - before
}

func (r *rig) count(name string) int {
	r.cloud.mu.Lock()
	defer r.cloud.mu.Unlock()
	return r.cloud.calls[name]
}

func readyNow(status corev1.ConditionStatus) edit {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()},
		}
	}
}

func heartbeat(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }

func (r *rig) all() (sum int) {
	r.cloud.mu.Lock()
	defer r.cloud.mu.Unlock()
	for _, calls := range r.cloud.calls {
		sum += calls
	}
	return sum
}
