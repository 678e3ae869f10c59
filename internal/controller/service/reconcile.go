package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/cloud"
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

// ownerPause is the pause after which the cloud is asked again whether a Service has a load balancer here.
const ownerPause = time.Minute

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
	// record is what is left to the next leader, nil if nothing is.
	record *leaderRecord
	// tellsApart says that the plugin does not take the load balancers of two Services of one name for each other, see New.
	tellsApart bool
}

// pass is one pass over a Service.
type pass struct {
	key     types.NamespacedName
	service *corev1.Service // as it is now; nil if it is gone
	// known is what is remembered, as the last transition of the pass left it.
	known state
	want  desired
	seen  observed
	// priority is where in the queue the pass belongs if it is made again.
	priority int
	// waits says that it waits for a place for the Service, and not only for its targets.
	waits bool
}

// Reconcile makes one pass over the Service of a name. It only returns an error that has to do with neither the Service nor the
// cloud; all others are reported on the Service, and retried, see finish.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	p, err := r.begin(ctx, request.NamespacedName)
	if err != nil {
		r.limiter.End(request.NamespacedName)
		return reconcile.Result{}, err
	}
	defer r.limiter.End(p.key)
	// Neither the deletion of predecessors nor the Service itself waits for the other's next try. Where both are due, they take turns in
	// the write limiter, in which they are one.
	ownFirst := p.known.ownFirst
	var next time.Duration
	waits := false
	if !ownFirst {
		next, waits = r.removePredecessors(ctx, p)
	}
	result, ownWaits := r.serve(ctx, p)
	if ownFirst && !ownWaits {
		next, waits = r.removePredecessors(ctx, p)
	}
	if waits = waits || ownWaits; waits {
		return reconcile.Result{}, nil
	}
	if next > 0 {
		result = p.again(soonest(result.RequeueAfter, next))
	}
	return result, nil
}

// serve does what is due for the Service itself, and reports whether it waits for other writes to the cloud.
func (r *reconciler) serve(ctx context.Context, p *pass) (result reconcile.Result, waits bool) {
	defer func() {
		if !waits {
			r.states.hadTurn(p.key)
		}
	}()
	wait := p.known.waitsForRetry(p.want.intent, p.want.inputs, time.Now())
	if p.want.intent == provide {
		r.events.faults(p.service)
	}
	if p.want.intent == withdraw && wait == 0 {
		if ours, err := r.hasMade(ctx, p); !ours {
			return r.leaveAlone(ctx, p, err), false
		}
	}
	// The targets do not wait for the Service's next try. Where both are due, they take turns.
	if wait > 0 || p.known.retargetFailures.first {
		var next time.Duration
		if next, waits = r.follow(ctx, p); wait > 0 || waits {
			return p.again(soonest(wait, next)), waits
		}
	}
	err := r.run(ctx, p)
	if errors.Is(err, errWaiting) {
		_, _ = r.follow(ctx, p) // its targets do not wait for the place; what fails of them is tried again with the Service
		return reconcile.Result{}, true
	}
	result = r.finish(ctx, p, err)
	if err != nil && ctx.Err() == nil { // the Service has just begun to wait, and its targets do not
		var next time.Duration
		next, waits = r.follow(ctx, p)
		result = p.again(soonest(result.RequeueAfter, next))
	}
	return result, waits
}

// removePredecessors deletes the load balancers of the Services that had the name before. A deletion that fails does not stop the pass.
// It returns when the next one is due, zero if none is, and whether the pass waits for other writes to the cloud.
func (r *reconciler) removePredecessors(ctx context.Context, p *pass) (next time.Duration, waits bool) {
	priority := p.priority
	defer func() { p.priority = priority }()
	for _, before := range p.known.predecessors {
		if before.waitsForRetry(time.Now()) > 0 {
			continue
		}
		err := r.act(ctx, p, removalOf(before.service))
		switch {
		case errors.Is(err, errWaiting):
			return 0, true
		case ctx.Err() != nil:
			return 0, false
		case err != nil:
			r.predecessorFailed(ctx, p, before.service, err)
		}
	}
	return p.known.predecessorsDue(time.Now()), false
}

