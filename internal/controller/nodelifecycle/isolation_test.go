package nodelifecycle

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	callTime = 50 * time.Millisecond
	// callDeadline is when the client of the cloud abandons a call.
	callDeadline = time.Minute
)

// moody is a plugin that is asked for one instance at a time, and behaves for each node as the node's name begins: "dead" nodes
// have no instance, those of "off" nodes are shut down, for "fails" nodes there is an error, for "hangs" nodes there is an error
// when the client of the cloud has lost its patience, and "slow" nodes have an instance that takes its time. All others run.
type moody struct {
	cloudprovider.Interface
	slow  time.Duration // that "slow" nodes take
	pages int           // of a listing; zero: it cannot list
	names []string      // of the nodes whose instances are listed
	queue bool          // calls pass the client of the cloud

	mu    sync.Mutex
	calls map[string]int
}

func (m *moody) Capabilities() provider.Capabilities {
	if m.pages == 0 {
		return provider.Capabilities{}
	}
	return provider.Capabilities{ListInstances: m.list}
}

// list shows all instances on the first page.
func (m *moody) list(ctx context.Context, yield func([]provider.Instance) error) error {
	var all []provider.Instance
	for _, name := range m.names {
		state := provider.InstanceRunning
		if strings.HasPrefix(name, "off") {
			state = provider.InstanceStopped
		}
		if !strings.Contains(name, "dead") {
			all = append(all, provider.Instance{InstanceMetadata: cloudprovider.InstanceMetadata{ProviderID: "sim://" + name}, State: state})
		}
	}
	for range m.pages {
		if err := m.call(ctx, "a page"); err != nil {
			return err
		}
		if err := yield(all); err != nil {
			return err
		}
		all = nil
	}
	return nil
}

func (m *moody) ProviderName() string                           { return "sim" }
func (m *moody) Instances() (cloudprovider.Instances, bool)     { return nil, false }
func (m *moody) InstancesV2() (cloudprovider.InstancesV2, bool) { return m, true }

func (m *moody) call(ctx context.Context, name string) error {
	m.mu.Lock()
	m.calls[name]++
	m.mu.Unlock()
	took := callTime
	switch {
	case strings.HasPrefix(name, "slow"):
		took = m.slow
	case strings.HasPrefix(name, "hangs"):
		took = callDeadline
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return ctx.Err()
	}
	if strings.HasPrefix(name, "hangs") || strings.HasPrefix(name, "fails") {
		return errors.New("no answer for " + name)
	}
	return nil
}

func (m *moody) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	return !strings.Contains(node.Name, "dead"), m.call(ctx, node.Name)
}

func (m *moody) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	err := m.call(ctx, node.Name)
	alternates := strings.HasPrefix(node.Name, "alternates") && m.count(node.Name)%4 == 0
	return strings.HasPrefix(node.Name, "off") || alternates, err
}

func (m *moody) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return &cloudprovider.InstanceMetadata{ProviderID: node.Spec.ProviderID}, m.call(ctx, node.Name)
}

func (m *moody) count(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[name]
}

// memoryNodes is as much of an API server and its cache as the controller needs, in memory.
type memoryNodes struct {
	client.Client // nil: a call that is not expected here ends the test

	mu    sync.Mutex
	nodes map[string]*corev1.Node
	// fault is what becomes of a write to a node whose name contains "stuck". Nil: it succeeds.
	fault func(ctx context.Context) error
	// faults counts the writes that did not succeed, and patched the patches of taints.
	faults, patched int
}

// write returns what becomes of a write to a node.
func (m *memoryNodes) write(ctx context.Context, name string) error {
	m.mu.Lock()
	fault := m.fault
	if fault == nil || !strings.Contains(name, "stuck") {
		m.mu.Unlock()
		return nil
	}
	m.faults++
	m.mu.Unlock()
	return fault(ctx)
}

// breaks sets what becomes of writes to stuck nodes from now on.
func (m *memoryNodes) breaks(fault func(context.Context) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = fault
}

// tried returns how many writes did not succeed.
func (m *memoryNodes) tried() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.faults
}

func (m *memoryNodes) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.nodes {
		list.(*corev1.NodeList).Items = append(list.(*corev1.NodeList).Items, *n)
	}
	return nil
}

func (m *memoryNodes) Delete(ctx context.Context, object client.Object, _ ...client.DeleteOption) error {
	if err := m.write(ctx, object.GetName()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.nodes, object.GetName())
	return nil
}

// Patch takes every patch for one that adds the taint.
func (m *memoryNodes) Patch(ctx context.Context, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
	if err := m.write(ctx, object.GetName()); err != nil {
		return err
	}
	m.change(object.GetName(), func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{shutdownTaint()} })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.patched++
	return nil
}

