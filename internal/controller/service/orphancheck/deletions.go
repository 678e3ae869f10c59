package orphancheck

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/orphans"
)

// maxBackoffPeriods bounds the pause after deletions of an orphan that failed, in periods of the check.
const maxBackoffPeriods = 32

// deletions are the orphans to delete, and what came of those whose deletion failed. They are deleted one after the other, since they
// wait for the same place.
type deletions struct {
	running sync.WaitGroup

	mu sync.Mutex
	// busy says that a goroutine deletes, and current is what.
	busy    bool
	current orphanKey
	// due are the orphans that the last check has found due, in the order of their deletion.
	due []orphans.Balancer
	// failing are the orphans whose last deletion failed.
	failing map[orphanKey]failure
}

// failure is a row of deletions of an orphan that failed.
type failure struct {
	orphans.Balancer
	kit.Row
	// parts is how many of the last ones failed though there was no load balancer to be seen: then parts of it may be left, and the deletion is
	// repeated though it is no longer listed.
	parts int
}

// Wait waits for the deletion that is under way. None begins once the context of the checks has ended.
func (l *LoadBalancers) Wait() { l.deletions.running.Wait() }

// deleteAll has the orphans of a check deleted, and what is left of earlier ones. Its goroutine may still be busy with orphans of the check before.
// It tries each orphan once for a check, and orphans without a failure first. Seen are all orphans of the check.
func (l *LoadBalancers) deleteAll(ctx context.Context, proven []orphans.Balancer, seen map[orphanKey]bool) {
	d, now := &l.deletions, time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failing == nil {
		d.failing = map[orphanKey]failure{}
	}
	due := slices.Clone(proven)
	for key, failed := range d.failing {
		switch {
		case seen[key] || d.busy && key == d.current:
		case failed.parts > 0:
			due = append(due, failed.Balancer)
		default:
			delete(d.failing, key) // if there is one again, it is listed
		}
	}
	d.due = slices.DeleteFunc(due, func(one orphans.Balancer) bool {
		return d.busy && keyOf(one) == d.current || d.failing[keyOf(one)].Rests(now)
	})
	slices.SortStableFunc(d.due, func(a, b orphans.Balancer) int {
		return cmp.Or(d.failing[keyOf(a)].Until.Compare(d.failing[keyOf(b)].Until), cmp.Compare(a.Name, b.Name))
	})
	if len(d.due) > 0 && !d.busy {
		d.busy = true
		d.running.Go(func() {
			for l.deleteNext(ctx) {
			}
		})
	}
}

// deleteNext deletes the orphan whose turn it is, and reports whether there was one.
func (l *LoadBalancers) deleteNext(ctx context.Context) bool {
	d := &l.deletions
	d.mu.Lock()
	if len(d.due) == 0 || ctx.Err() != nil {
		d.busy = false
		d.mu.Unlock()
		return false
	}
	one := d.due[0]
	d.due, d.current = d.due[1:], keyOf(one)
	before := d.failing[d.current]
	d.mu.Unlock()
	parts, err := l.Delete(ctx, one.AsService(), before.parts)
	if ctx.Err() == nil || err == nil {
		l.deleted(ctx, one, before, parts, err)
	}
	return true
}

// deleted takes in what came of a deletion. Whether it has worked, the next list of the cloud shows.
func (l *LoadBalancers) deleted(ctx context.Context, one orphans.Balancer, before failure, parts bool, err error) {
	log := logf.FromContext(ctx).WithValues("loadBalancer", one.Name, "service", one.Service.String(), "serviceUID", one.ServiceUID)
	pauses := kit.Backoff{First: l.Period / 2, Longest: maxBackoffPeriods * l.Period}
	failed := failure{Balancer: one, Row: before.Failed(time.Now(), pauses, err)}
	if parts {
		failed.parts = before.parts + 1
	}
	d := &l.deletions
	d.mu.Lock()
	if delete(d.failing, keyOf(one)); err != nil {
		d.failing[keyOf(one)] = failed
	}
	d.mu.Unlock()
	switch {
	case err == nil:
		l.Metrics.deleted.Inc()
		l.Recorder.Event(one.AsService(), corev1.EventTypeNormal, EventDeletedOrphan, fmt.Sprintf("Deleted the load balancer %s", one.Name))
		log.Info("Deleted a load balancer that belonged to no Service")
	case before.Count == 0:
		log.Error(err, "Could not delete a load balancer that belongs to no Service; it is tried again after pauses that grow",
			"retryAfter", pauses.First.String())
	}
}
