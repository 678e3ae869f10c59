package election

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// follower watches the Pod of the holder of a lease, until it shows that the holder's container has terminated.
type follower struct {
	of     holderPod
	lease  string
	logger klog.Logger
	// died is closed when the Pod shows that the container has terminated, and finished is when it has.
	died     chan struct{}
	finished time.Time
	// unwatchable is why the Pod could not be watched.
	unwatchable string

	cancel context.CancelFunc
	ended  chan struct{}
}

// follow watches the Pod of the lease's holder, if it is known, and no other Pod.
func (l *Lock) follow(ctx context.Context, record *resourcelock.LeaderElectionRecord) {
	if l.pods == nil {
		return
	}
	of := podOf(l.read, record.HolderIdentity, l.options.Pod.Namespace)
	if l.following != nil && l.following.of == of {
		return
	}
	l.unfollow()
	if of == (holderPod{}) {
		return
	}
	f := &follower{of: of, lease: l.Describe(), logger: klog.FromContext(ctx), died: make(chan struct{}), ended: make(chan struct{})}
	ctx, f.cancel = context.WithCancel(ctx)
	l.following = f
	go func() {
		defer close(f.ended)
		f.watch(ctx, l.pods)
	}()
}

// unfollow ends the watch of the holder's Pod.
func (l *Lock) unfollow() {
	if f := l.following; f != nil {
		f.cancel()
		<-f.ended
	}
	l.following = nil
}

// holderDied returns a channel that is closed when the holder of the lease is known to be gone, nil if that cannot show.
func (l *Lock) holderDied() <-chan struct{} {
	if l.following == nil {
		return nil
	}
	return l.following.died
}

// holderTerminated reports whether the holder of a lease that was just read is known to be gone. If it has renewed the lease after the end of
// its container, one of the two is wrong, and the lease has to expire.
func (l *Lock) holderTerminated(record *resourcelock.LeaderElectionRecord) bool {
	f := l.following
	if f == nil {
		return false
	}
	select {
	case <-f.died:
		f.died = nil // it is looked at once: what is contradicted now stays so
	default:
		return false
	}
	if f.of.Holder != record.HolderIdentity {
		return false
	}
	logger := f.logger.WithValues("lease", f.lease, "pod", f.of.Namespace+"/"+f.of.Name, "finishedAt", f.finished)
	if contradicted(f.finished, record.RenewTime) {
		logger.Info("The container of the lease's holder is reported as terminated, but the lease was renewed later: waiting until it expires",
			"renewed", record.RenewTime.Time)
		return false
	}
	logger.Info("The container of the lease's holder has terminated: taking the lease")
	return true
}

// watch looks at each state of the Pod that there is, until ctx ends.
func (f *follower) watch(ctx context.Context, client kubernetes.Interface) {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, f.of.Name).String()
	informer := coreinformers.NewFilteredPodInformer(client, f.of.Namespace, 0, cache.Indexers{},
		func(options *metav1.ListOptions) { options.FieldSelector = only })
	// That the Pod is gone says nothing: its processes may run.
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: f.see, UpdateFunc: func(_, pod any) { f.see(pod) }})
	if err = errors.Join(err, informer.SetWatchErrorHandlerWithContext(f.sayUnwatchable)); err != nil {
		f.sayUnwatchable(ctx, nil, err)
		return
	}
	informer.RunWithContext(ctx)
}

// see takes in a state of the Pod.
func (f *follower) see(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || !f.finished.IsZero() {
		return
	}
	logger := f.logger.WithValues("pod", pod.Namespace+"/"+pod.Name, "resourceVersion", pod.ResourceVersion)
	finished, err := termination(pod, f.of)
	if err != nil {
		logger.V(4).Info("The holder of the lease may run", "lease", f.lease, "reason", err.Error())
		return
	}
	logger.V(4).Info("The container of the lease's holder has terminated", "lease", f.lease, "finishedAt", finished)
	f.finished = finished
	close(f.died)
}

// sayUnwatchable logs that a takeover has to wait for the lease to expire, once per reason.
func (f *follower) sayUnwatchable(ctx context.Context, _ *cache.Reflector, err error) {
	if reason := err.Error(); ctx.Err() == nil && reason != f.unwatchable {
		f.unwatchable = reason
		f.logger.Info("The Pod of the lease's holder cannot be watched: if it crashes, the lease has to expire", "lease", f.lease,
			"pod", f.of.Namespace+"/"+f.of.Name, "reason", reason)
	}
}
