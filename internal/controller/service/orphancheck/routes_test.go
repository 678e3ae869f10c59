package orphancheck

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listedRoutes is a cloud that lists routes. It has no other calls: one that changes routes ends the test.
type listedRoutes struct {
	cloudprovider.Routes
	mu     sync.Mutex
	routes []*cloudprovider.Route
	err    error
	lists  int
	// reported are the destinations that have been reported since they were last looked at.
	reported []string
}

func (l *listedRoutes) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists++
	return l.routes, l.err
}

// note takes notice of a log line.
func (l *listedRoutes) note(line string) {
	_, destination, _ := strings.Cut(line, `"destination"="`)
	destination, _, _ = strings.Cut(destination, `"`)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reported = append(l.reported, destination)
}

func (l *listedRoutes) set(err error, routes ...*cloudprovider.Route) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.routes, l.err = routes, err
}

// oneNode is a cluster with the node a.
type oneNode struct{ client.Reader }

func (oneNode) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*corev1.NodeList).Items = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}
	return nil
}

func routeBy(target types.NodeName, cidr string) *cloudprovider.Route {
	return &cloudprovider.Route{Name: "to-" + cidr, TargetNode: target, DestinationCIDR: cidr}
}

// Routes that lead to no node are reported when two checks in a row have found them, once, and never deleted.
func TestRoutesThatLeadToNoNodeAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &listedRoutes{}
		check := &Routes{Cloud: cloud, ClusterName: "test", Period: time.Minute, Reader: oneNode{}, Metrics: NewMetrics(nil)}
		ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), funcr.New(func(_, line string) { cloud.note(line) }, funcr.Options{})))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			check.Run(ctx)
		}()
		expect := func(after time.Duration, gauge float64, want ...string) {
			t.Helper()
			time.Sleep(after)
			cloud.mu.Lock()
			defer cloud.mu.Unlock()
			if diff := cmp.Diff(want, cloud.reported); diff != "" {
				t.Errorf("reported (-want +got):\n%s", diff)
			}
			cloud.reported = nil
			if got := testutil.ToFloat64(check.Metrics.routes); got != gauge {
				t.Errorf("the gauge is %v, want %v", got, gauge)
			}
		}
		time.Sleep(30 * time.Second) // between two checks
		gone, fine := routeBy("gone", "10.244.9.0/24"), routeBy("a", "10.244.1.0/24")
		cloud.set(nil, gone, fine)
		expect(time.Minute, 0) // the first sight counts for nothing
		expect(time.Minute, 1, "10.244.9.0/24")
		expect(time.Hour, 1)
		// While the cloud does not list, what is known stays.
		cloud.set(errors.New("internal error"))
		expect(10*time.Minute, 1)
		cloud.set(nil, gone, fine, routeBy("other", "192.0.2.0/24"))
		expect(time.Minute, 1)
		expect(time.Minute, 2, "192.0.2.0/24")
		// An empty list means that there are none; one that comes back is reported again, by the second check.
		cloud.set(nil)
		expect(time.Minute, 0)
		cloud.set(nil, gone)
		expect(time.Minute, 0)
		expect(time.Minute, 1, "10.244.9.0/24")
		cancel()
		<-ended
		lists := cloud.lists
		time.Sleep(time.Hour)
		if cloud.lists != lists {
			t.Error("the check goes on after its end")
		}
	})
}
