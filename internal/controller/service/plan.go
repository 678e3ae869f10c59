package service

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/internal/names"
)

// The reasons of the condition LoadBalancerReady.
const (
	// ReasonProvided goes with status True: the load balancer is as the Service asks, and its address is in the status.
	ReasonProvided = "Provided"
	// ReasonEnsuring is there from when the Service was taken on until the cloud has answered.
	ReasonEnsuring = "Ensuring"
	// ReasonNoAddress says that the cloud provider gave the load balancer no address.
	ReasonNoAddress = "NoAddress"
	// ReasonNoTargets says that no node may be a target.
	ReasonNoTargets = "NoTargets"
	// ReasonDrifted says that the load balancer still differs from what was made after it was repaired several times.
	ReasonDrifted = "Drifted"
	// ReasonNotFound says that the cloud does not find a load balancer that was made.
	ReasonNotFound = "NotFound"
	// ReasonImplementedElsewhere goes with status Unknown: the cloud provider leaves the Service to another controller.
	ReasonImplementedElsewhere = names.ReasonImplementedElsewhere
)

// The reasons of that condition after a failure, which the metric of failures counts.
const (
	// ReasonPending says that provisioning is in progress: the provider returned an api.RetryError.
	ReasonPending = "Pending"
	// ReasonThrottled says that the cloud refused a call because of a quota.
	ReasonThrottled = "Throttled"
	// ReasonTimeout says that the cloud did not answer in time.
	ReasonTimeout = "Timeout"
	// ReasonRefused says that the cloud refused, and that asking again cannot help until something else changes.
	ReasonRefused = "Refused"
	// ReasonCloudError says that the cloud could not be asked, or answered with an error.
	ReasonCloudError = "CloudError"
	// ReasonWriteFailed says that the API server did not accept what should be written to the Service.
	ReasonWriteFailed = "WriteFailed"
)

// What events and conditions say alike.
const (
	deniedMessage = "The cloud does not find the load balancer. Mooring makes it again after ten minutes of such answers, or at once when you change the Service"
	noTargets     = "No node may be a target: a node must be initialized, ours, and not labeled " + corev1.LabelNodeExcludeBalancers
)

// desired is what a Service shall have.
type desired struct {
	intent intent
	// inputs is the Service as it is asked for; nil: it is gone.
	inputs *corev1.Service
	// settled is the set of targets that all load balancers shall have; latest is the set of this moment, which may be on its way
	// to become it. Both are nil unless the intent is provide.
	settled, latest *targetSet
	// byDifference says that the provider changes targets by a difference.
	byDifference bool
	// awaits says that the load balancer of a Service that had the name before is still there, and may be the same one to the plugin.
	awaits bool
}

// rarely is how often that is done which should not be necessary. Targets that are changed by differences are written as a whole, so what was
// changed in the cloud does not stay for good where nothing shows it. A load balancer is made anew that was repaired in vain and that the provider
// still says is gone.
const rarely = time.Hour

// made is what this process knows that it made in the cloud for a Service.
//
// See ADR 49.
type made struct {
	// service is the Service as the plugin saw it last.
	service *corev1.Service
	// ensured says that the plugin's last word was success. Until then all is to be ensured again.
	ensured bool
	// failing says that the last Ensure did not succeed, or has not returned yet.
	failing bool
	// lastEnsured is the Service as it was last ensured. Nil: this process has not ensured it so far.
	lastEnsured *corev1.Service
	// targets are the identities, by name, of the nodes that the plugin got last. Nil: it is not known what the targets are.
	targets map[string]string
	// writtenTargets is the set that they were members of, nil unless it is certain that the load balancer has just these; wholeAt is
	// when the plugin got it, or one before it, as a whole.
	writtenTargets *targetSet
	wholeAt        time.Time
	// status is what the plugin returned. Nil if the load balancer is implemented elsewhere.
	status *corev1.LoadBalancerStatus
	// unpublished says that the Service is to show that status and has not been written since. A status that equals the one that the
	// plugin was given is not to be written: it may come from an agent, which changes it as it likes.
	unpublished bool
	// baseline is what the cloud showed first when it was asked after the last Ensure. Nil: it has not been asked. Some plugins return
	// another status by GetLoadBalancer than by EnsureLoadBalancer.
	baseline *corev1.LoadBalancerStatus
	// unlisted are the nodes that the plugin was given and the cloud's list has not shown as targets since: plugins select theirs. Nil: it has not
	// been asked since the targets were written.
	unlisted map[string]bool
	// stillDiffers says that it differs after all repairs, and how; empty: it does not, or they are not over.
	stillDiffers string
	// denial is a row of answers that the cloud does not find it.
	denial denial
}

