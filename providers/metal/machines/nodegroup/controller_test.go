package nodegroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	metalpower "github.com/mooring-ccm/mooring/providers/metal/machines/power"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

// bmcs are the BMCs of machines, and count what they are told.
type bmcs struct {
	mu    sync.Mutex
	power map[string]metalpower.State
	// does is what becomes of a command to a machine; nil if it works.
	does map[string]func(context.Context) error
	told map[string]int
}

func (b *bmcs) command(ctx context.Context, m *config.Machine, kind kind, then metalpower.State) error {
	b.mu.Lock()
	b.told[m.Name+" "+kind.String()]++
	does := b.does[m.Name]
	b.mu.Unlock()
	if does != nil {
		if err := does(ctx); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.power[m.Name] = then
	return nil
}

func (b *bmcs) TurnOn(ctx context.Context, m *config.Machine) error {
	return b.command(ctx, m, turnOn, metalpower.On)
}

func (b *bmcs) ShutDown(ctx context.Context, m *config.Machine) error {
	return b.command(ctx, m, shutDown, metalpower.Off)
}

func (b *bmcs) TurnOff(ctx context.Context, m *config.Machine) error {
	return b.command(ctx, m, turnOff, metalpower.Off)
}

func (b *bmcs) observe(id string) metalpower.Observation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return metalpower.Observation{State: b.power[id], Verified: true, Since: time.Now(), Seen: time.Now()}
}

func (b *bmcs) set(name string, state metalpower.State, does func(context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.power[name], b.does[name] = state, does
}

func (b *bmcs) count(what string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.told[what]
}

// bench is a controller of three machines, of which the named ones are on.
type bench struct {
	*Controller
	*bmcs
	client *fake.Clientset
	t      *testing.T
}

// newBench runs a controller until the test ends. It is called in a bubble.
func newBench(t *testing.T, client *fake.Clientset, on ...string) *bench {
	t.Helper()
	b := &bench{t: t, client: client, bmcs: &bmcs{power: map[string]metalpower.State{}, does: map[string]func(context.Context) error{}, told: map[string]int{}}}
	current := &config.CloudConfig{NodeGroupLease: config.NodeGroupLease{Namespace: "kube-system", Name: "record"}, NodeGroups: []config.NodeGroup{{
		Name: "g", Machines: config.MachineSelector{Zones: []string{"z"}}, MaxSize: 3, MinCycleTime: &metav1.Duration{},
		ShutDownTimeout: metav1.Duration{Duration: time.Hour}, WakeTimeout: metav1.Duration{Duration: time.Hour},
	}}}
	for _, name := range []string{"a", "b", "c"} {
		current.Inventory.Machines = append(current.Inventory.Machines, config.Machine{ID: name, Name: name, Zone: "z"})
		b.bmcs.power[name] = metalpower.Off
	}
	for _, name := range on {
		b.bmcs.power[name] = metalpower.On
	}
	watches := informers.NewSharedInformerFactory(client, 0)
	controller, err := New(Options{
		Config: func() *config.CloudConfig { return current }, Observe: b.bmcs.observe, BMC: b.bmcs,
		MachinesOf: func(node *v1.Node) []string { return []string{cmp.Or(node.Status.NodeInfo.SystemUUID, node.Name)} }, Self: func() (self.Replica, error) { return self.Replica{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := controller.Lead(Sources{
		Client: client.CoreV1(), Leases: client.CoordinationV1(), Nodes: watches.Core().V1().Nodes(), Recorder: record.NewFakeRecorder(1000),
	}); err != nil {
		t.Fatal(err)
	}
	b.Controller = controller
	watches.Core().V1().Nodes().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	watches.Start(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { _ = controller.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		watches.Shutdown()
	})
	b.wait(time.Minute)
	return b
}

// wait lets time pass.
func (b *bench) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) remove(names ...string) {
	b.t.Helper()
	var ids []string
	for _, name := range names {
		ids = append(ids, "metal://"+name)
	}
	if err := b.DeleteNodeGroupInstances(b.t.Context(), "g", ids); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) shown(name string) (provider.NodeGroupInstance, int) {
	b.t.Helper()
	status, err := b.NodeGroupStatus(b.t.Context(), "g")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, instance := range status.Instances {
		if string(instance.NodeName) == name {
			return instance, status.TargetSize
		}
	}
	return provider.NodeGroupInstance{}, status.TargetSize
}

// nodeOf is a ready node, with the taint of the autoscaler.
func nodeOf(name string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: names.TaintToBeDeleted, Effect: v1.TaintEffectNoSchedule}}},
		Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	}
}

