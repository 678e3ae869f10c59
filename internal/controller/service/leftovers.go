package service

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/service/writelimit"
	"github.com/mooring-ccm/mooring/internal/orphans"
	"github.com/mooring-ccm/mooring/provider"
)

// liveServices is how many Services a page of the API server's list has.
const liveServices = 500

// collector finds load balancers that belong to no Service, tells of them, and deletes them if that is wished. It acts on what
// two comparisons in a row have found, each with a complete list of the cloud and after it one of the API server itself.
type collector struct {
	// cached and live read Services from the cache and from the API server.
	cached, live client.Reader
	applier      *applier
	limiter      *writelimit.Limiter
	states       *states
	metrics      *metrics
	recorder     record.EventRecorder
	// collect says that leftovers are deleted.
	collect bool
	// turn is sent to when the write limiter has admitted us.
	turn chan struct{}
	// seen are those of the last comparison, told those that have been told of, failed those whose deletion failed.
	seen, told, failed map[leftoverKey]bool
	// parts are those of which only parts may be left: their deletion failed, and they are not listed any more.
	parts map[leftoverKey]partly
}

// partly is a leftover whose deletion failed though there is no load balancer to be seen, and how often it did.
type partly struct {
	orphans.Balancer
	tries int
}

// leftoverKey identifies a leftover.
type leftoverKey struct {
	name    string
	service types.UID
}

// sweep judges a listing of the cloud.
func (c *collector) sweep(ctx context.Context, listed []provider.LoadBalancer) error {
	found, err := c.find(ctx, listed)
	if err != nil {
		return err
	}
	errs := c.finish(ctx)
	seen, told, failed := map[leftoverKey]bool{}, map[leftoverKey]bool{}, map[leftoverKey]bool{}
	owners := map[bool]int{}
	for _, one := range found {
		key := leftoverKey{one.Name, one.ServiceUID}
		seen[key] = true
		if !c.seen[key] {
			continue // the first time counts for nothing
		}
		owners[one.Proven]++
		told[key] = true
		if !c.told[key] {
			c.tell(ctx, one)
		}
		if c.collect && one.Proven {
			err := c.delete(ctx, one, c.failed[key])
			failed[key] = err != nil
			errs = append(errs, err)
		}
	}
	c.seen, c.told, c.failed = seen, told, failed
	c.metrics.leftovers.WithLabelValues("this_cluster").Set(float64(owners[true]))
	c.metrics.leftovers.WithLabelValues("unknown").Set(float64(owners[false]))
	return errors.Join(errs...)
}

// finish repeats deletions that have left parts, each until it works or has failed too often.
func (c *collector) finish(ctx context.Context) (errs []error) {
	for key, one := range c.parts {
		err := c.delete(ctx, one.Balancer, true)
		if ctx.Err() != nil {
			return append(errs, ctx.Err())
		}
		if !isAbsent(err) {
			delete(c.parts, key) // if there is one again, it is listed
		}
		errs = append(errs, err)
	}
	return errs
}

// find returns the leftovers. The API server is asked only if the cache knows of load balancers without a Service: it is the
// cache that lags behind, if one does, and a Service that the API server does not have after the cloud was listed never had a
// load balancer that was made later.
func (c *collector) find(ctx context.Context, listed []provider.LoadBalancer) ([]orphans.Balancer, error) {
	cluster := c.applier.clusterUID(ctx)
	known, err := c.uids(ctx, c.cached)
	if err != nil || len(orphans.Balancers(listed, known, cluster)) == 0 {
		return nil, err
	}
	live, err := c.uids(ctx, c.live)
	if err != nil {
		return nil, err
	}
	return orphans.Balancers(listed, live, cluster), nil
}

// uids returns the UIDs of all Services, and of those that are gone while this process is still to delete what it made for them.
func (c *collector) uids(ctx context.Context, reader client.Reader) (map[types.UID]bool, error) {
	uids := map[types.UID]bool{}
	for _, known := range c.states.all() {
		if known.made != nil {
			uids[known.made.service.UID] = true
		}
	}
	var services metav1.PartialObjectMetadataList
	services.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
	if reader == c.cached {
		return uids, c.cachedUIDs(ctx, uids)
	}
	next := ""
	for {
		if err := reader.List(ctx, &services, client.Limit(liveServices), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("listing services: %w", err)
		}
		for i := range services.Items {
			uids[services.Items[i].UID] = true
		}
		if next = services.Continue; next == "" {
			return uids, nil
		}
	}
}

// cachedUIDs adds those of the cache, which holds whole Services: to ask it for their metadata would start another watch.
func (c *collector) cachedUIDs(ctx context.Context, uids map[types.UID]bool) error {
	var services corev1.ServiceList
	if err := c.cached.List(ctx, &services, client.UnsafeDisableDeepCopy); err != nil { // they are only read
		return fmt.Errorf("listing services: %w", err)
	}
	for i := range services.Items {
		uids[services.Items[i].UID] = true
	}
	return nil
}

// tell reports a leftover, once.
func (c *collector) tell(ctx context.Context, one orphans.Balancer) {
	owner := "this cluster"
	if !one.Proven {
		owner = "unknown: it carries no cluster's UID"
	}
	logf.FromContext(ctx).Info("A load balancer in the cloud belongs to no Service", "loadBalancer", one.Name,
		"service", one.Service.String(), "serviceUID", one.ServiceUID, "owner", owner, "collect", c.collect && one.Proven)
	c.recorder.Event(one.AsService(), corev1.EventTypeWarning, EventLeftover,
		fmt.Sprintf("The load balancer %s in the cloud was made for this Service, which does not exist any more", one.Name))
}

// delete deletes a leftover, whose last deletion may have failed. Whether it has worked, the next listing tells.
func (c *collector) delete(ctx context.Context, one orphans.Balancer, failed bool) error {
	service := one.AsService()
	err := c.remove(ctx, service, failed)
	if isAbsent(err) && c.triedOften(one) {
		deletionIncomplete(ctx, c.recorder, service, err)
		err = nil
	}
	if err != nil {
		return fmt.Errorf("deleting the load balancer %s, which belongs to no Service: %w", one.Name, err)
	}
	c.metrics.collected.Inc()
	c.recorder.Event(service, corev1.EventTypeNormal, EventCollected, fmt.Sprintf("Deleted the load balancer %s", one.Name))
	logf.FromContext(ctx).Info("Deleted a load balancer that belonged to no Service", "loadBalancer", one.Name,
		"service", one.Service.String(), "serviceUID", one.ServiceUID)
	return nil
}

// triedOften counts that the deletion of a leftover has failed though there is no load balancer to be seen, and reports whether that is
// enough to believe that there is none.
func (c *collector) triedOften(one orphans.Balancer) bool {
	key := leftoverKey{one.Name, one.ServiceUID}
	before := c.parts[key]
	if before.tries+1 >= absenceTries {
		delete(c.parts, key)
		return true
	}
	if c.parts == nil {
		c.parts = map[leftoverKey]partly{}
	}
	c.parts[key] = partly{one, before.tries + 1}
	return false
}

// remove deletes the load balancer of a Service that is gone, when the write limiter admits it.
func (c *collector) remove(ctx context.Context, service *corev1.Service, failed bool) error {
	for !c.limiter.Acquire(writelimit.Orphans, priorityOrphan, failed, nil) {
		select {
		case <-c.turn:
		case <-ctx.Done():
			c.limiter.Cancel(writelimit.Orphans)
			return ctx.Err()
		}
	}
	defer c.limiter.Release(writelimit.Orphans)
	return c.applier.remove(ctx, service)
}