const (
	// toldAnswers is how many answers in a row that a load balancer is not found are told on its Service: one alone may come from a replica
	// that lags.
	toldAnswers = 2
	// provenAnswers are how many there have to be for the load balancer to count as deleted: a second one has another address, and what was
	// connected to the first is cut off.
	provenAnswers = 5
	// DefaultAbsenceTime is over what time there have to be so many.
	DefaultAbsenceTime = 10 * time.Minute
)

// denial is a row of answers that the cloud does not find a load balancer. The zero value: it was found, or nothing was asked.
type denial struct {
	since   time.Time
	answers int
	// targets, as made.targets, are what the refused call was to write; nil: no call was.
	targets map[string]string
}

// after returns the row with one more answer.
func (d denial) after(now time.Time) denial {
	if d.answers == 0 {
		d.since = now
	}
	d.answers++
	return d
}

// refuses reports whether the cloud has refused these very targets. Others are tried at once, as by the reference.
func (d denial) refuses(want desired) bool {
	return d.targets != nil && (want.settled.servedBy(d.targets) || want.latest.servedBy(d.targets))
}

func (d denial) told() bool   { return d.answers >= toldAnswers }
func (d denial) isNews() bool { return d.answers == toldAnswers }

// proven reports whether the load balancer counts as deleted.
func (d denial) proven(over time.Duration, now time.Time) bool {
	return d.answers >= provenAnswers && now.Sub(d.since) >= over
}

// observed is what is known of a Service and its load balancer.
type observed struct {
	// service is the Service now. Nil: it is gone.
	service *corev1.Service
	// made is nil if this process has made nothing for the Service.
	made *made
	// drift says in which ways the cloud was found to differ from what was made.
	drift []string
	// removed says that the load balancer of this Service has been deleted already.
	removed bool
}

// failedPass is how a pass has failed.
type failedPass struct {
	reason, message string
	// shownLately says that a failure was written to the condition a short while ago, and lasts that this one is to be, see attempt.lasts.
	shownLately, lasts bool
}

// verb is what an action does.
type verb string

const (
	// verbProtect puts the finalizer on the Service, with the condition that says what is going on.
	verbProtect verb = "protect"
	// verbEnsure has the plugin make the load balancer or bring it in line.
	verbEnsure verb = "ensure"
	// verbRetarget has the plugin change the targets.
	verbRetarget verb = "retarget"
	// verbPublish writes the Service's status.
	verbPublish verb = "publish"
	// verbRemove has the plugin delete the load balancer.
	verbRemove verb = "remove"
	// verbRelease takes the finalizer away, and with it what the status says of the load balancer.
	verbRelease verb = "release"
)

// action is one call to the plugin or one write to the API server.
type action struct {
	verb verb
	// service is whom it is about: for verbRemove it may be one that is gone.
	service *corev1.Service
	// why says in words for the log what made it necessary.
	why []string
	// publish is the Service's new status, for the verbs that write to the Service.
	publish publication
	// change is what verbRetarget changes; nil: it writes all targets.
	change *targetChange
	// refresh says that verbEnsure is there only because this process has not ensured the Service yet.
	refresh bool
	// failed says that verbPublish only shows that the pass has failed.
	failed bool
	// onlyTargets says that verbRetarget is all that is done while the Service itself cannot be ensured.
	onlyTargets bool
	// lastEnsured is the Service that the plugin gets for verbRetarget; nil: service.
	lastEnsured *corev1.Service
}