// hasMade reports whether a Service that shall lose its load balancer has one from us, or had. If only the condition says so, the cloud
// has to know the load balancer: another manager of the cluster, with other classes and another cloud, writes the same condition, and
// to take its finalizer away would leak what it made.
func (r *reconciler) hasMade(ctx context.Context, p *pass) (bool, error) {
	// A deletion that failed was begun because there was a load balancer, which may have gone since.
	if p.service == nil || p.known.continues(withdraw, p.want.inputs) || !doubtful(p.service, r.classes, p.known.knows(p.service)) {
		return true, nil
	}
	return r.applier.exists(ctx, p.service)
}

// leaveAlone ends a pass over a Service that is taken for another manager's. An error leaves that open. It is not reported on the Service,
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

// again repeats a pass after a while, with its own priority instead of the priority of an admitted pass.
func (p *pass) again(after time.Duration) reconcile.Result {
	return reconcile.Result{RequeueAfter: after, Priority: &p.priority}
}

// begin collects what is known.
func (r *reconciler) begin(ctx context.Context, key types.NamespacedName) (*pass, error) {
	service := &corev1.Service{}
	if err := r.reader.Get(ctx, key, service); apierrors.IsNotFound(err) {
		service = nil
	} else if err != nil {
		return nil, fmt.Errorf("reading service %s: %w", key, err)
	}
	p := &pass{key: key}
	r.recall(p)
	p.service = p.known.newest(service)
	if p.service != nil && p.known.made != nil && p.known.made.service.UID != p.service.UID {
		r.states.nameReused(key)
		r.recall(p)
	}
	if p.known.ownWrite != nil && p.service == service { // the cache has caught up with our own writes
		r.states.caughtUp(key)
	}
	p.want.intent = intentFor(p.service, r.classes, p.known.knows(p.service))
	if p.service != nil {
		p.want.inputs = inputsOf(p.service)
	}
	p.priority = queuePriority(p.service, p.want.intent, p.known)
	return p, nil
}

// recall reads what is remembered.
func (r *reconciler) recall(p *pass) { p.known, _ = r.states.get(p.key) }

// run plans and applies until there is nothing left to do: again after each call of the plugin, since what it returned is known only then.
func (r *reconciler) run(ctx context.Context, p *pass) error {
	for range maxRounds {
		if err := r.look(ctx, p); err != nil {
			return err
		}
		plan := planFor(p.want, p.seen, time.Now())
		if err := r.carryOut(ctx, p, plan); err != nil {
			return err
		}
		if !slices.ContainsFunc(plan, action.changesCloud) {
			return awaited(p)
		}
	}
	return errTooManyRounds
}

// awaited returns why a Service for which there is nothing to do has no load balancer yet. To the plugin, the load balancer of a predecessor may be the same one.
func awaited(p *pass) error {
	if p.want.intent == provide && p.want.awaits {
		if last := p.known.predecessors[0].failure; last != nil {
			return fmt.Errorf("%w: %w", errPredecessor, last.err)
		}
	}
	return nil
}

// carryOut acts in order.
func (r *reconciler) carryOut(ctx context.Context, p *pass, plan []action) error {
	for _, act := range plan {
		if p.service != nil && act.service.UID == p.service.UID {
			act.service = p.service // as the actions before this one have left it
		}
		if err := r.act(ctx, p, act); err != nil {
			return err
		}
	}
	return nil
}

