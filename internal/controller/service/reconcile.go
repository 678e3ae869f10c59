package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// The priorities in the queue of the controller and in the write limiter. What somebody waits for comes before what is merely
// refreshed. A pass that the write limiter has admitted comes before all others in the queue, and has no priority in the limiter.
const (
	priorityAdmitted = 1000
	priorityRemove   = 100
	priorityNew      = 80
	priorityChange   = 60
	priorityRetarget = 40
	priorityRepair   = 20
	priorityRefresh  = handler.LowPriority
	priorityLeftover = priorityRefresh - 1
)

// maxRounds is how often a pass plans. Two rounds make a load balancer and publish its address; the third finds nothing to do.
const maxRounds = 5

// ownerPause is the pause after which the cloud is asked again whether a Service has a load balancer here.
const ownerPause = time.Minute

// errWaiting ends a pass that has to wait for other writes to the cloud. It is made again when it is admitted.
var errWaiting = errors.New("other writes to the cloud come first")

// errNoEnd says that planning over the result of a plan goes on for ever. It would be a defect of this package.
var errNoEnd = errors.New("the Service is not as planned after the plan was carried out")

// reconciler makes passes over Services: it collects what is known, lets desired.go and plan.go decide, and has the plan
// carried out.
type reconciler struct {
	reader   client.Reader
	recorder record.EventRecorder
	classes  Classes
	targets  *targets
	memory   *memory
	metrics  *metrics
	backoff  backoff
	applier  *applier
	limiter  *writeLimiter
	waits    kit.EventLimiter
}

// pass is one pass over a Service.
type pass struct {
	key     types.NamespacedName
	service *corev1.Service // as it is now; nil if it is gone
	want    desired
	seen    observed
	// provisional says that the targets are those that are known so far.
	provisional bool
	// announced says that the events of an ensuring are worth it: something changes for the Service.
	announced bool
	// priority is where in the queue the pass belongs if it is made again.
	priority int
}

// Reconcile makes one pass over the Service of a name. It only returns an error that has to do with neither the Service nor the
// cloud; all others are told to the Service, and retried, by settle.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	waits := false
	defer func() {
		if !waits {
			r.limiter.cancel(request.NamespacedName)
		}
	}()
	p, wait, err := r.begin(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if p.want.intent == withdraw && wait == 0 {
		if ours, err := r.hasMade(ctx, p.service); !ours {
			return r.leaveAlone(ctx, p, err), nil
		}
	}
	if known, _ := r.memory.recall(p.key); wait > 0 || known.alone.first {
		var next time.Duration
		if next, waits = r.follow(ctx, p); wait > 0 || waits {
			return p.again(soonest(wait, next)), nil
		}
	}
	err = r.run(ctx, p)
	if waits = errors.Is(err, errWaiting); waits {
		return reconcile.Result{}, nil
	}
	result := r.settle(ctx, p, err)
	if err != nil && ctx.Err() == nil {
		var next time.Duration
		next, waits = r.follow(ctx, p)
		result = p.again(soonest(result.RequeueAfter, next))
	}
	return result, nil
}

// hasMade reports whether a Service that shall lose its load balancer has one from us, or had. If only the condition says so, the cloud
// has to know the load balancer: another manager of the cluster, with other classes and another cloud, writes the same condition, and
// to take its finalizer away would leak what it made.
func (r *reconciler) hasMade(ctx context.Context, service *corev1.Service) (bool, error) {
	if service == nil {
		return true, nil
	}
	known, _ := r.memory.recall(keyOf(service))
	// A deletion that failed was begun because there was a load balancer, which may have gone since.
	begun := known.failure != nil && known.failure.isOf(withdraw, inputsOf(service))
	if begun || !doubtful(service, r.classes, known.knows(service)) {
		return true, nil
	}
	return r.applier.exists(ctx, service)
}

// leaveAlone ends a pass over a Service that is taken for another manager's. An error leaves that open. It is not told to the Service,
// which may be none of ours.
func (r *reconciler) leaveAlone(ctx context.Context, p *pass, err error) reconcile.Result {
	log := logf.FromContext(ctx).WithValues("service", p.key.String())
	if err != nil {
		log.Error(err, "Could not find out whether the Service has a load balancer here; asking again", "retryAfter", ownerPause.String())
		return p.again(ownerPause)
	}
	log.Info("Left a Service alone: it is of a class that is not served here, and has no load balancer here")
	return reconcile.Result{}
}