// pluginSees is the Service that the plugin gets.
func (a action) pluginSees() *corev1.Service {
	if a.lastEnsured != nil {
		return a.lastEnsured
	}
	return a.service
}

// publication is what a Service's status says of its load balancer.
type publication struct {
	ingress []corev1.LoadBalancerIngress
	// ready is nil for no condition.
	ready *metav1.Condition
}

// planFor returns what brings a Service and its load balancer to what is desired. What can be known only after an action, such
// as the address, is planned after it by planning again; when there is nothing left to do, the plan is empty.
//
// After a pass that has failed, planFailed is what the Service shows of that; until the next one is due, planTargets is for its targets.
func planFor(want desired, seen observed, now time.Time) []action {
	switch {
	case seen.service == nil && seen.made != nil: // it vanished without our leave
		return []action{{verb: verbRemove, service: seen.made.service, why: []string{"the Service is gone"}}}
	case seen.service == nil:
		return nil
	case want.intent == provide && want.awaits:
		return planProtect(seen, now)
	case want.intent == provide:
		return planProvide(want, seen, now)
	case want.intent == withdraw:
		return planWithdraw(seen)
	default:
		return nil
	}
}

// planFailed sets the condition of a Service to a failure, and leaves its addresses as they are. There is none to write if the API
// server has just refused a write, or if the Service is none of ours. Nor is there one for a failure that the next pass may mend: that would
// be two writes for each call that fails once, and the reference makes none.
func planFailed(service *corev1.Service, failed failedPass, now time.Time) []action {
	if service == nil || !hasFinalizer(service) || failed.reason == ReasonWriteFailed || !failed.lasts && mayPass(failed.reason) {
		return nil
	}
	shown := publishedBy(service)
	next := transition(shown.ready, metav1.ConditionFalse, failed.reason, failed.message, now)
	// A message that changes while its reason stays waits. Some clouds put the number of the request into each of their messages.
	repeats := shown.ready != nil && shown.ready.Reason == next.Reason && shown.ready.Status == next.Status
	if sameCondition(shown.ready, next) || repeats && failed.shownLately {
		return nil
	}
	return []action{{verb: verbPublish, service: service, failed: true, publish: publication{shown.ingress, next}}}
}

// mayPass reports whether a failure may be over with the next pass. A refusal is not before something changes, and a load balancer that counts
// as not found was denied twice.
func mayPass(reason string) bool { return reason != ReasonRefused && reason != ReasonNotFound }

// planProtect puts the finalizer on a Service that has none.
func planProtect(seen observed, now time.Time) []action {
	if hasFinalizer(seen.service) {
		return nil
	}
	announced := publishedBy(seen.service)
	if announced.ready == nil {
		announced.ready = transition(nil, metav1.ConditionFalse, ReasonEnsuring, "The load balancer is being created", now)
	}
	return []action{{verb: verbProtect, service: seen.service, publish: announced}}
}

// planProvide puts the finalizer before everything that makes something in the cloud, and the status after it.
func planProvide(want desired, seen observed, now time.Time) []action {
	var plan []action
	if !hasFinalizer(seen.service) {
		plan = planProtect(seen, now)
	}
	if why := reasonsToEnsure(want, seen); len(why) > 0 {
		return append(plan, action{verb: verbEnsure, service: seen.service, why: why, refresh: seen.made == nil || seen.made.lastEnsured == nil})
	}
	retargets, shown := !seen.made.serves(want) && seen.made.status != nil, publishedBy(seen.service)
	if next := publicationFor(shown, seen.made, now); len(plan) == 0 && (!retargets || seen.made.unpublished) && !next.equal(shown) {
		plan = append(plan, action{verb: verbPublish, service: seen.service, publish: next})
	}
	if retargets {
		plan = append(plan, retargetFor(want, seen, now))
	}
	return plan
}

