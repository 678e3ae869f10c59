package orphancheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/provider"
)

// services answers lists of Services with these UIDs, one page for each, and counts the pages.
type services struct {
	client.Reader
	uids  []types.UID
	pages int
	// fails is the page, counted from 1, that cannot be read; 0: none.
	fails int
}

func (s *services) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := client.ListOptions{}
	asked.ApplyOptions(options)
	s.pages++
	if s.pages == s.fails {
		return errors.New("internal error")
	}
	switch list := list.(type) {
	case *corev1.ServiceList:
		for _, uid := range s.uids {
			list.Items = append(list.Items, corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: uid}})
		}
	case *metav1.PartialObjectMetadataList:
		at := 0
		if asked.Continue != "" {
			at = slices.Index(s.uids, types.UID(asked.Continue))
		}
		list.Items, list.Continue = nil, ""
		if at < len(s.uids) {
			list.Items = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{UID: s.uids[at]}}}
		}
		if at+1 < len(s.uids) {
			list.Continue = string(s.uids[at+1])
		}
	}
	return nil
}

// period is how often the tests check.
const period = 10 * time.Minute

// deletion is a call of LoadBalancers.Delete.
type deletion struct {
	UID    types.UID
	Before int
}

// checked is a check of load balancers with what it works on, and what it has done.
type checked struct {
	*LoadBalancers
	cached, live *services
	events       *record.FakeRecorder
	calls        []deletion
	made         []types.UID
	// fails are the errors of deletions by UID, parts those after which parts may be left.
	fails map[types.UID]error
	parts map[types.UID]bool
}

// newChecked returns a check in the cluster "me", which has the Service "web".
func newChecked() *checked {
	c := &checked{
		cached: &services{uids: []types.UID{"web"}}, live: &services{uids: []types.UID{"web"}}, events: record.NewFakeRecorder(100),
		fails: map[types.UID]error{}, parts: map[types.UID]bool{},
	}
	c.LoadBalancers = &LoadBalancers{
		Cached: c.cached, Live: c.live, ClusterUID: func(context.Context) types.UID { return "me" },
		Made: func() []types.UID { return c.made }, DeleteProven: true, Period: period, Metrics: NewMetrics(nil), Recorder: c.events,
		Delete: func(_ context.Context, service *corev1.Service, before int) (bool, error) {
			c.calls = append(c.calls, deletion{service.UID, before})
			return c.parts[service.UID], c.fails[service.UID]
		},
	}
	return c
}

// balancer is a load balancer in the cloud that was made for a Service by a cluster.
func balancer(service, cluster types.UID) provider.LoadBalancer {
	return provider.LoadBalancer{
		Name: "lb-" + string(service), Service: types.NamespacedName{Namespace: "shop", Name: string(service)},
		ServiceUID: service, ClusterUID: cluster,
	}
}

// expect compares what was deleted since it was last called.
func (c *checked) expect(t *testing.T, want ...deletion) {
	t.Helper()
	if diff := cmp.Diff(want, c.calls); diff != "" {
		t.Errorf("deletions (-want +got):\n%s", diff)
	}
	c.calls = nil
}

func (c *checked) check(t *testing.T, listed ...provider.LoadBalancer) {
	t.Helper()
	if err := c.Check(t.Context(), listed); err != nil {
		t.Error(err)
	}
	c.Wait()
}

// recorded returns the events since it was last called.
func (c *checked) recorded() (events []string) {
	for range len(c.events.Events) {
		events = append(events, <-c.events.Events)
	}
	return events
}

