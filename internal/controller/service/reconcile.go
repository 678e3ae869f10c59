package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/service/writelimit"
)

// The priorities in the queue of the controller. Work that a user waits for comes before a refresh. A pass that the write limiter has admitted
// comes before all others.
const (
	priorityAdmitted = 1000
	priorityRemove   = 100
	priorityNew      = 80
	priorityChange   = 60
	priorityRetarget = 40
	priorityRepair   = 20
	priorityRefresh  = handler.LowPriority
)

// The ranks in the write limiter. Orphans have the highest, as Services whose last write failed.
const (
	rankNormal = iota
	rankRefresh
	rankFailed
)

// maxRounds is how often a pass plans. The first round makes a load balancer, and the second publishes its address.
const maxRounds = 5

// errWaiting ends a pass that has to wait for other writes to the cloud. It is made again when it is admitted.
var errWaiting = errors.New("other writes to the cloud come first")

// errTooManyRounds says that planning over the result of a plan never ends. It would be a defect of this package.
var errTooManyRounds = errors.New("the Service is not as planned after the plan was carried out")

// reconciler makes passes over Services: it collects what is known, lets desired.go and plan.go decide, and has the plan
// carried out.
type reconciler struct {
	reader  client.Reader
	classes Classes
	targets *targets
	states  *states
	events  *events
	metrics *metrics
	backoff backoff
	applier *applier
	limiter *writelimit.Limiter
	// enqueuer queues passes from outside of watches.
	enqueuer kit.Enqueuer
	// record is what is left to the next leader, nil if nothing is.
	record *leaderRecord
	// tellsApart says that the plugin does not take the load balancers of two Services of one name for each other, see New.
	tellsApart bool
}

// pass is one pass over a Service.
type pass struct {
	key     types.NamespacedName
	service *corev1.Service // as it is now; nil if it is gone, and another one may have its name
	// known is the row of the Service, which this pass has taken.
	known state
	// before is the row of a Service that had the name before and still has its load balancer; nil: none has.
	before *state
	// last are the failed passes that this one continues.
	last attempt
	want desired
	seen observed
	// priority is where in the queue the pass belongs if it is made again.
	priority int
	// addressed says that the Service shows its first address.
	addressed bool
	// waits says that it waits for a place in the write limiter, which queues it then, and forService that this is one for more than its targets.
	waits, forService bool
}

// Reconcile makes one pass over a Service. It only returns an error that has to do with neither the Service nor the
// cloud; all others are reported on the Service, and retried, see finish.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	defer r.limiter.End(request.NamespacedName)
	p, err := r.begin(ctx, request.NamespacedName)
	if p == nil {
		return reconcile.Result{}, nil
	}
	defer func() {
		for _, due := range r.states.end(p.key, p.known, p.service) {
			r.enqueuer.Add(due, priorityNew)
		}
	}()
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.serve(ctx, p), nil
}

// serve does what is due for the Service itself.
func (r *reconciler) serve(ctx context.Context, p *pass) reconcile.Result {
	var wait time.Duration
	if p.last.err != nil {
		wait = time.Until(p.last.Until)
	}
	if p.want.intent == withdraw && p.last.err == nil {
		if ours, err := r.hasMade(ctx, p); !ours {
			return r.leaveAlone(ctx, p, err)
		}
	}
	// The targets do not wait for the Service's next try. Where both are due, they take turns.
	if wait > 0 || p.known.targetsNext {
		if next := r.follow(ctx, p); wait > 0 || p.waits && r.limiter.Shared() {
			return p.again(soonest(wait, next))
		}
	}
	err := r.run(ctx, p)
	if errors.Is(err, errWaiting) {
		_ = r.follow(ctx, p) // its targets do not wait for the place; what fails of them is tried again with the Service
		return reconcile.Result{}
	}
	result := r.finish(ctx, p, err)
	if err != nil && ctx.Err() == nil { // the Service has just begun to wait, and its targets do not
		result = p.again(soonest(result.RequeueAfter, r.follow(ctx, p)))
	}
	return result
}

// hasMade reports whether a Service that shall lose its load balancer has one from us, or had. If only the condition says so, the cloud
// has to know the load balancer: another manager of the cluster, with other classes and another cloud, writes the same condition, and
// to take its finalizer away would leak what it made. A deletion that failed was begun because there was one, which may have gone since.
func (r *reconciler) hasMade(ctx context.Context, p *pass) (bool, error) {
	if p.service == nil || p.known.made != nil || p.known.removed || ofOurClass(p.service, r.classes) {
		return true, nil
	}
	return r.applier.exists(admission.WithPriority(ctx, admission.PriorityDeletion), p.service)
}

