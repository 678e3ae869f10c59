package nodeview

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	callTime = 100 * time.Millisecond
	slow     = 5 * time.Second
)

// moods is a plugin that behaves for each node as its name says: "slow" or "dead". All others run.
type moods struct {
	cloudprovider.Interface
	listing time.Duration // that a listing takes; zero: it cannot list

	mu    sync.Mutex
	calls []string
}

func (m *moods) ProviderName() string                           { return "fake" }
func (m *moods) Instances() (cloudprovider.Instances, bool)     { return nil, false }
func (m *moods) InstancesV2() (cloudprovider.InstancesV2, bool) { return m, true }

func (m *moods) Capabilities() provider.Capabilities {
	if m.listing == 0 {
		return provider.Capabilities{}
	}
	return provider.Capabilities{ListInstances: func(_ context.Context, yield func([]provider.Instance) error) error {
		m.call("list", m.listing)
		return yield([]provider.Instance{{InstanceMetadata: cloudprovider.InstanceMetadata{ProviderID: "fake://a"}, NodeName: "a"}})
	}}
}

func (m *moods) call(name string, takes time.Duration) {
	m.mu.Lock()
	m.calls = append(m.calls, name)
	m.mu.Unlock()
	time.Sleep(takes)
}

func (m *moods) of(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(m.calls), func(call string) bool { return call != name }))
}

func (m *moods) InstanceExists(_ context.Context, node *corev1.Node) (bool, error) {
	if node.Name == "slow" {
		m.call(node.Name, slow)
	} else {
		m.call(node.Name, callTime)
	}
	return node.Name != "dead", nil
}

func (*moods) InstanceShutdown(context.Context, *corev1.Node) (bool, error) {
	return false, nil
}

func (*moods) InstanceMetadata(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return nil, provider.ErrNotImplemented
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
}

func viewOf(plugin *moods, subscriber func()) *View {
	return New(Options{
		Inventory: instances.New(instances.Options{Cloud: plugin}), Subscriber: subscriber,
		Shows: func(node *corev1.Node) any { return node.ResourceVersion },
	})
}

// A question for which the cloud takes its time is put once, is waited for once, and its answer is there for a later call.
func TestAQuestionOutlivesThePassThatPutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := &moods{}
		var late atomic.Int32
		view := viewOf(plugin, func() { late.Add(1) })
		nodes := []*corev1.Node{node("a"), node("slow")}
		ask := func(waits time.Duration, want ...string) {
			t.Helper()
			start := time.Now()
			got := map[string]bool{}
			for _, row := range view.Ask(t.Context(), nodes, 0) {
				got[row.Node.Name] = row.Err == nil
			}
			if took := time.Since(start); took != waits {
				t.Errorf("took %s, want %s", took, waits)
			}
			if len(got) != len(want) {
				t.Errorf("answers for %v, want %v", got, want)
			}
			for _, name := range want {
				if !got[name] {
					t.Errorf("answers for %v, want one for %s", got, name)
				}
			}
		}
		ask(instances.AnswerWait, "a")
		ask(callTime, "a")
		if plugin.of("slow") != 1 || late.Load() != 0 || !view.Get("uid-slow").Open || view.Get("uid-a").Open {
			t.Errorf("%d calls for the slow node, %d answers came late, want 1 and none yet", plugin.of("slow"), late.Load())
		}
		time.Sleep(slow)
		if late.Load() != 1 {
			t.Errorf("%d answers came late, want 1", late.Load())
		}
		ask(callTime, "a", "slow")
		if plugin.of("slow") != 1 {
			t.Errorf("%d calls for the slow node, want none by the call that returns its answer", plugin.of("slow"))
		}
		ask(callTime, "a") // it is asked for again, and not waited for
		time.Sleep(2 * slow)
		ask(callTime, "a", "slow")
		if plugin.of("slow") != 2 {
			t.Errorf("%d calls for the slow node, want 2", plugin.of("slow"))
		}
	})
}

