package autoscaler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
)

// fakeGroups are node groups of which some misbehave. The ones that hang do so until they are released.
type fakeGroups struct {
	mu       sync.Mutex
	listErr  error
	ids      []string
	status   provider.NodeGroupStatus
	hang     map[string]chan struct{}
	fail     map[string]error
	calls    map[string]int
	deleted  []string
	template error
}

func newFakeGroups(ids ...string) *fakeGroups {
	return &fakeGroups{
		ids: ids, hang: map[string]chan struct{}{}, fail: map[string]error{}, calls: map[string]int{},
		status: provider.NodeGroupStatus{TargetSize: 2, Instances: []provider.NodeGroupInstance{
			{ProviderID: "x://a", NodeName: "a", State: provider.NodeGroupInstanceRunning}, {ProviderID: "x://bare", State: provider.NodeGroupInstanceRunning},
		}},
	}
}

func (f *fakeGroups) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeGroups) do(what, group string) error {
	f.mu.Lock()
	f.calls[what]++
	hang, err := f.hang[group], f.fail[group]
	f.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if group == "panics" {
		panic("in the plugin")
	}
	return err
}

func (f *fakeGroups) count(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[what]
}

func (f *fakeGroups) ListNodeGroups(context.Context) (groups []provider.NodeGroup, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.ids {
		groups = append(groups, provider.NodeGroup{ID: id, Min: 1, Max: 4})
	}
	return groups, f.listErr
}

func (f *fakeGroups) NodeGroupStatus(_ context.Context, group string) (provider.NodeGroupStatus, error) {
	err := f.do("status", group)
	f.mu.Lock()
	defer f.mu.Unlock()
	return provider.NodeGroupStatus{TargetSize: f.status.TargetSize, Instances: slices.Clone(f.status.Instances)}, err
}

func (f *fakeGroups) NodeGroupTemplate(context.Context, string) (*corev1.Node, error) {
	if f.template != nil {
		return nil, f.template
	}
	return &corev1.Node{}, nil
}

func (f *fakeGroups) IncreaseNodeGroup(_ context.Context, group string, _ int) error {
	return f.do("increase", group)
}

func (f *fakeGroups) DecreaseNodeGroupTarget(_ context.Context, group string, _ int) error {
	return f.do("decrease", group)
}

func (f *fakeGroups) DeleteNodeGroupInstances(_ context.Context, group string, ids []string) error {
	f.set(func() { f.deleted = append(f.deleted, ids...) })
	return f.do("delete", group)
}

func observing(t *testing.T, groups provider.NodeGroups) *observer {
	t.Helper()
	o := newObserver(groups, newMetrics(nil), logr.Discard())
	o.begin(t.Context())
	return o
}

func served(o *observer) (ids []string) {
	for _, known := range o.all() {
		ids = append(ids, known.group.ID)
	}
	return ids
}

// TestEachGroupOnItsOwn has some groups hang, fail and panic. The good one is served all the while, what was known of the others for a minute,
// and only the first look waits for what hangs.
func TestEachGroupOnItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups := newFakeGroups("good", "hangs", "fails", "panics")
		o := observing(t, groups)
		refresh := func(want ...string) {
			t.Helper()
			if err := o.refresh(t.Context()); err != nil {
				t.Error(err)
			}
			if got := served(o); !slices.Equal(got, want) {
				t.Errorf("served are %v, not %v", got, want)
			}
		}
		refresh("fails", "good", "hangs")
		stuck := make(chan struct{})
		groups.set(func() {
			groups.hang["hangs"], groups.fail["fails"] = stuck, errors.New("no")
		})
		began := time.Now()
		refresh("fails", "good", "hangs")
		if took := time.Since(began); took != observeTimeout {
			t.Errorf("the first look at what hangs took %s", took)
		}
		time.Sleep(10 * time.Second)
		began = time.Now()
		refresh("fails", "good", "hangs")
		if took := time.Since(began); took != 0 {
			t.Errorf("the second look took %s", took)
		}
		time.Sleep(maxAge)
		refresh("good")
		if _, err := o.get("hangs"); err == nil {
			t.Error("one that is left out is known")
		}
		calls := groups.count("status")
		close(stuck)
		groups.set(func() { delete(groups.hang, "hangs"); delete(groups.fail, "fails") })
		synctest.Wait()
		refresh("fails", "good", "hangs")
		if more := groups.count("status") - calls; more != 4 {
			t.Errorf("%d looks at four groups", more)
		}
	})
}

// TestLists has the list of groups fail: nothing is known at first, and later what was.
func TestLists(t *testing.T) {
	groups := newFakeGroups("a", "b", "", "a")
	o := observing(t, groups)
	groups.listErr = errors.New("no")
	if err := o.refresh(t.Context()); !errors.Is(err, errNothingKnown) || len(served(o)) > 0 {
		t.Errorf("%v %v", err, served(o))
	}
	groups.set(func() { groups.listErr = nil })
	if err := o.refresh(t.Context()); err != nil || !slices.Equal(served(o), []string{"a", "b"}) {
		t.Errorf("%v %v", err, served(o))
	}
	groups.set(func() { groups.listErr = errors.New("no") })
	if err := o.refresh(t.Context()); err != nil || !slices.Equal(served(o), []string{"a", "b"}) {
		t.Errorf("%v %v", err, served(o))
	}
	groups.set(func() { groups.listErr, groups.ids = nil, []string{"b"} })
	if err := o.refresh(t.Context()); err != nil || !slices.Equal(served(o), []string{"b"}) {
		t.Errorf("%v %v", err, served(o))
	}
	o.running.Wait()
}

// TestALookFromBefore has a look at a group end after a change that it did not see: it does not take the change back.
func TestALookFromBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups := newFakeGroups("g")
		o := observing(t, groups)
		if err := o.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		stuck := make(chan struct{})
		groups.set(func() { groups.hang["g"] = stuck })
		go func() { _ = o.refresh(t.Context()) }()
		synctest.Wait()
		time.Sleep(time.Second)
		o.lower("g", 0, "x://bare")
		groups.set(func() { delete(groups.hang, "g") })
		close(stuck)
		synctest.Wait()
		known, err := o.get("g")
		if err != nil || known.status.TargetSize != 1 || known.status.Instances[1].State != provider.NodeGroupInstanceDeleting {
			t.Errorf("%+v %v", known.status, err)
		}
		groups.set(func() {
			groups.status = provider.NodeGroupStatus{TargetSize: 1, Instances: groups.status.Instances[:1]}
		})
		if known, err = o.latest(t.Context(), "g"); err != nil || known.status.TargetSize != 1 || len(known.status.Instances) != 1 {
			t.Errorf("%+v %v", known.status, err)
		}
	})
}