// leaveAlone ends a pass over a Service that is taken for another manager's. An error leaves that open. It is not reported on the Service,
// which may be none of ours.
func (r *reconciler) leaveAlone(ctx context.Context, p *pass, err error) reconcile.Result {
	log := logf.FromContext(ctx)
	if err != nil {
		log.Error(err, "Could not find out whether the Service has a load balancer here; asking again", "retryAfter", kit.LongestRetry.String())
		return p.again(kit.LongestRetry)
	}
	log.Info("Left a Service alone: it is of a class that is not served here, and has no load balancer here")
	return reconcile.Result{}
}

// queuePriority is where in the queue a Service belongs, which may be gone.
func queuePriority(service *corev1.Service, intent intent, known state) int {
	switch {
	case intent != provide:
		return priorityRemove
	case len(service.Status.LoadBalancer.Ingress) == 0:
		return priorityNew
	case known.made == nil:
		return priorityRefresh
	default:
		return priorityChange
	}
}

// urgencies order the calls of actions by their priorities among all that wait for the cloud; the others are changes.
var urgencies = map[int]admission.Priority{priorityRemove: admission.PriorityDeletion, priorityNew: admission.PriorityNewObject}

// again repeats a pass after a while, with its own priority instead of the priority of an admitted pass.
func (p *pass) again(after time.Duration) reconcile.Result {
	return reconcile.Result{RequeueAfter: after, Priority: &p.priority}
}

// begin takes the row of a Service, and collects what is known. It returns nil while another Service of the name has a pass. The row is taken before
// the Service is read: a pass that has read it could else begin after one over its successor.
func (r *reconciler) begin(ctx context.Context, key types.NamespacedName) (*pass, error) {
	known, before, free := r.states.take(key)
	if !free {
		return nil, nil
	}
	p := &pass{key: key, known: known, before: before, service: known.ownWrite}
	service := &corev1.Service{}
	name, uid, _ := strings.Cut(key.Name, "/")
	err := r.reader.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: name}, service)
	if client.IgnoreNotFound(err) != nil {
		return p, fmt.Errorf("reading service %s/%s: %w", key.Namespace, name, err)
	}
	if err != nil || uid != string(service.UID) {
		service = nil
	}
	if p.service = service; known.ownWrite != nil {
		if p.service = known.newest(service); p.service == service { // the cache has caught up with our own writes
			p.known.ownWrite = nil
		}
	}
	p.want.awaits = before != nil && service != nil && !r.tellsApart
	if p.known.awaits = p.want.awaits; !p.want.awaits && errors.Is(known.ensure.err, errPredecessor) {
		p.known.ensure = attempt{} // what it waited for is over
	}
	p.want.intent, p.want.inputs = p.known.intent(p.service, r.classes), p.service
	p.last = p.known.continued(p.want)
	p.priority = queuePriority(p.service, p.want.intent, p.known)
	return p, nil
}

// run plans and applies until there is nothing left to do: again after each call of the plugin, since what it returned is known only then.
func (r *reconciler) run(ctx context.Context, p *pass) error {
	retargets := false
	for range maxRounds {
		if err := r.look(ctx, p); err != nil {
			return err
		}
		plan := planFor(p.want, p.seen, time.Now())
		retargets = len(plan) > 0 && plan[len(plan)-1].verb == verbRetarget
		called, err := r.carryOut(ctx, p, plan)
		switch {
		case err != nil:
			return err
		case !called && p.want.intent == provide && p.want.awaits && p.before.remove.err != nil:
			// To the plugin, the load balancer of a predecessor may be the same one.
			return fmt.Errorf("%w: %w", errPredecessor, p.before.remove.err)
		case !called:
			return nil
		}
		p.want.intent, p.want.inputs = p.known.intent(p.service, r.classes), p.service
	}
	if retargets { // nodes change faster than the cloud takes them
		r.enqueuer.Add(p.key, priorityRetarget)
		return nil
	}
	return errTooManyRounds
}

