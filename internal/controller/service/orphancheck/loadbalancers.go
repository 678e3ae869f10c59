// Package orphancheck looks in the cloud's list for load balancers that belong to no Service. It reports them, and deletes them where that is
// wished and the cloud proves that they are this cluster's.
//
// See ADR 45.
package orphancheck

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/metric"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/internal/orphans"
	"github.com/mooring-ccm/mooring/provider"
)

// The reasons of events. They are recorded on the Service that a load balancer was made for.
const (
	// EventOrphan says that a load balancer in the cloud belongs to no Service.
	EventOrphan = "OrphanLoadBalancer"
	// EventDeletedOrphan says that it was deleted.
	EventDeletedOrphan = "DeletedOrphanLoadBalancer"
)

// liveServices is how many Services a page of the API server's list has.
const liveServices = 500

// Metrics count orphans.
type Metrics struct {
	loadBalancers *prometheus.GaugeVec
	deleted       prometheus.Counter
}

// NewMetrics returns metrics that are exported by a registerer; nil: they are not.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	factory := metric.With(registerer)
	return &Metrics{
		loadBalancers: factory.NewGaugeVec(names.MetricServiceOrphans,
			"Load balancers in the cloud that belong to no Service, by owner: this_cluster, or unknown for those without a "+
				"cluster's UID, which may be another cluster's of the same name.", "owner"),
		deleted: factory.NewCounter("mooring_service_orphans_deleted_total",
			"Load balancers that were deleted because they belonged to no Service."),
	}
}

// LoadBalancers finds load balancers that belong to no Service, reports them, and deletes them if that is wished. It acts on what
// two checks in a row have found, each with a complete list of the cloud and after it one of the API server itself. It is not safe
// for concurrent use; the deletions are made by a goroutine of its own.
type LoadBalancers struct {
	// Cached and Live read Services from the cache and from the API server.
	Cached, Live client.Reader
	// ClusterUID returns the cluster's UID, empty while it is not known.
	ClusterUID func(context.Context) types.UID
	// Made returns the UIDs of the Services for which this process has made a load balancer that it has not deleted.
	Made func() []types.UID
	// Delete deletes the load balancer of a Service that does not exist. Parts says that the deletion is to
	// be repeated though there is no load balancer to be seen: parts of it may be left. Before is how many deletions in a row said so.
	Delete func(ctx context.Context, service *corev1.Service, before int) (parts bool, err error)
	// DeleteProven says that orphans are deleted that are proven to be this cluster's.
	DeleteProven bool
	// Period is how often Check is called.
	Period   time.Duration
	Metrics  *Metrics
	Recorder record.EventRecorder

	// seen are the orphans of the last check, and reported the orphans with a report.
	seen, reported map[orphanKey]bool
	deletions      deletions
}

// orphanKey identifies an orphan.
type orphanKey struct {
	name    string
	service types.UID
}

func keyOf(one orphans.Balancer) orphanKey { return orphanKey{one.Name, one.ServiceUID} }

// Check looks for orphans in a list of the cloud, and reports them. It does not wait for deletions, see Wait.
func (l *LoadBalancers) Check(ctx context.Context, listed []provider.LoadBalancer) error {
	found, err := l.find(ctx, listed)
	if err != nil {
		return err
	}
	seen, reported := map[orphanKey]bool{}, map[orphanKey]bool{}
	owners := map[bool]int{}
	var proven []orphans.Balancer
	for _, one := range found {
		key := keyOf(one)
		seen[key] = true
		if !l.seen[key] {
			continue // the first time counts for nothing
		}
		owners[one.Proven]++
		reported[key] = true
		if !l.reported[key] {
			l.report(ctx, one)
		}
		if l.DeleteProven && one.Proven {
			proven = append(proven, one)
		}
	}
	l.seen, l.reported = seen, reported
	l.Metrics.loadBalancers.WithLabelValues("this_cluster").Set(float64(owners[true]))
	l.Metrics.loadBalancers.WithLabelValues("unknown").Set(float64(owners[false]))
	l.deleteAll(ctx, proven, seen)
	return nil
}

// find returns the orphans. The API server is asked only if the cache knows of load balancers without a Service: it is the
// cache that lags behind, if one does, and a Service that the API server does not have after the cloud was listed never had a
// load balancer that was made later.
func (l *LoadBalancers) find(ctx context.Context, listed []provider.LoadBalancer) ([]orphans.Balancer, error) {
	cluster := l.ClusterUID(ctx)
	known, err := l.uids(func(add func(types.UID)) error {
		var services corev1.ServiceList // whole ones, as the cache holds: to ask it for their metadata would start another watch
		err := l.Cached.List(ctx, &services, client.UnsafeDisableDeepCopy)
		for i := range services.Items {
			add(services.Items[i].UID)
		}
		return err
	})
	if err != nil || len(orphans.Balancers(listed, known, cluster)) == 0 {
		return nil, err
	}
	live, err := l.uids(func(add func(types.UID)) error {
		pages := pager.ListPager{PageSize: liveServices, PageFn: func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
			services := &metav1.PartialObjectMetadataList{}
			services.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
			return services, l.Live.List(ctx, services, client.Limit(page.Limit), client.Continue(page.Continue))
		}}
		return pages.EachListItem(ctx, metav1.ListOptions{}, func(service runtime.Object) error {
			add(service.(*metav1.PartialObjectMetadata).UID)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return orphans.Balancers(listed, live, cluster), nil
}

// uids returns the UIDs of the Services that there are, and of the ones for which this process still has something to delete.
func (l *LoadBalancers) uids(list func(add func(types.UID)) error) (map[types.UID]bool, error) {
	uids := map[types.UID]bool{}
	for _, uid := range l.Made() {
		uids[uid] = true
	}
	if err := list(func(uid types.UID) { uids[uid] = true }); err != nil {
		return nil, fmt.Errorf("listing services: %w", err)
	}
	return uids, nil
}

// report reports an orphan, once.
func (l *LoadBalancers) report(ctx context.Context, one orphans.Balancer) {
	owner := "this cluster"
	if !one.Proven {
		owner = "unknown: it carries no cluster's UID"
	}
	logf.FromContext(ctx).Info("A load balancer in the cloud belongs to no Service", "loadBalancer", one.Name,
		"service", one.Service.String(), "serviceUID", one.ServiceUID, "owner", owner, "delete", l.DeleteProven && one.Proven)
	l.Recorder.Event(one.AsService(), corev1.EventTypeWarning, EventOrphan,
		fmt.Sprintf("The load balancer %s in the cloud was made for this Service, which no longer exists. Remove it with mooring orphans, or set --collect-orphans", one.Name))
}