// soonest returns the shorter of two waits; zero is none.
func soonest(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// again has a pass made again after a while. It keeps its own place in the queue, not that of a pass that was admitted.
func (p *pass) again(after time.Duration) reconcile.Result {
	return reconcile.Result{RequeueAfter: after, Priority: &p.priority}
}

// begin collects what is known, and returns how long to wait if the same has failed a short while ago.
func (r *reconciler) begin(ctx context.Context, key types.NamespacedName) (*pass, time.Duration, error) {
	service := &corev1.Service{}
	if err := r.reader.Get(ctx, key, service); apierrors.IsNotFound(err) {
		service = nil
	} else if err != nil {
		return nil, 0, fmt.Errorf("reading service %s: %w", key, err)
	}
	known, _ := r.memory.recall(key)
	p := &pass{key: key, service: known.newest(service)}
	if known.written != nil && p.service == service { // the cache has caught up with our own writes
		r.memory.change(key, func(known *remembered) { known.written = nil })
	}
	p.want.intent = intentFor(p.service, r.classes, known.knows(p.service))
	if p.service != nil {
		p.want.inputs = inputsOf(p.service)
	}
	p.priority = queuePriority(p.service, p.want.intent, known)
	return p, known.held(p.want.intent, p.want.inputs, time.Now()), nil
}

// run plans and applies until there is nothing left to do.
func (r *reconciler) run(ctx context.Context, p *pass) error {
	for range maxRounds {
		if err := r.look(ctx, p); err != nil {
			return err
		}
		plan := planFor(p.want, p.seen, time.Now())
		if len(plan) == 0 {
			return nil
		}
		if err := r.carryOut(ctx, p, plan); err != nil {
			return err
		}
	}
	return errNoEnd
}

// carryOut acts in order. It stops early when the Service turns out to be gone, which asks for another plan.
func (r *reconciler) carryOut(ctx context.Context, p *pass, plan []action) error {
	existed := p.service != nil
	for _, act := range plan {
		if p.service != nil && act.service.UID == p.service.UID {
			act.service = p.service // as the actions before this one have left it
		}
		if err := r.act(ctx, p, act); err != nil {
			return err
		}
		if existed && p.service == nil {
			return nil
		}
	}
	return nil
}

// look brings what is desired and what is known up to date.
func (r *reconciler) look(ctx context.Context, p *pass) error {
	known, _ := r.memory.recall(p.key)
	p.want.intent = intentFor(p.service, r.classes, known.knows(p.service))
	p.seen = observed{
		service: p.service, made: known.made, drift: known.drift,
		removed: p.service != nil && known.removed != "" && known.removed == p.service.UID,
	}
	if p.want.intent != provide {
		return nil
	}
	settled, latest, err := r.targets.sets(ctx)
	if errors.Is(err, errNoTargetsYet) && (p.provisional || len(p.service.Status.LoadBalancer.Ingress) == 0) {
		// A load balancer that nobody has the address of has no traffic to lose. It gets the nodes that are known, and the others
		// when they have settled.
		p.provisional = true
		latest, err = r.targets.known(ctx)
		settled = latest
	}
	if err != nil {
		return err
	}
	p.want.settled, p.want.latest, p.want.byDifference = settled, latest, r.applier.change != nil
	return nil
}

// act carries out one action and remembers what it brought about.
func (r *reconciler) act(ctx context.Context, p *pass, act action) error {
	if act.changesCloud() {
		p.priority = priorityFor(p, act)
		if !r.limiter.acquire(p.key, p.priority, r.failedLast(p, act), r.noticeOf(p, act, EventWaiting)) {
			return errWaiting
		}
		defer r.limiter.release(p.key)
	}
	r.before(ctx, p, act)
	var nodes []*corev1.Node
	if p.want.latest != nil {
		nodes = p.want.latest.nodes
	}
	began := time.Now()
	waiting := ctx
	if notice := r.noticeOf(p, act, EventWaitingForCloud); notice != nil {
		waiting = cloud.WithNotice(ctx, func(reason string) {
			notice(fmt.Sprintf("Waiting to %s the load balancer: %s", act.verb, reason))
		})
	}
	done, err := r.applier.apply(waiting, act, nodes)
	if isAbsent(err) && r.absentBefore(p) >= absenceTries-1 {
		deletionIncomplete(ctx, r.recorder, act.service, err)
		err = nil
	}
	if err == nil {
		r.remember(p, act, done)
	}
	r.after(ctx, p, act, done, err, time.Since(began))
	return err
}

// absentBefore returns how many deletions in a row have failed before this pass though there was no load balancer to be seen.
func (r *reconciler) absentBefore(p *pass) int {
	known, _ := r.memory.recall(p.key)
	if known.failure == nil || !known.failure.isOf(p.want.intent, p.want.inputs) {
		return 0
	}
	return known.failure.absent
}

// remember keeps what an action brought about.
func (r *reconciler) remember(p *pass, act action, done result) {
	r.memory.change(p.key, func(known *remembered) {
		switch act.verb {
		case verbEnsure:
			known.made = &made{service: act.service, inputs: inputsOf(act.service), ensured: true, accepted: act.service,
				targets: p.want.latest.members, written: p.want.latest, wholeAt: time.Now(), status: done.status,
				unpublished: done.status != nil && !done.echo}
			known.madeAt, known.drift = time.Now(), nil
		case verbRetarget:
			changed := *known.made
			if changed.ensured {
				changed.service, changed.ensured = act.service, !done.missing
			}
			changed.targets, changed.written = p.want.latest.members, p.want.latest
			if act.change == nil {
				changed.wholeAt = time.Now()
			}
			known.made, known.madeAt = &changed, time.Now()
		case verbRemove:
			known.made, known.drift = nil, nil
			if p.service != nil && act.service.UID == p.service.UID {
				known.removed = act.service.UID
			}
		case verbProtect, verbPublish, verbRelease:
			known.written = done.service
			if act.verb == verbPublish && known.made != nil {
				published := *known.made
				published.unpublished, known.made = false, &published
			}
		}
	})
	switch act.verb {
	case verbProtect, verbPublish, verbRelease:
		p.service = done.service
	case verbEnsure, verbRetarget, verbRemove:
	}
}

// attempted notes, before the plugin is called, that there may be something in the cloud from now on.
func (r *reconciler) attempted(p *pass, act action) {
	r.memory.change(p.key, func(known *remembered) {
		attempt := &made{service: act.service, inputs: inputsOf(act.service), failing: true}
		if before := known.made; before != nil && before.service.UID == act.service.UID {
			attempt.accepted, attempt.status = before.accepted, before.status
			if maps.Equal(before.targets, p.want.latest.members) { // else an Ensure that fails leaves it open which of them it has
				attempt.targets = before.targets
			}
		}
		known.made, known.alone.first = attempt, true
		known.removed = ""
	})
}

// failedLast reports whether the last write for a Service failed, as far as that says anything of the next one: a Service that
// has been changed is another matter. Until this process has tried, the condition says how the process before it fared.
func (r *reconciler) failedLast(p *pass, act action) bool {
	known, _ := r.memory.recall(p.key)
	if act.alone {
		return isWriteFailure(known.alone.reason) || known.made.accepted == nil && known.made.targets == nil
	}
	if last := known.failure; last != nil {
		return isWriteFailure(last.reason) && last.isOf(p.want.intent, p.want.inputs)
	}
	if known.made != nil || p.service == nil {
		return false
	}
	condition := conditionOf(p.service)
	return condition != nil && condition.Status == metav1.ConditionFalse && isWriteFailure(condition.Reason)
}

// noticeOf returns what tells a Service, for a reason, that its write waits; nil if nobody waits for that write.
func (r *reconciler) noticeOf(p *pass, act action, reason string) func(message string) {
	if p.priority < priorityChange {
		return nil
	}
	return func(message string) {
		if r.waits.Allow(act.service.UID, reason, time.Now()) {
			r.recorder.Event(act.service, corev1.EventTypeNormal, reason, shortened(message))
		}
	}
}

// priorityFor is how urgent an action is to the Service.
func priorityFor(p *pass, act action) int {
	switch {
	case act.verb == verbRemove:
		return priorityRemove
	case len(act.service.Status.LoadBalancer.Ingress) == 0:
		return priorityNew
	case act.verb == verbRetarget:
		return priorityRetarget
	case p.seen.made == nil:
		return priorityRefresh
	case len(p.seen.drift) > 0:
		return priorityRepair
	default:
		return priorityChange
	}
}