// planTargets is the plan for a Service whose last pass failed, until the next one is due: its targets follow the nodes on their own.
// The plugin gets the Service as it was when it was last ensured, because what it refuses is what the Service has become. Where that
// is not known, after a restart, it gets the Service as it is.
func planTargets(want desired, seen observed, now time.Time) []action {
	if want.intent != provide || seen.service == nil || seen.made == nil ||
		!seen.made.retargetable() || seen.made.serves(want) || seen.made.denial.refuses(want) {
		return nil
	}
	act := retargetFor(want, seen, now)
	act.onlyTargets = true
	if seen.made.lastEnsured != nil {
		act.lastEnsured = seen.made.lastEnsured.DeepCopy()
		act.lastEnsured.Status = seen.service.Status
	}
	return []action{act}
}

func retargetFor(want desired, seen observed, now time.Time) action {
	return action{verb: verbRetarget, service: seen.service, why: []string{"the set of nodes has changed"},
		change: differenceFor(want, seen.made, now)}
}

// retargetable reports whether a load balancer exists whose targets may be changed though its Service cannot be ensured. After a
// change of the targets that failed it is ensured before that, unless others are wanted by then.
func (m *made) retargetable() bool {
	switch {
	case !m.ensured && !m.failing && m.denial.targets == nil:
		return false
	case m.lastEnsured != nil:
		return m.status != nil
	default:
		return len(m.service.Status.LoadBalancer.Ingress) > 0
	}
}

// serves reports whether the targets are those of the settled set, or already those of the latest.
func (m *made) serves(want desired) bool {
	return m.targets != nil && (want.settled.servedBy(m.targets) || want.latest.servedBy(m.targets))
}

// servedBy reports whether a load balancer with the written targets, identities by name, needs no change: no member is
// missing, and nothing else is in it but nodes that are leaving.
func (t *targetSet) servedBy(written map[string]string) bool {
	for name, identity := range t.members {
		if has, found := written[name]; !found || has != identity {
			return false
		}
	}
	for name := range written {
		if _, isMember := t.members[name]; !isMember && !t.leaving[name] {
			return false
		}
	}
	return true
}

// differenceFor returns by what the targets of a load balancer are changed; nil: by all of them.
func differenceFor(want desired, made *made, now time.Time) *targetChange {
	if !want.byDifference || made.writtenTargets == nil || now.Sub(made.wholeAt) >= rarely {
		return nil
	}
	return want.latest.changeFrom(made.writtenTargets)
}

// publishedBy is what a Service shows, as the API server would.
func publishedBy(service *corev1.Service) publication {
	return publication{normalized(service.Status.LoadBalancer.Ingress), conditionOf(service)}
}

// reasonsToEnsure says why the plugin has to look at the whole load balancer. None: it need not.
func reasonsToEnsure(want desired, seen observed) []string {
	switch {
	case seen.made == nil:
		return []string{"this process has not ensured it yet"}
	case !seen.made.ensured:
		return []string{"the last attempt failed"}
	case len(seen.drift) > 0:
		return seen.drift
	default:
		return changes(seen.made.lastEnsured, want.inputs)
	}
}

// changes names what of a Service differs from before, as far as its load balancer follows it. None: nothing does. Nil is one that is gone.
func changes(before, after *corev1.Service) (changed []string) {
	if before == after {
		return nil
	}
	for _, field := range followed {
		if before == nil || after == nil || !equality.Semantic.DeepEqual(field.of(before), field.of(after)) { // to which nil and empty are the same
			changed = append(changed, field.path)
		}
	}
	return changed
}