// follow changes the targets of a load balancer whose Service has failed and is not due to be tried, or waits for a place, see planTargets. What comes
// of it is kept apart from the failure of the Service: neither ends or prolongs the pause of the other. It returns when the next change is due,
// zero if none is, and whether the pass waits for other writes to the cloud.
//
// See ADR 48.
func (r *reconciler) follow(ctx context.Context, p *pass) (next time.Duration, waits bool) {
	if p.known.made == nil || !p.known.continues(p.want.intent, p.want.inputs) && !(p.waits && !r.limiter.Shared()) {
		return 0, false
	}
	if err := r.look(ctx, p); err != nil {
		return 0, false // the pass itself reports that the targets are not known
	}
	p.seen.waitsForRetry = true
	plan := planFor(p.want, p.seen, time.Now())
	if len(plan) == 0 {
		return 0, false
	}
	if hold := time.Until(p.known.retargetFailures.retryAt); hold > 0 && p.known.retargetFailures.holds(p.want) {
		return hold, false
	}
	priority := p.priority
	defer func() { p.priority = priority }()
	err := r.act(ctx, p, plan[0])
	switch {
	case errors.Is(err, errWaiting):
		return 0, true
	case ctx.Err() != nil:
		return 0, false
	case err != nil:
		return r.onlyTargetsFailed(ctx, p, err), false
	}
	r.metrics.updated(p.key, time.Now())
	r.states.targetsFollowed(p.key)
	return 0, false
}

// observe brings what is known up to date.
func (r *reconciler) observe(p *pass) {
	r.recall(p)
	p.want.intent = intentFor(p.service, r.classes, p.known.knows(p.service))
	p.want.awaits = len(p.known.predecessors) > 0 && !r.tellsApart
	p.seen = observed{
		service: p.service, made: p.known.made, drift: p.known.drift,
		removed: p.service != nil && p.known.removed != "" && p.known.removed == p.service.UID,
	}
}

// look brings what is known and what is desired up to date.
func (r *reconciler) look(ctx context.Context, p *pass) error {
	r.observe(p)
	if p.want.intent != provide {
		return nil
	}
	settled, latest, err := r.targets.setsOf(ctx, p.service)
	if err != nil {
		return err
	}
	p.want.settled, p.want.latest, p.want.byDifference = settled, latest, r.applier.change != nil
	return r.adopt(ctx, p)
}

// act carries out one action, and has its outcome remembered and reported.
func (r *reconciler) act(ctx context.Context, p *pass, act action) error {
	if act.changesCloud() {
		return r.call(ctx, p, act)
	}
	written, err := r.applier.write(ctx, act)
	if err != nil {
		return err
	}
	r.states.wrote(p.key, act, written)
	r.recall(p)
	p.service, p.want.inputs = written, inputsOf(written) // a user may have changed it meanwhile
	r.events.wrote(act)
	return nil
}

// call carries out an action that calls the plugin, once the write limiter lets it.
func (r *reconciler) call(ctx context.Context, p *pass, act action) error {
	p.priority = priorityFor(p, act)
	lane := writelimit.Services
	if act.verb == verbRetarget {
		lane = writelimit.Targets
	}
	if !r.limiter.Acquire(p.key, lane, rank(p, act), r.events.noticeOf(p, act, EventWaiting)) {
		p.waits = p.waits || lane == writelimit.Services
		return errWaiting
	}
	defer r.limiter.Release(p.key)
	var nodes []*corev1.Node
	if p.want.latest != nil && act.verb != verbRemove {
		var err error
		if nodes, err = r.targets.nodesOf(ctx, p.want.latest); err != nil {
			return err
		}
	}
	announced := announces(p, act)
	r.events.before(ctx, p, act, announced)
	recovers := act.verb == verbEnsure && p.known.failure != nil // an event has said that it failed
	if act.verb == verbEnsure {
		r.states.ensuring(p.key, act.service, p.want.latest)
	}
	began := time.Now()
	waiting := ctx
	if notice := r.events.noticeOf(p, act, EventWaitingForCloud); notice != nil {
		waiting = cloud.WithNotice(ctx, func(reason string) {
			notice(fmt.Sprintf("Waiting to %s the load balancer: %s", act.verb, reason))
		})
	}
	defer r.record.calling(ctx, act.service, p.want.latest)()
	done, err := r.applier.call(waiting, act, nodes)
	if last := lastFailure(p, act); errors.Is(err, errAbsent) && last != nil && last.absent >= absenceTries-1 {
		deletionIncomplete(ctx, r.events.recorder, act.service, err)
		err = nil
	}
	r.remember(ctx, p, act, done, err)
	r.recall(p)
	r.events.after(ctx, p, act, outcome{result: done, err: err, took: time.Since(began), announced: announced || recovers})
	return err
}

