package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
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