// carryOut acts in order, and reports whether the plugin was called for a change.
func (r *reconciler) carryOut(ctx context.Context, p *pass, plan []action) (called bool, err error) {
	for _, act := range plan {
		if p.service != nil {
			act.service = p.service // as the actions before this one have left it
		}
		switch act.verb {
		case verbEnsure, verbRetarget, verbRemove:
			called, err = true, r.call(ctx, p, act, p.last)
		default:
			var written *corev1.Service
			if written, err = r.applier.write(ctx, act); err == nil {
				p.known.wrote(act, written, time.Now())
				p.service = written
				p.addressed = p.addressed || act.verb == verbPublish && len(act.service.Status.LoadBalancer.Ingress) == 0 && len(act.publish.ingress) > 0
			}
		}
		if err != nil {
			return called, err
		}
	}
	return called, nil
}

// follow changes the targets of a load balancer whose Service has failed and is not due to be tried, or waits for a place, see planTargets. What comes
// of it is kept apart from the failure of the Service: neither ends or prolongs the pause of the other, and the condition keeps the Service's own
// failure. It returns when the next change is due, zero if none is.
//
// See ADR 48.
func (r *reconciler) follow(ctx context.Context, p *pass) (next time.Duration) {
	if p.known.made == nil || p.last.err == nil && (!p.forService || r.limiter.Shared()) {
		return 0
	}
	if err := r.look(ctx, p); err != nil {
		return 0 // the pass itself reports that the targets are not known
	}
	plan := planTargets(p.want, p.seen, time.Now())
	if len(plan) == 0 {
		return 0
	}
	if pause := time.Until(p.known.retarget.Until); pause > 0 && p.known.retarget.holds(p.want) {
		return pause
	}
	priority := p.priority
	defer func() { p.priority = priority }()
	err := r.call(ctx, p, plan[0], p.last)
	if errors.Is(err, errWaiting) || ctx.Err() != nil {
		return 0
	}
	r.metrics.updated(p.key, time.Now())
	if err == nil {
		p.known.followed()
		return 0
	}
	p.known.retargetFailed(p.want.latest, err, r.backoff, time.Now())
	r.events.failed(ctx, p.known.retarget, p.service, EventUpdateFailed,
		"Could not change the targets of a load balancer whose Service has yet to be ensured", err)
	return time.Until(p.known.retarget.Until)
}

// look brings what is known and what is desired up to date.
func (r *reconciler) look(ctx context.Context, p *pass) (err error) {
	if p.want.intent == provide {
		if p.want.settled, p.want.latest, err = r.targets.sets(ctx, p.service); err != nil {
			return err
		}
		p.want.byDifference = r.applier.change != nil
		if p.known.made == nil && r.record != nil {
			err = r.adopt(ctx, p)
		}
	}
	p.seen = observed{service: p.service, made: p.known.made, drift: p.known.drift, removed: p.known.removed}
	return err
}

// call carries out an action that calls the plugin, once the write limiter lets it. Last is how the same has failed before.
func (r *reconciler) call(ctx context.Context, p *pass, act action, last attempt) error {
	pool := writelimit.Services
	p.priority = queuePriority(act.service, p.want.intent, p.known)
	switch {
	case act.verb == verbRetarget:
		p.priority, pool = priorityRetarget, writelimit.Targets
	case p.priority == priorityChange && len(p.known.drift) > 0:
		p.priority = priorityRepair
	}
	var notice func(message string)
	var listeners []func(reason string)
	if p.priority >= priorityChange { // no event says that a background write waits
		notice = func(message string) { r.events.waiting(act, EventWaiting, message) }
		listeners = append(listeners, func(reason string) {
			r.events.waiting(act, EventWaitingForCloud, fmt.Sprintf("Waiting to %s the load balancer: %s", act.verb, reason))
		})
	}
	waiting := admission.WithPriority(ctx, urgencies[p.priority], listeners...)
	if !r.limiter.Acquire(p.key, pool, rankOf(p, act, last), notice) {
		p.waits, p.forService = true, p.forService || pool == writelimit.Services
		return errWaiting
	}
	defer r.limiter.Release(p.key)
	var nodes []*corev1.Node
	if act.verb != verbRemove {
		latest, given, err := r.targets.handOver(ctx, act.service)
		if err != nil || act.verb == verbRetarget && latest != p.want.latest && !latest.same(p.want.latest) { // a write took long: it is planned again
			return err
		}
		p.want.latest, nodes = latest, given
	}
	announced := r.events.before(ctx, p, act, last)
	switch act.verb {
	case verbEnsure:
		p.want.inputs = act.service // a user may have changed it meanwhile
		p.known.ensuring(act.service, p.want)
	case verbRemove:
		p.known.removing()
	}
	r.states.store(p.key, p.known)
	defer r.record.calling(ctx, act.service, p.want.latest)()
	began := time.Now()
	done, err := r.applier.call(waiting, act, nodes)
	if errors.Is(err, errAbsent) && last.absent >= absenceTries-1 {
		deletionIncomplete(ctx, r.events.recorder, act.service, err)
		err = nil
	}
	if ctx.Err() == nil || err == nil {
		p.known.called(act, p.want, done, err, time.Now())
	}
	recovers := act.verb == verbEnsure && p.known.ensure.err != nil // an event has said that it failed
	r.events.after(ctx, p, act, outcome{result: done, err: err, took: time.Since(began), announced: announced || recovers})
	return err
}