// patches returns how many patches of taints there were.
func (m *memoryNodes) patches() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.patched
}

func (m *memoryNodes) Status() client.SubResourceWriter { return memoryStatus{cluster: m} }

type memoryStatus struct {
	client.SubResourceWriter
	cluster *memoryNodes
}

func (s memoryStatus) Patch(ctx context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.cluster.write(ctx, object.GetName())
}

// change replaces a node by one that is otherwise.
func (m *memoryNodes) change(name string, change func(*corev1.Node)) (before, after *corev1.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before = m.nodes[name]
	after = before.DeepCopy()
	change(after)
	m.nodes[name] = after
	return before, after
}

func (m *memoryNodes) get(name string) *corev1.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nodes[name]
}

// scene is a controller over a cluster in memory, in virtual time.
type scene struct {
	cluster  *memoryNodes
	informer *controllertest.FakeInformer
	cloud    *moody
	asked    *instances.Inventory
	events   *record.FakeRecorder
}

// play starts a controller over nodes that are all ready, without limit and least time of denials. What it is given is run in a
// bubble, beside the controller.
func play(t *testing.T, slow time.Duration, names []string, act func(*scene)) {
	t.Helper()
	settings := DefaultSettings()
	settings.Limit, settings.MinDenialTime = Limit{Percent: 100}, 0
	playWith(t, settings, &moody{slow: slow}, names, act)
}

func playWith(t *testing.T, settings Settings, plugin *moody, names []string, act func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &scene{cluster: &memoryNodes{nodes: map[string]*corev1.Node{}}, cloud: plugin}
		plugin.calls, plugin.names = map[string]int{}, names
		s.events = record.NewFakeRecorder(10_000)
		caches := &informertest.FakeInformers{}
		var err error
		if s.informer, err = caches.FakeInformerFor(ctx, &corev1.Node{}); err != nil {
			t.Fatal(err)
		}
		s.asked = instances.New(instances.Options{Cloud: s.cloud})
		if plugin.queue {
			s.asked = instances.New(instances.Options{Cloud: cloud.Decorate(plugin, cloud.Options{MaxInFlight: 80})})
		}
		controller := New(Options{
			Client: s.cluster, Cache: caches, Recorder: s.events, Inventory: s.asked,
			Owners: ownership.Rules{ProviderName: "sim"}, Settings: settings, Logger: logr.Discard(),
			DeletionLog: &DeletionLog{Leases: fake.NewClientset().CoordinationV1(), Namespace: "kube-system", Name: "deletions"},
		})
		if err := controller.Warmup(ctx); err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		running.Go(func() { _ = controller.Start(ctx) })
		synctest.Wait()
		for _, name := range names {
			n := node(name, corev1.ConditionTrue)
			if strings.Contains(name, "bare") {
				n.Spec.ProviderID = name // whose it is only the cloud can say
			}
			n.CreationTimestamp.Time = time.Now().Add(-time.Hour)
			s.cluster.mu.Lock()
			s.cluster.nodes[name] = n
			s.cluster.mu.Unlock()
			s.informer.Add(n)
		}
		time.Sleep(time.Minute)
		act(s)
		cancel()
		running.Wait()
	})
}

// turn makes nodes ready or not.
func (s *scene) turn(ready corev1.ConditionStatus, names ...string) {
	for _, name := range names {
		s.informer.Update(s.cluster.change(name, func(n *corev1.Node) { n.Status.Conditions[0].Status = ready }))
	}
}

// takes returns how long it takes until a node is gone or tainted; 2 minutes if it is not by then.
func (s *scene) takes(name string) time.Duration {
	const most = 2 * time.Minute
	for start := time.Now(); time.Since(start) < most; time.Sleep(10 * time.Millisecond) {
		if n := s.cluster.get(name); n == nil || len(n.Spec.Taints) > 0 {
			return time.Since(start)
		}
	}
	return most
}