// What one listing says of many nodes is taken whole or not at all, and there is one listing at a time.
func TestAListingIsOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := &moods{listing: 3 * time.Second}
		nodes := []*corev1.Node{node("a"), node("b"), node("c")}
		view := viewOf(plugin, func() {})
		for pass, want := range []int{0, 0, 3, 0} {
			if got := view.Ask(t.Context(), nodes, 0); len(got) != want {
				t.Errorf("pass %d has %d answers, want %d", pass, len(got), want)
			}
			if pass == 0 {
				nodes = append(nodes, node("d"))
			}
			if pass < 3 && view.Get("uid-d").Open {
				t.Errorf("pass %d has put a question beside the listing", pass)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second) // the cloud rests between two listings
		if got := plugin.of("list"); got != 2 {
			t.Errorf("%d listings, want 2", got)
		}
	})
}

// A denial that was sought before a node came to be wanted is about a node that was ready since.
func TestADenialFromBeforeSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		view := viewOf(&moods{}, func() {})
		dead := []*corev1.Node{node("dead")}
		ask := func(want int) {
			t.Helper()
			if got := view.Ask(t.Context(), dead, 0); len(got) != want {
				t.Errorf("%d answers, want %d", len(got), want)
			}
		}
		view.Want(dead, time.Now())
		go func() { // it ceases to be wanted while it is asked for, and is again
			time.Sleep(callTime / 2)
			view.Want(nil, time.Now())
			view.Want(dead, time.Now())
		}()
		ask(0)
		if view.Want(dead, time.Now()); len(view.Want(dead, time.Now())) != 1 {
			t.Error("it is not to be asked for")
		}
		ask(1)
		time.Sleep(kit.LongestRetry)
		view.Want(nil, time.Now())
		if len(view.rows) != 0 {
			t.Errorf("%d rows are left of nodes that are not wanted", len(view.rows))
		}
	})
}

func TestNext(t *testing.T) {
	now := time.Date(2015, 1, 1, 12, 0, 0, 0, time.UTC)
	answered := func(state provider.InstanceState, since time.Duration) Row {
		return Row{Node: node("a"), asked: now, changed: now.Add(-since), Observation: instances.Observation{Status: instances.Found, State: state}}
	}
	tainted := node("a")
	tainted.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintNodeShutdown, Effect: corev1.TaintEffectNoSchedule}}
	expected, failed := answered(provider.InstanceRunning, time.Hour), answered(provider.InstanceRunning, time.Hour)
	expected.expected, failed.Err = now.Add(time.Second), errors.New("no answer")
	for name, test := range map[string]struct {
		row  Row
		node *corev1.Node
		off  int
		want time.Time
	}{
		"it was never asked for":           {row: Row{}, want: time.Time{}},
		"there was no answer":              {row: failed, want: time.Time{}},
		"it has just become so":            {row: answered(provider.InstanceRunning, 0), want: now},
		"it has been so for a while":       {row: answered(provider.InstanceRunning, 40*time.Second), want: now.Add(10 * time.Second)},
		"it has been so for long":          {row: answered(provider.InstanceRunning, time.Hour), want: now.Add(admission.MaxGroupPause)},
		"it has been off for long":         {row: answered(provider.InstanceStopped, time.Hour), want: now.Add(kit.LongestRetry)},
		"it is tainted":                    {row: answered(provider.InstanceStopped, 0), node: tainted, off: 1, want: now.Add(50 * time.Millisecond)},
		"it is tainted beside many others": {row: answered(provider.InstanceStopped, 0), node: tainted, off: 15_000, want: now.Add(admission.MaxGroupPause)},
		"something waits for the answer":   {row: expected, want: now.Add(time.Second)},
	} {
		if test.node == nil {
			test.node = node("a")
		}
		if got := next(test.row, test.node, test.off); !got.Equal(test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