// announces reports whether something changes for a Service that is ensured or loses its load balancer: it is not merely looked at
// again, and this is not the same attempt again.
func announces(p *pass, act action) bool {
	if act.verb == verbRemove {
		return lastFailure(p, act) == nil
	}
	refreshes := p.seen.made == nil && len(act.service.Status.LoadBalancer.Ingress) > 0
	return act.verb == verbEnsure && !refreshes && p.known.failure == nil
}

// remember has the state say what a call brought about.
func (r *reconciler) remember(ctx context.Context, p *pass, act action, done result, err error) {
	switch {
	case errors.Is(err, errNotFound):
		if r.states.notFound(p.key, p.want.latest) {
			notFound(ctx, r.events.recorder, act.service)
		}
	case act.verb == verbRetarget && err != nil && ctx.Err() == nil:
		r.states.retargetFailed(p.key, act, p.want.latest)
	case err != nil:
	case act.verb == verbEnsure:
		r.states.ensured(p.key, act.service, p.want.latest, done)
	case act.verb == verbRetarget:
		r.states.retargeted(p.key, act, p.want.latest)
	default:
		r.states.removed(p.key, act.service, p.service)
	}
}

// lastFailure returns how the same failed before this pass, nil if it did not.
func lastFailure(p *pass, act action) *failure {
	switch before := p.known.predecessor(act.service.UID); {
	case before != nil:
		return before.failure
	case !p.known.continues(p.want.intent, p.want.inputs):
		return nil
	default:
		return p.known.failure
	}
}

// rank is behind whom a write waits: users wait for no refresh, and no Service waits for another one that fails.
func rank(p *pass, act action) int {
	switch {
	case failedLast(p, act):
		return rankFailed
	case p.priority == priorityRefresh:
		return rankRefresh
	default:
		return rankNormal
	}
}

// failedLast reports whether the last write for a Service failed, as far as that says anything of the next one: a Service that
// has been changed is another matter. Until this process has tried, the condition says how the process before it fared.
func failedLast(p *pass, act action) bool {
	known := &p.known
	if act.onlyTargets {
		return isWriteFailure(known.retargetFailures.reason) || known.made.lastEnsured == nil && known.made.targets == nil
	}
	if last := lastFailure(p, act); last != nil {
		return isWriteFailure(last.reason)
	}
	if known.failure != nil || known.made != nil || p.service == nil || act.service.UID != p.service.UID {
		return false
	}
	condition := conditionOf(p.service)
	return condition != nil && condition.Status == metav1.ConditionFalse && isWriteFailure(condition.Reason)
}

// finish draws the consequences of a pass.
func (r *reconciler) finish(ctx context.Context, p *pass, err error) reconcile.Result {
	switch {
	case err == nil:
		r.metrics.updated(p.key, time.Now())
		r.states.succeeded(p.key, p.service)
		r.record.note()
		return reconcile.Result{}
	case ctx.Err() != nil, errors.Is(err, errWaiting):
		return reconcile.Result{} // the process is stopping, which is not a failure, or the pass will be admitted
	case errors.Is(err, errListing):
		return p.again(shortestRetry)
	case errors.Is(err, errOutdated):
		return r.repeat(ctx, p, err)
	default:
		return p.again(r.failed(ctx, p, err))
	}
}

