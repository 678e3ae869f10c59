package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/mooring-ccm/mooring/internal/sleep"
)

// errWatchEnded is a watch that the server ended before it was of any use.
var errWatchEnded = errors.New("the watch ended at once")

// await blocks until it is worth reading the lease again: it looks free, it may have expired, its holder has changed or is gone, the watch
// ended, or ctx did.
func (l *Lock) await(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	died := l.holderDied()
	go func() {
		select {
		case <-died:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := l.watch(ctx)
	if err == nil || ctx.Err() != nil {
		return
	}
	l.sayUnwatchable(ctx, err)
	sleep.For(ctx, wait.Jitter(l.options.RetryPeriod, 0.2))
}

// watch follows the lease until it looks free, is gone, or has not changed for its duration. A watch that is silent because
// the connection is dead ends by that too, and what the lease really is shows when it is read again.
func (l *Lock) watch(ctx context.Context) error {
	started := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	expiry := time.AfterFunc(time.Until(l.seen.expiry()), cancel)
	defer expiry.Stop()

	only := fields.OneTermEqualSelector(metav1.ObjectNameField, l.options.Name).String()
	list, err := l.watcher.List(ctx, metav1.ListOptions{FieldSelector: only})
	if err != nil {
		return unlessDone(ctx, fmt.Errorf("list: %w", err))
	}
	holder := l.seen.record.HolderIdentity
	if len(list.Items) == 0 || l.looksFree(&list.Items[0]) || l.seen.heldByAnother(holder) {
		return nil
	}
	expiry.Reset(time.Until(l.seen.expiry()))
	watcher, err := l.watcher.Watch(ctx, metav1.ListOptions{FieldSelector: only, ResourceVersion: list.ResourceVersion})
	if err != nil {
		return unlessDone(ctx, fmt.Errorf("watch: %w", err))
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		switch event.Type {
		case watch.Deleted:
			return nil
		case watch.Error:
			return unlessDone(ctx, fmt.Errorf("watch: %w", apierrors.FromObject(event.Object)))
		case watch.Added, watch.Modified:
			if lease, ok := event.Object.(*coordinationv1.Lease); ok && (l.looksFree(lease) || l.seen.heldByAnother(holder)) {
				return nil
			}
			expiry.Reset(time.Until(l.seen.expiry()))
		}
	}
	if time.Since(started) < l.options.RetryPeriod {
		return unlessDone(ctx, errWatchEnded)
	}
	return nil
}

// looksFree takes in a lease that a list or a watch brought. It is no permission to take it: Get reads it again.
func (l *Lock) looksFree(lease *coordinationv1.Lease) bool {
	now := time.Now()
	l.seen.see(resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec), now)
	return l.seen.freeFor(l.Identity(), now)
}

// sayUnwatchable logs that this replica has to poll, once per reason: the takeover is then slower by up to a retry period.
func (l *Lock) sayUnwatchable(ctx context.Context, err error) {
	if reason := err.Error(); reason != l.unwatchable {
		l.unwatchable = reason
		klog.FromContext(ctx).Info("The lease cannot be watched: asking for it once per retry period", "lease", l.Describe(),
			"interval", l.options.RetryPeriod, "reason", reason)
	}
}

// unlessDone drops an error that only says that ctx has ended.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// observation is what this process has seen of the lease, and since when it has not changed. The zero value has seen nothing.
type observation struct {
	record *resourcelock.LeaderElectionRecord
	since  time.Time
}

// see takes in the lease as it is at now. Only a change of the record starts its duration anew; a label or annotation that
// another writer put on the Lease is no sign of life from its holder.
func (o *observation) see(record *resourcelock.LeaderElectionRecord, now time.Time) {
	if o.record != nil && apiequality.Semantic.DeepEqual(o.record, record) {
		return
	}
	seen := *record
	o.record, o.since = &seen, now
}

// expiry is when the lease expires if it is not renewed before.
func (o *observation) expiry() time.Time {
	return o.since.Add(time.Duration(o.record.LeaseDurationSeconds) * time.Second)
}

// freeFor reports whether a replica with the given identity may try to take the lease at now.
func (o *observation) freeFor(identity string, now time.Time) bool {
	holder := o.record.HolderIdentity
	return holder == "" || holder == identity || !now.Before(o.expiry())
}

// heldByAnother reports whether the lease has a holder, and not the one that it had.
func (o *observation) heldByAnother(than string) bool {
	return o.record.HolderIdentity != "" && o.record.HolderIdentity != than
}