// gone returns how long it takes until a node is deleted; 2 minutes if it is not by then.
func (s *scene) gone(name string) time.Duration {
	const most = 2 * time.Minute
	start := time.Now()
	for s.cluster.get(name) != nil && time.Since(start) < most {
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(start)
}

func (s *scene) eventsFor(name, reason string) (times int) {
	for len(s.events.Events) > 0 {
		if event := <-s.events.Events; strings.Contains(event, reason) && strings.Contains(event, name) {
			times++
		}
	}
	return times
}

var healthy = []string{"r1", "r2", "r3", "r4", "r5"}

// longest returns how long a node takes at most, over the times at which it may go silent between two passes, beside others that
// did some time before.
func longest(t *testing.T, name string, beside []string, others []string, before time.Duration) (most time.Duration) {
	t.Helper()
	for phase := 0; phase < 10; phase++ {
		play(t, 20*time.Second, append(append([]string{name}, beside...), others...), func(s *scene) {
			// Never at the moment when a pass begins, or chance would say whether that one sees it.
			offset := time.Duration(phase)*DefaultPeriod/10 + DefaultPeriod/100
			time.Sleep(offset)
			s.turn(corev1.ConditionUnknown, others...)
			if before > 0 {
				time.Sleep(before + offset)
			}
			s.turn(corev1.ConditionUnknown, name)
			most = max(most, s.takes(name))
			if held := s.eventsFor(name, ReasonHeld); held > 0 {
				t.Errorf("%s was held beside %v", name, append(beside, others...))
			}
		})
	}
	return most
}

// Nodes for which the cloud fails, hangs or takes its time hold up no other node: neither when they have done so for long, nor
// when they begin to together with it.
func TestANodeDoesNotWaitForTheCloudsAnswerAboutOthers(t *testing.T) {
	bad := [][]string{{"fails-1"}, {"hangs-1"}, {"slow-1"}, {"fails-1", "fails-2", "hangs-1", "hangs-2", "hangs-3", "slow-1", "slow-2"}, {"hangs-bare"}}
	for _, name := range []string{"dead", "off"} {
		undisturbed := longest(t, name, healthy, nil, 0)
		t.Logf("%s takes %s when nothing is wrong", name, undisturbed)
		for _, others := range bad {
			for _, before := range []time.Duration{0, 3 * time.Minute} {
				took := longest(t, name, healthy, others, before)
				t.Logf("%s takes %s beside %v since %s", name, took, others, before)
				// A pass waits once for an answer that does not come, until it is known that it is slow.
				if took > 2*undisturbed+instances.AnswerWait {
					t.Errorf("%s takes %s beside %v since %s, want at most twice %s and a wait", name, took, others, before, undisturbed)
				}
			}
		}
	}
}

// Witnesses for which the cloud does not answer are none, and others are found.
func TestSilentWitnessesAreReplaced(t *testing.T) {
	undisturbed := longest(t, "dead", healthy, nil, 0)
	// The first, the last and the one between by name.
	for _, bad := range []string{"fails", "hangs", "slow"} {
		took := longest(t, "dead", []string{bad + "-1", "r", bad + "-2", "x", "y"}, nil, 0)
		t.Logf("%s beside witnesses that are %s", took, bad)
		if took > 2*undisturbed {
			t.Errorf("beside witnesses for which the cloud %s: took %s, want at most twice %s", bad, took, undisturbed)
		}
	}
}

// A cloud that takes its time is asked and believed as any other.
func TestASlowCloudIsHeard(t *testing.T) {
	for _, slow := range []time.Duration{1900 * time.Millisecond, 3 * time.Second, 7 * time.Second, 30 * time.Second} {
		play(t, slow, []string{"slow-dead", "slow-r1", "slow-r2", "slow-r3", "slow-r4", "slow-off"}, func(s *scene) {
			s.turn(corev1.ConditionUnknown, "slow-dead")
			// Twice: about the node, and about witnesses; and what lies between.
			if took, most := s.takes("slow-dead"), 2*(2*slow+2*(shortPause+shortPause)); took > most {
				t.Errorf("with calls of %s it takes %s, want at most %s", slow, took, most)
			}
			if held := s.eventsFor("slow-dead", ReasonHeld); held > 0 {
				t.Errorf("with calls of %s the node was held %d times", slow, held)
			}
		})
	}
}

// What is bad forever is asked for now and then, and says so itself.
func TestWhatIsBadForEverCostsLittle(t *testing.T) {
	play(t, 0, append([]string{"fails", "hangs"}, healthy...), func(s *scene) {
		s.turn(corev1.ConditionUnknown, "fails", "hangs")
		time.Sleep(time.Hour)
		for name, most := range map[string]int{"fails": int(time.Hour/admission.MaxGroupPause) + 5, "hangs": int(time.Hour / callDeadline)} {
			if calls := s.cloud.count(name); calls > most || calls < most/3 {
				t.Errorf("%d calls within an hour for the node %s, want at most %d, and some", calls, name, most)
			}
		}
		var events []string
		for len(s.events.Events) > 0 {
			events = append(events, <-s.events.Events)
		}
		for _, name := range []string{"fails", "hangs"} {
			times := 0
			for _, event := range events {
				if strings.Contains(event, ReasonCloudError) && strings.Contains(event, "no answer for "+name) {
					times++
				}
			}
			if times == 0 || times > 7 {
				t.Errorf("%s got %d events within an hour, want once in 10 minutes: %q", name, times, events)
			}
		}
	})
}