// repeat makes another pass over a Service that changed under our hands, soon and silently. If that repeats, the writes do not
// come too late but are refused, and that is a failure of the Service.
func (r *reconciler) repeat(ctx context.Context, p *pass, err error) reconcile.Result {
	conflicts := r.states.outdated(p.key, p.want)
	r.recall(p)
	if conflicts > kit.MaxConflicts {
		return p.again(r.failed(ctx, p, &writeError{err}))
	}
	logf.FromContext(ctx).V(1).Info("The Service changed while it was being written; looking at it again")
	return p.again(kit.ConflictBackoff.After(conflicts-1, nil))
}

// failed counts, logs and remembers a failure, and sends an event. It returns the pause before the next try.
func (r *reconciler) failed(ctx context.Context, p *pass, err error) time.Duration {
	reason := reasonOf(err)
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.metrics.updated(p.key, time.Now())
	delay, news := r.states.failed(p.key, p.want, err, r.backoff)
	r.recall(p)
	log := logf.FromContext(ctx)
	switch {
	case reason == ReasonPending && !news:
	case reason == ReasonNotFound:
		log.Info("The cloud does not find the load balancer whose targets are to be changed", "reason", err.Error(), "retryAfter", delay)
		if p.known.made == nil || !p.known.made.denial.told() {
			return delay
		}
		news = false // the row of such answers has an event of its own
	case reason == ReasonPending:
		log.Info("The load balancer is not ready yet", "reason", err.Error(), "retryAfter", delay)
	default:
		log.Error(err, "Could not bring the load balancer in line with the Service", "reason", reason, "retryAfter", delay)
	}
	if news {
		r.events.failed(p, reason, err)
	}
	r.showFailure(ctx, p, reason, err)
	return delay
}

// onlyTargetsFailed counts, logs and remembers that the targets could not be changed. It sends events as sparingly as for other failures. The
// condition keeps the Service's own failure. It returns the pause before the next try.
func (r *reconciler) onlyTargetsFailed(ctx context.Context, p *pass, err error) time.Duration {
	reason := reasonOf(err)
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.metrics.updated(p.key, time.Now())
	delay, news := r.states.targetsFailed(p.key, p.want.latest, err, r.backoff)
	logf.FromContext(ctx).Error(err, "Could not change the targets of a load balancer whose Service has yet to be ensured",
		"reason", reason, "retryAfter", delay)
	if news {
		r.events.targetsFailed(p.service, err)
	}
	return delay
}

// predecessorFailed counts, logs and remembers that the load balancer of a predecessor could not be deleted, and sends an event. It
// returns the pause before the next try. The Service that has the name now is none the worse.
func (r *reconciler) predecessorFailed(ctx context.Context, p *pass, before *corev1.Service, err error) time.Duration {
	reason := reasonOf(err)
	r.metrics.failures.WithLabelValues(reason).Inc()
	delay, news := r.states.predecessorFailed(p.key, before.UID, err, r.backoff)
	r.recall(p)
	logf.FromContext(ctx).Error(err, "Could not delete the load balancer of a Service whose name another one has now",
		"serviceUID", before.UID, "reason", reason, "retryAfter", delay)
	if news {
		r.events.failure(before, EventDeleteFailed, reason, err)
	}
	return delay
}

// showFailure writes the failure of the pass to the Service's condition, where users can see it later. It is planned and carried out like every other
// write. If this fails, the next failure tries again.
func (r *reconciler) showFailure(ctx context.Context, p *pass, reason string, failure error) {
	r.observe(p)
	p.seen.failed = &failedPass{
		reason: reason, message: kit.EventMessage(failure.Error()), shownAt: p.known.conditionAt, lasts: p.known.failureLasts(time.Now()),
	}
	if err := r.carryOut(ctx, p, planFor(p.want, p.seen, time.Now())); err != nil {
		logf.FromContext(ctx).Error(err, "Could not write the failure to the Service's condition", "reason", reason)
	}
}