var errNo = errors.New("no")

// A command follows only from what the API server has: another leader may have decided otherwise meanwhile.
func TestCommandsFollowTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, fake.NewClientset(), "a", "b")
		b.set("a", metalpower.On, func(context.Context) error { return errNo })
		b.remove("a")
		b.wait(time.Second + defaultPeriod)
		if told := b.count("a shut-down"); told != 1 {
			t.Fatalf("it was told %d times", told)
		}
		lease, err := b.client.CoordinationV1().Leases("kube-system").Get(t.Context(), "record", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lease.Annotations[Annotation] = `{"a":{"want":"Awake","since":"1999-01-01T00:00:00Z"}}`
		if _, err := b.client.CoordinationV1().Leases("kube-system").Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		b.wait(10 * time.Minute)
		if told := b.count("a shut-down"); told != 1 {
			t.Errorf("it was told %d times, although another leader has decided otherwise", told)
		}
		if instance, size := b.shown("a"); size != 2 || instance.State != provider.NodeGroupInstanceRunning {
			t.Errorf("what the other leader decided is not known: a size of %d, %+v", size, instance)
		}
	})
}

// A node that is ready without the taint by the time of a command keeps its machine on, although the cache does not know yet; in the end
// that is recorded.
func TestCommandsLookAtNodesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(nodeOf("a"))
		b := newBench(t, client, "a")
		b.set("a", metalpower.On, func(context.Context) error { return errNo })
		b.remove("a")
		b.wait(time.Second + defaultPeriod)
		needed := nodeOf("a")
		needed.Spec.Taints = nil
		client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, needed, nil })
		b.set("a", metalpower.On, nil)
		b.wait(10 * time.Minute)
		if told := b.count("a shut-down"); told != 1 {
			t.Errorf("it was told %d times", told)
		}
		if _, err := client.CoreV1().Nodes().Update(t.Context(), needed, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		b.wait(time.Minute)
		if instance, size := b.shown("a"); size != 1 || instance.State != provider.NodeGroupInstanceRunning {
			t.Errorf("a size of %d, %+v", size, instance)
		}
	})
}

// BMCs that hang, fail and make us panic forever hold up no other machine and no call.
func TestBMCsFailAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, fake.NewClientset())
		b.set("a", metalpower.Off, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		b.set("b", metalpower.Off, func(context.Context) error { panic("a BMC said something odd") })
		if err := b.IncreaseNodeGroup(t.Context(), "g", 3); err != nil {
			t.Fatal(err)
		}
		b.wait(2 * defaultPeriod)
		if instance, _ := b.shown("c"); instance.State != provider.NodeGroupInstanceRunning || instance.Error != nil {
			t.Errorf("c: %+v", instance)
		}
		b.wait(10 * time.Minute)
		for name, code := range map[string]string{"a": metalpower.ClassTimeout, "b": metalpower.ClassFailed} {
			if instance, size := b.shown(name); size != 3 || instance.Error == nil || instance.Error.Code != code {
				t.Errorf("%s: a size of %d, %+v", name, size, instance)
			}
			if told := b.count(name + " turn-on"); told < 4 || told > 20 {
				t.Errorf("%s was told %d times in 10 minutes", name, told)
			}
		}
		b.remove("a", "b", "c")
		b.wait(time.Minute)
		if _, size := b.shown("c"); size != 0 || b.count("c shut-down") != 1 || !b.Sleeps("c") {
			t.Errorf("a size of %d, told %v", size, b.bmcs.told)
		}
	})
}