// rankOf is behind whom a write waits: users wait for no refresh, and no Service waits for another one whose last write failed. One that has been changed
// is another matter. Until this process has tried, the condition says how the process before it fared.
func rankOf(p *pass, act action, last attempt) int {
	known, failed := &p.known, writeFailures[last.reason]
	switch {
	case act.onlyTargets:
		failed = writeFailures[known.retarget.reason] || known.made.lastEnsured == nil && known.made.targets == nil
	case last.err == nil && known.made == nil && p.service != nil:
		condition := meta.FindStatusCondition(p.service.Status.Conditions, ConditionReady)
		failed = condition != nil && condition.Status == metav1.ConditionFalse && writeFailures[condition.Reason]
	}
	switch {
	case failed:
		return rankFailed
	case p.priority == priorityRefresh:
		return rankRefresh
	default:
		return rankNormal
	}
}

// finish draws the consequences of a pass.
func (r *reconciler) finish(ctx context.Context, p *pass, err error) reconcile.Result {
	r.events.ended(p)
	switch {
	case err == nil:
		p.known.ensure, p.known.remove, p.known.retarget = attempt{}, attempt{}, attempt{}
		r.record.note()
		return reconcile.Result{}
	case ctx.Err() != nil:
		return reconcile.Result{} // the process is stopping, which is not a failure
	case errors.Is(err, errListing):
		return p.again(kit.Moment)
	case errors.Is(err, errOutdated):
		return r.repeat(ctx, p, err)
	default:
		return p.again(r.failed(ctx, p, err))
	}
}

// repeat makes another pass over a Service that changed under our hands, soon and silently. If that repeats, the writes do not
// come too late but are refused, and that is a failure of the Service.
func (r *reconciler) repeat(ctx context.Context, p *pass, err error) reconcile.Result {
	p.last.inputs, p.last.err, p.known.ownWrite = p.want.inputs, err, nil
	p.last.conflicts++
	p.known.keep(p.want.intent, p.last)
	if p.last.conflicts > kit.MaxConflicts {
		return p.again(r.failed(ctx, p, &writeError{err}))
	}
	logf.FromContext(ctx).V(1).Info("The Service changed while it was being written; looking at it again")
	return p.again(kit.ConflictBackoff.After(p.last.conflicts-1, nil))
}

// failed counts, logs and remembers a failure, and sends an event. It returns the pause before the next try.
func (r *reconciler) failed(ctx context.Context, p *pass, err error) time.Duration {
	p.last = p.known.failed(p.want, p.last, err, r.backoff, time.Now())
	delay := time.Until(p.last.Until)
	about, kind := p.service, EventSyncFailed
	if about == nil && p.seen.made != nil {
		about, kind = p.seen.made.service, EventDeleteFailed
	}
	r.events.failed(ctx, p.last, about, kind, "Could not bring the load balancer in line with the Service", err)
	if p.last.reason != ReasonNotFound || p.known.made != nil && p.known.made.denial.told() {
		// Users can see it later. If it cannot be written, the next failure tries again.
		now := time.Now()
		failure := failedPass{
			reason: p.last.reason, message: kit.EventMessage(err.Error()),
			shownLately: now.Sub(p.known.conditionAt) < kit.EventInterval, lasts: p.last.lasts(p.known.conditionAt, now),
		}
		if _, err := r.carryOut(ctx, p, planFailed(p.service, failure, now)); err != nil {
			logf.FromContext(ctx).Error(err, "Could not write the failure to the Service's condition", "reason", p.last.reason)
		}
	}
	return delay
}