func TestAnOrphanIsDeletedWhenTwoChecksHaveFoundIt(t *testing.T) {
	c, listed := newChecked(), []provider.LoadBalancer{balancer("web", "me"), balancer("gone", "me"), balancer("old", "")}
	c.check(t, listed...)
	c.expect(t)
	if got := c.recorded(); got != nil {
		t.Errorf("events at the first sight: %q", got)
	}
	c.check(t, listed...)
	c.expect(t, deletion{UID: "gone"})
	want := []string{
		"Warning OrphanLoadBalancer The load balancer lb-gone in the cloud was made for this Service, which no longer exists. Remove it with mooring orphans, or set --collect-orphans",
		"Warning OrphanLoadBalancer The load balancer lb-old in the cloud was made for this Service, which no longer exists. Remove it with mooring orphans, or set --collect-orphans",
		"Normal DeletedOrphanLoadBalancer Deleted the load balancer lb-gone",
	}
	if diff := cmp.Diff(want, c.recorded()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for owner, want := range map[string]float64{"this_cluster": 1, "unknown": 1} {
		if got := testutil.ToFloat64(c.Metrics.loadBalancers.WithLabelValues(owner)); got != want {
			t.Errorf("%v orphans whose owner is %s, want %v", got, owner, want)
		}
	}
	// What has been reported is not reported again, unless it was away.
	c.check(t, balancer("old", ""))
	if got := c.recorded(); got != nil {
		t.Errorf("reported again: %q", got)
	}
	for range 2 {
		c.check(t)
		c.check(t, balancer("old", ""))
	}
	if got := c.recorded(); got != nil {
		t.Errorf("reported though it was never found twice in a row: %q", got)
	}
	c.check(t, balancer("old", ""))
	if got := c.recorded(); len(got) != 1 {
		t.Errorf("events after it came back: %q", got)
	}
	c.expect(t)
	if got := testutil.ToFloat64(c.Metrics.deleted); got != 1 {
		t.Errorf("%v deleted, want 1", got)
	}
}

// Whatever is true of one of these load balancers at each check, it is not deleted, and a proven orphan beside it is.
func TestWhatIsNeverDeleted(t *testing.T) {
	tests := map[string]struct {
		kept provider.LoadBalancer
		set  func(*checked)
	}{
		"its Service is there":                   {kept: balancer("web", "me")},
		"the cache does not show its Service":    {kept: balancer("new", "me"), set: func(c *checked) { c.live.uids = []types.UID{"web", "other", "new"} }},
		"this process is about to delete it":     {kept: balancer("going", "me"), set: func(c *checked) { c.made = []types.UID{"going"} }},
		"another cluster made it":                {kept: balancer("theirs", "another")},
		"its cluster is unknown":                 {kept: balancer("old", "")},
		"its Service is unknown":                 {kept: balancer("", "me")},
		"a Service of the same UID, in old form": {kept: balancer("web", "")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newChecked()
			if test.set != nil {
				test.set(c)
			}
			for range 3 {
				c.check(t, test.kept, balancer("gone", "me"))
			}
			c.expect(t, deletion{UID: "gone"}, deletion{UID: "gone"}) // the list shows it still
		})
	}
}

// Whatever is true of a check, it deletes nothing, proven or not.
func TestChecksThatDeleteNothing(t *testing.T) {
	tests := map[string]struct {
		set   func(*checked)
		fails bool
	}{
		"deletion is not wished":                {set: func(c *checked) { c.DeleteProven = false }},
		"the cluster's own UID is not known":    {set: func(c *checked) { c.ClusterUID = func(context.Context) types.UID { return "" } }},
		"the cache cannot be read":              {set: func(c *checked) { c.cached.pages, c.cached.fails = 0, 1 }, fails: true},
		"the API server cannot be read":         {set: func(c *checked) { c.live.pages, c.live.fails = 0, 1 }, fails: true},
		"the last page of the API server fails": {set: func(c *checked) { c.live.pages, c.live.fails = 0, 2 }, fails: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newChecked()
			c.live.uids = []types.UID{"web", "other"}
			for i := range 3 {
				test.set(c)
				if err := c.Check(t.Context(), []provider.LoadBalancer{balancer("gone", "me")}); (err != nil) != test.fails {
					t.Errorf("check %d: error %v", i, err)
				}
				c.Wait()
			}
			c.expect(t)
		})
	}
}

func TestTheAPIServerIsAskedOnlyInDoubt(t *testing.T) {
	c := newChecked()
	for range 3 {
		c.check(t, balancer("web", "me"), balancer("theirs", "another"))
	}
	if c.live.pages != 0 {
		t.Errorf("the API server was asked for %d pages without need", c.live.pages)
	}
}

// A check between two that found it, which could not be made, does not count: neither against the load balancer nor for it.
func TestACheckThatFailsCountsForNothing(t *testing.T) {
	c := newChecked()
	c.live.fails = 1
	if err := c.Check(t.Context(), []provider.LoadBalancer{balancer("gone", "me")}); err == nil {
		t.Error("a check without the API server is no error")
	}
	c.check(t, balancer("gone", "me"))
	c.expect(t)
	c.check(t, balancer("gone", "me"))
	c.expect(t, deletion{UID: "gone"})
}