// planWithdraw deletes the load balancer before it lets go of the Service.
func planWithdraw(seen observed) []action {
	var plan []action
	if !seen.removed {
		plan = append(plan, action{verb: verbRemove, service: seen.service, why: reasonsToWithdraw(seen.service)})
	}
	if hasFinalizer(seen.service) || conditionOf(seen.service) != nil || len(seen.service.Status.LoadBalancer.Ingress) > 0 {
		plan = append(plan, action{verb: verbRelease, service: seen.service})
	}
	return plan
}

func reasonsToWithdraw(service *corev1.Service) []string {
	switch {
	case !service.DeletionTimestamp.IsZero():
		return []string{"the Service is being deleted"}
	case !wantsBalancer(service):
		return []string{fmt.Sprintf("the Service has become one of type %s", service.Spec.Type)}
	default:
		return []string{"the Service has a load balancer class that is not ours"}
	}
}

// publicationFor is what a Service that shows something is to show of a load balancer that was ensured.
func publicationFor(shown publication, made *made, now time.Time) publication {
	if made.status == nil {
		return publication{shown.ingress, transition(shown.ready, metav1.ConditionUnknown, ReasonImplementedElsewhere,
			"The cloud provider leaves this Service to another controller", now)}
	}
	ingress := shown.ingress
	if made.unpublished {
		ingress = normalized(made.status.Ingress)
	}
	status, reason, message := metav1.ConditionTrue, ReasonProvided, "The load balancer is as the Service asks"
	switch {
	case made.denial.told():
		status, reason = metav1.ConditionFalse, ReasonNotFound
		message = deniedMessage
	case made.stillDiffers != "":
		status, reason, message = metav1.ConditionFalse, ReasonDrifted, made.stillDiffers
	case len(ingress) == 0:
		status, reason = metav1.ConditionFalse, ReasonNoAddress
		message = "The cloud provider made the load balancer and gave it no address"
	case len(made.targets) == 0:
		status, reason = metav1.ConditionFalse, ReasonNoTargets
		message = noTargets
	}
	return publication{ingress, transition(shown.ready, status, reason, message, now)}
}

// sameIngress compares addresses as the API server would show them.
func sameIngress(a, b []corev1.LoadBalancerIngress) bool {
	return equality.Semantic.DeepEqual(normalized(a), normalized(b))
}

// equal compares what a Service would show, whenever it began to.
func (p publication) equal(other publication) bool {
	return equality.Semantic.DeepEqual(p.ingress, other.ingress) && sameCondition(p.ready, other.ready)
}

func sameCondition(a, b *metav1.Condition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// normalized fills in what the API server defaults: an address without ipMode is one of a VIP (KEP-1860).
func normalized(ingress []corev1.LoadBalancerIngress) []corev1.LoadBalancerIngress {
	result := make([]corev1.LoadBalancerIngress, 0, len(ingress))
	for _, entry := range ingress {
		if entry.IP != "" && entry.IPMode == nil {
			mode := corev1.LoadBalancerIPModeVIP
			entry.IPMode = &mode
		}
		result = append(result, entry)
	}
	return result
}

// conditionOf returns the condition LoadBalancerReady of a Service, nil if it has none.
func conditionOf(service *corev1.Service) *metav1.Condition {
	at := slices.IndexFunc(service.Status.Conditions, func(condition metav1.Condition) bool { return condition.Type == ConditionReady })
	if at < 0 {
		return nil
	}
	return &service.Status.Conditions[at]
}

// transition returns the condition after current, which may be nil.
func transition(current *metav1.Condition, status metav1.ConditionStatus, reason, message string, now time.Time) *metav1.Condition {
	next := &metav1.Condition{
		Type: ConditionReady, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}
	if current != nil && current.Status == status {
		next.LastTransitionTime = current.LastTransitionTime
	}
	return next
}