// Where nothing can be recorded, as in a dry run or while the API server fails, nothing is turned on or off, and what is known is said.
func TestNothingHappensUnrecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		b := newBench(t, client, "a")
		for _, verb := range []string{"update", "create"} {
			client.PrependReactor(verb, "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "record", errNo)
			})
		}
		if err := b.IncreaseNodeGroup(t.Context(), "g", 1); !apierrors.IsForbidden(err) {
			t.Errorf("increasing: %v", err)
		}
		if err := b.DeleteNodeGroupInstances(t.Context(), "g", []string{"metal://a"}); !apierrors.IsForbidden(err) {
			t.Errorf("deleting: %v", err)
		}
		b.wait(10 * time.Minute)
		if _, size := b.shown("a"); size != 1 || fmt.Sprint(b.bmcs.told) != "map[]" {
			t.Errorf("a size of %d, and BMCs were told %v", size, b.bmcs.told)
		}
	})
}

// Calls about groups that do not exist, and machines of none, change nothing.
func TestCallsNameTheirGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, fake.NewClientset(), "a")
		for id, want := range map[string]error{"metal://gone": nil, "aws://a": provider.ErrNotInNodeGroup} {
			if err := b.DeleteNodeGroupInstances(t.Context(), "g", []string{id}); !errors.Is(err, want) {
				t.Errorf("%s: %v", id, err)
			}
		}
		if _, err := b.NodeGroupTemplate(t.Context(), "g"); !errors.Is(err, provider.ErrNotImplemented) {
			t.Errorf("a template of a group without capacity and nodes: %v", err)
		}
		if b.GoesToSleep("a") || !b.GoesToSleep("b") || !b.Sleeps("b") {
			t.Error("a is on and b is off")
		}
	})
}

// The kubelet of another node says that it is a machine of the group, with more than any has: the template is like the node that the inventory
// names.
func TestATemplateIsLikeANodeOfTheInventory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sized := func(name, machine, amount string) *v1.Node {
			node := nodeOf(name)
			node.Status.NodeInfo.SystemUUID = machine
			node.Status.Capacity = v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
			node.Status.Allocatable = node.Status.Capacity
			return node
		}
		b := newBench(t, fake.NewClientset(sized("0-evil", "a", "1000"), sized("b", "", "8")), "a", "b")
		template, err := b.NodeGroupTemplate(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		if got := template.Status.Allocatable.Cpu().String(); got != "8" {
			t.Errorf("the template has %s CPUs", got)
		}
	})
}

// The gauges say at any time what there is, and keep a code of errors that was there at zero.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, fake.NewClientset(), "a")
		gauge := func(of *prometheus.GaugeVec, label string) float64 {
			return testutil.ToFloat64(of.WithLabelValues("g", label))
		}
		b.set("b", metalpower.Off, func(context.Context) error { return metalpower.ErrUnverified })
		if err := b.IncreaseNodeGroup(t.Context(), "g", 1); err != nil {
			t.Fatal(err)
		}
		b.wait(time.Minute)
		if running, waking, asleep := gauge(b.metrics.machines, "running"), gauge(b.metrics.machines, "waking"), gauge(b.metrics.machines, "asleep"); running != 1 || waking != 1 || asleep != 1 {
			t.Errorf("%v run, %v wake and %v sleep", running, waking, asleep)
		}
		if refused := gauge(b.metrics.errors, metalpower.ClassUnverified); refused != 1 {
			t.Errorf("%v errors", refused)
		}
		b.set("b", metalpower.On, nil)
		b.wait(time.Minute)
		if running, refused := gauge(b.metrics.machines, "running"), gauge(b.metrics.errors, metalpower.ClassUnverified); running != 2 || refused != 0 {
			t.Errorf("%v run, and %v errors", running, refused)
		}
	})
}