// Orphans that can never be deleted are tried again after pauses that grow, and hold up neither the checks nor the deletion of others by more
// than the one that is under way.
func TestDeletionsThatAlwaysFailHoldUpNoOther(t *testing.T) {
	const hangs, stuck, rounds = 10 * time.Minute, 5, 48
	synctest.Test(t, func(t *testing.T) {
		c := newChecked()
		var listed []provider.LoadBalancer
		for i := range stuck {
			listed = append(listed, balancer(types.UID(fmt.Sprint("stuck-", i)), "me"))
		}
		var mu sync.Mutex
		tries, deleted := map[types.UID]int{}, map[types.UID]bool{}
		c.Delete = func(_ context.Context, service *corev1.Service, _ int) (bool, error) {
			bad := strings.HasPrefix(service.Name, "stuck")
			if bad {
				time.Sleep(hangs)
			}
			mu.Lock()
			defer mu.Unlock()
			tries[service.UID]++
			if bad {
				return false, errors.New("no rights")
			}
			deleted[service.UID] = true
			return false, nil
		}
		check := func(also ...provider.LoadBalancer) {
			t.Helper()
			began := time.Now()
			if err := c.Check(t.Context(), append(slices.Clone(listed), also...)); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("a check took %s", took)
			}
		}
		for round := range rounds {
			gone := types.UID(fmt.Sprint("gone-", round))
			check(balancer(gone, "me"))
			time.Sleep(period)
			check(balancer(gone, "me"))
			time.Sleep(hangs + time.Second)
			mu.Lock()
			if !deleted[gone] {
				t.Errorf("round %d: the other orphan is not deleted", round)
			}
			mu.Unlock()
			c.recorded()
			time.Sleep(period)
		}
		c.Wait()
		for _, one := range listed {
			if n := tries[one.ServiceUID]; n < 4 || n > 12 {
				t.Errorf("%s was tried %d times in %d periods, want pauses that grow up to %d of them", one.Name, n, 2*rounds, maxBackoffPeriods)
			}
		}
	})
}

// The pause after deletions that fail doubles up to its bound. What has been away from the list begins anew.
func TestPausesAfterDeletionsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChecked()
		c.fails["stuck"] = errors.New("no rights")
		var at []int
		c.check(t, balancer("stuck", "me"))
		for i := range 120 {
			c.check(t, balancer("stuck", "me"))
			if len(c.calls) > 0 {
				c.expect(t, deletion{UID: "stuck"})
				at = append(at, i)
			}
			time.Sleep(period)
		}
		if diff := cmp.Diff([]int{0, 1, 2, 4, 8, 16, 32, 64, 96}, at); diff != "" {
			t.Errorf("periods in which it was tried (-want +got):\n%s", diff)
		}
		c.check(t)
		c.check(t, balancer("stuck", "me"))
		c.check(t, balancer("stuck", "me"))
		c.expect(t, deletion{UID: "stuck"})
	})
}

// A deletion that leaves parts behind is repeated though the list does not show the load balancer, until it works or ends.
func TestPartsAreDeletedThoughTheyAreNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChecked()
		c.fails["gone"], c.parts["gone"] = errors.New("in use"), true
		c.check(t, balancer("gone", "me"))
		for tries := range 4 {
			var listed []provider.LoadBalancer
			if tries == 0 {
				listed = append(listed, balancer("gone", "me"))
			}
			c.check(t, listed...)
			c.expect(t, deletion{"gone", tries})
			time.Sleep(maxBackoffPeriods * period)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Check(ended, nil); err != nil {
			t.Error(err)
		}
		c.Wait()
		c.expect(t)
		delete(c.fails, "gone")
		c.parts["gone"] = false
		c.check(t)
		c.expect(t, deletion{"gone", 4})
		if got := c.recorded(); len(got) != 2 || got[1] != "Normal DeletedOrphanLoadBalancer Deleted the load balancer lb-gone" {
			t.Errorf("events %q", got)
		}
		c.check(t)
		c.expect(t)
	})
}

// No deletion begins when the controller has ended, and what the one under way returns then counts for nothing.
func TestDeletionsEndWithTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChecked()
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		c.Delete = func(ctx context.Context, _ *corev1.Service, _ int) (bool, error) {
			calls++
			<-ctx.Done()
			return true, ctx.Err()
		}
		for range 2 {
			if err := c.Check(ctx, []provider.LoadBalancer{balancer("a", "me"), balancer("b", "me")}); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		cancel()
		c.Wait()
		if calls != 1 || len(c.LoadBalancers.deletions.failing) != 0 {
			t.Errorf("%d deletions, and %v counted as failed", calls, c.LoadBalancers.deletions.failing)
		}
	})
}
