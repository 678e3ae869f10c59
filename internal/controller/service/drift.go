package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/service/orphancheck"
	"github.com/mooring-ccm/mooring/internal/dryrun"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// DefaultDriftCheckPeriod is how often every load balancer is compared with the cloud.
	DefaultDriftCheckPeriod = 10 * time.Minute
	// DefaultDriftCheckCalls is the most drift-check calls per minute where the cloud cannot list load balancers.
	DefaultDriftCheckCalls = 1

	// maxRepairs is how often in a row a load balancer is repaired for the same difference. A provider that still shows it
	// means it so.
	maxRepairs = 3
	// slowRepair is how often one is made anew after that if the provider still says that it is not there.
	slowRepair = time.Hour

	// listPatience is for how long changes of targets wait for a list by which they may turn out not to be needed.
	listPatience = 2 * time.Second
)

const (
	// driftGone is the difference of a load balancer that is not there any more.
	driftGone = "it is gone from the cloud"
	// driftStatus is why the plugin is asked what a Service is to show.
	driftStatus = "the Service shows other addresses than the cloud provider returned"
)

// driftCheck compares load balancers with the cloud: what was made there may have been changed or deleted behind our back. It
// repairs nothing itself but queues what differs, behind everything that somebody waits for.
type driftCheck struct {
	// list lists the load balancers of the cluster. Nil: the cloud cannot, and is asked for one after the other.
	list func(context.Context, string) ([]provider.LoadBalancer, error)
	// period is how long a comparison of all takes or waits; calls bounds how many calls a minute it costs without list.
	period time.Duration
	calls  int
	reader client.Reader
	// recorder records events on Services.
	recorder record.EventRecorder
	classes  Classes
	applier  *applier
	targets  *targets
	states   *states
	metrics  *metrics
	enqueue  func(types.NamespacedName, int)
	// orphans looks for what belongs to no Service.
	orphans *orphancheck.LoadBalancers
	// spareAgain is when changes of targets wait for a list again after one that came too late. Only withoutServed uses it.
	spareAgain time.Time
	failures   kit.FailureLog
}

// run compares until ctx ends.
func (d *driftCheck) run(ctx context.Context) {
	if d.period <= 0 {
		return
	}
	step := d.checkNext
	if d.list != nil {
		step = d.checkAll
	}
	defer d.orphans.Wait()
	statusChecked := time.Now()
	for {
		timer := time.NewTimer(d.pause())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		var err error
		if now := time.Now(); now.Sub(statusChecked) >= d.period {
			statusChecked, err = now, d.checkStatus(ctx, now)
		}
		err = errors.Join(err, step(ctx))
		d.failures.Note(ctx, "Could not compare load balancers with the cloud", err)
	}
}

// pause is how long to wait before the next step: a period before the next listing, or so long that the calls for single load
// balancers spread over a period and stay within their budget.
func (d *driftCheck) pause() time.Duration {
	if d.list != nil {
		return d.period
	}
	eligible := 0
	for _, known := range d.states.all() {
		if known.comparable(time.Now()) {
			eligible++
		}
	}
	return max(d.period/time.Duration(max(eligible, 1)), time.Minute/time.Duration(d.calls))
}

// comparable reports whether a load balancer is one of which it is known what it should be, and was so at a given time. One
// that is being worked on is looked at the next time.
func (s state) comparable(at time.Time) bool {
	return s.made != nil && s.made.ensured && s.made.status != nil && s.failure == nil && len(s.drift) == 0 && s.madeAt.Before(at)
}

// checkStatus queues the Services that do not show any more what was made for them: somebody has changed their status or has taken
// their finalizer. Other addresses are not overwritten with what was once returned: the plugin is asked anew by an Ensure. All else
// costs no call to the cloud, and one to the API server for each that is repaired.
func (d *driftCheck) checkStatus(ctx context.Context, now time.Time) error {
	var list corev1.ServiceList
	if err := d.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // they are only read
		return fmt.Errorf("listing services: %w", err)
	}
	states := d.states.all()
	for i := range list.Items {
		key := keyOf(&list.Items[i])
		known := states[key]
		service := known.newest(&list.Items[i])
		if !known.comparable(now) || known.made.service.UID != service.UID ||
			intentFor(service, d.classes, true) != provide {
			continue
		}
		replaced := overwritten(service, known.made)
		if !replaced && (known.made.unpublished || shows(service, known.made, now)) {
			continue // what was not published yet is so by the pass that is about to
		}
		if replaced {
			d.states.statusReplaced(key, known.made)
		}
		logf.FromContext(ctx).Info("Somebody has changed what the Service shows of its load balancer; repairing it",
			"service", key.String(), "finalizer", hasFinalizer(service), "status", service.Status)
		d.enqueue(key, priorityRepair)
	}
	return nil
}

// checkAll compares all load balancers with one listing of the cloud, and looks for orphans in it. What cannot be said of one keeps no
// other from being compared: those that are missing from the list, whose calls may fail or hang, come last, and all at once.
func (d *driftCheck) checkAll(ctx context.Context) error {
	began := time.Now()
	listed, byService, err := d.listAll(ctx)
	if err != nil {
		return err
	}
	missing, err := d.compareAll(ctx, began, listed, byService)
	d.failures.Note(ctx, "Could not look for load balancers that belong to no Service", d.orphans.Check(ctx, listed))
	d.failures.Note(ctx, "Could not look for load balancers that are missing from a list", atOnce(missing))
	return err
}

// compareAll compares the load balancers that were comparable at a given time with a list, and returns calls for those that it lacks.
func (d *driftCheck) compareAll(ctx context.Context, at time.Time, listed []provider.LoadBalancer,
	byService map[types.UID]provider.LoadBalancer,
) (missing []func() error, err error) {
	settled, _, err := d.targets.sets(ctx)
	if err != nil {
		return nil, err
	}
	mark := markOf(listed, d.applier.clusterUID(ctx))
	var errs []error
	for key, known := range d.states.all() {
		if !known.comparable(at) {
			continue
		}
		service, err := d.current(ctx, key, known)
		if err != nil || service == nil {
			errs = append(errs, err)
			continue
		}
		balancer, found := byService[service.UID]
		if !found {
			missing = append(missing, func() error { return d.missing(ctx, key, known, service) })
			continue
		}
		known, first := d.learn(key, known, &balancer.Status)
		targets := settled
		if !settled.servedBy(known.made.targets) {
			targets = nil // it is queued for a change of its targets already
		}
		if differ := differences(service, known.made, targets, balancer, mark); len(differ) > 0 || !first {
			d.decide(ctx, key, known, differ)
		}
	}
	return missing, errors.Join(errs...)
}

// atOnce makes calls at once, and returns some of their errors. The client of the cloud bounds how many are under way.
func atOnce(calls []func() error) error {
	const shown = 3
	errs := make([]error, len(calls))
	var running sync.WaitGroup
	for i, call := range calls {
		running.Go(func() { errs[i] = call() })
	}
	running.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if more := len(errs) - shown; more > 0 {
		errs = append(errs[:shown], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// listAll lists the load balancers of the cluster, and returns them by the UIDs of their Services, too.
func (d *driftCheck) listAll(ctx context.Context) (listed []provider.LoadBalancer, byService map[types.UID]provider.LoadBalancer, err error) {
	listed, err = d.list(cloud.WithPriority(ctx, cloud.PriorityRefresh), d.applier.clusterName)
	d.count(err)
	if err != nil {
		return nil, nil, fmt.Errorf("listing load balancers: %w", err)
	}
	byService = make(map[types.UID]provider.LoadBalancer, len(listed))
	for _, balancer := range listed {
		byService[balancer.ServiceUID] = balancer
	}
	return listed, byService, nil
}

// missing looks again at a load balancer that is not in a list: lists may lag behind.
func (d *driftCheck) missing(ctx context.Context, key types.NamespacedName, known state, service *corev1.Service) error {
	exists, err := d.applier.exists(cloud.WithPriority(ctx, cloud.PriorityRefresh), service)
	d.count(err)
	if err != nil {
		return fmt.Errorf("looking for the load balancer of service %s: %w", key, err)
	}
	if !exists {
		d.decide(ctx, key, known, []string{driftGone})
	}
	return nil
}

// checkNext compares the load balancer that has not been looked at for longest. It sees less than a listing does: whether the
// load balancer exists, and its addresses.
func (d *driftCheck) checkNext(ctx context.Context) error {
	key, known, found := d.longestUnseen(time.Now())
	if !found {
		return nil
	}
	d.states.looked(key)
	service, err := d.current(ctx, key, known)
	if err != nil || service == nil {
		return err
	}
	status, exists, err := d.applier.get(cloud.WithPriority(ctx, cloud.PriorityRefresh), service)
	d.count(err)
	if err != nil {
		return fmt.Errorf("looking at the load balancer of service %s: %w", key, err)
	}
	if !exists {
		d.decide(ctx, key, known, []string{driftGone})
		return nil
	}
	if status == nil {
		status = known.made.baseline // it says nothing of addresses
	}
	known, first := d.learn(key, known, status)
	switch {
	case first:
	case status != nil && readdressed(service, known.made, status.Ingress):
		d.decide(ctx, key, known, []string{"its addresses have changed in the cloud"})
	default:
		d.decide(ctx, key, known, nil)
	}
	return nil
}

// current returns the Service of a load balancer as it is now, for the plugin to find it by. Nil: a pass over it is due that was not made
// yet, so that there is nothing to compare with.
func (d *driftCheck) current(ctx context.Context, key types.NamespacedName, known state) (*corev1.Service, error) {
	cached := &corev1.Service{}
	if err := d.reader.Get(ctx, key, cached); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading service %s: %w", key, err)
	}
	service := known.newest(cached)
	if service.UID != known.made.service.UID || len(inputsOf(service).changes(known.made.inputs)) > 0 ||
		intentFor(service, d.classes, true) != provide {
		return nil, nil
	}
	return service, nil
}

// learn remembers what the cloud shows the first time after an Ensure. That it shows anything else later is a difference; that it differs
// from what the Ensure returned is none. It does not end a row of repairs either: each repair is followed by a first time.
func (d *driftCheck) learn(key types.NamespacedName, known state, shown *corev1.LoadBalancerStatus) (learned state, first bool) {
	if known.made.baseline != nil || shown == nil {
		return known, false
	}
	made := *known.made
	made.baseline = shown.DeepCopy()
	if first = d.states.shown(key, known.made, &made); first {
		known.made = &made
	}
	return known, true
}

func (d *driftCheck) longestUnseen(now time.Time) (oldest types.NamespacedName, found state, any bool) {
	for key, known := range d.states.all() {
		if known.comparable(now) && (!any || latest(known.seenAt, known.madeAt).Before(latest(found.seenAt, found.madeAt))) {
			oldest, found, any = key, known, true
		}
	}
	return oldest, found, any
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// decide queues a load balancer for its repair if it differs.
func (d *driftCheck) decide(ctx context.Context, key types.NamespacedName, known state, differ []string) {
	what, at := fmt.Sprint(differ), time.Now()
	gone := len(differ) > 0 && differ[0] == driftGone
	repair := len(differ) > 0 && (known.differs != what || known.repairs < maxRepairs || gone && at.Sub(known.repairedAt) >= slowRepair)
	repair = d.states.compared(key, known.made, what, differ, repair)
	switch {
	case repair && gone:
		d.metrics.drifts.WithLabelValues("gone").Inc()
		d.enqueue(key, priorityRepair)
	case repair:
		d.metrics.drifts.WithLabelValues("changed").Inc()
		d.enqueue(key, priorityRepair)
	case len(differ) > 0 && known.repairs == maxRepairs:
		stillDiffers(ctx, d.recorder, known.made.service, differ, gone)
	}
}

// withoutServed asks a cloud that can list whether load balancers that seem to need other targets have them already, and
// returns the others. One call may spare many; an error spares none. All changes of targets wait for it, so that they do not for long, and
// after an error not at all for a period.
func (d *driftCheck) withoutServed(ctx context.Context, keys []types.NamespacedName) []types.NamespacedName {
	began := time.Now()
	if d.list == nil || len(keys) < 2 || began.Before(d.spareAgain) {
		return keys
	}
	settled, _, err := d.targets.sets(ctx)
	if err != nil {
		return keys
	}
	// It is canceled and has no deadline: that the cloud takes longer than we wait is no failure of the cloud.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(listPatience, cancel).Stop()
	_, byService, err := d.listAll(ctx)
	if err != nil {
		d.spareAgain = began.Add(cmp.Or(max(d.period, 0), DefaultDriftCheckPeriod))
		return keys
	}
	var rest []types.NamespacedName
	for _, key := range keys {
		if !d.served(key, settled, byService, began) {
			rest = append(rest, key)
		}
	}
	return rest
}

// served notes that a load balancer has the targets that it shall have, if the list says so.
func (d *driftCheck) served(key types.NamespacedName, set *targetSet, listed map[types.UID]provider.LoadBalancer, at time.Time) bool {
	known, _ := d.states.get(key)
	if !known.comparable(at) || !set.sameNodes(known.made.targets) {
		return false
	}
	balancer, found := listed[known.made.service.UID]
	if !found || balancer.Targets == nil {
		return false
	}
	if missing, surplus := set.listedAs(balancer.Targets); len(missing)+len(surplus) > 0 {
		return false
	}
	written := map[string]string{}
	for _, name := range balancer.Targets {
		written[string(name)] = set.members[string(name)]
	}
	return d.states.targetsListed(key, known.made, written)
}

// count counts a comparison.
func (d *driftCheck) count(err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	d.metrics.checks.WithLabelValues(result).Inc()
}

// overwritten reports whether a Service shows another status than the plugin returned, which was published or was there already. The
// plugin has to say what it makes of that. One that returned no address leaves it to others to write one.
func overwritten(service *corev1.Service, made *made) bool {
	return made.status != nil && !made.unpublished && len(made.status.Ingress) > 0 &&
		!sameIngress(service.Status.LoadBalancer.Ingress, made.status.Ingress)
}

// readdressed reports whether the cloud shows a load balancer with other addresses than at first. One that it shows as the Service does is
// as it should be, whatever it was at first.
func readdressed(service *corev1.Service, made *made, shown []corev1.LoadBalancerIngress) bool {
	return made.baseline != nil && !sameIngress(shown, made.baseline.Ingress) && !sameIngress(shown, service.Status.LoadBalancer.Ingress)
}

// differences compares a load balancer as the cloud lists it with what was made, as far as the list says, and its targets with
// those it shall have; nil for those that it is about to get. Service is the Service as it is now. ClusterUID is what the load balancer
// shall be marked with, empty where the provider marks none. None: they agree.
func differences(service *corev1.Service, made *made, targets *targetSet, listed provider.LoadBalancer, clusterUID types.UID) []string {
	var differ []string
	if clusterUID != "" && listed.ClusterUID != clusterUID {
		differ = append(differ, "it does not carry the UID of this cluster")
	}
	if readdressed(service, made, listed.Status.Ingress) {
		differ = append(differ, "its addresses have changed in the cloud")
	}
	if listed.Ports != nil && !slices.Equal(dryrun.Listeners(listed.Ports), dryrun.Listeners(made.inputs.ports)) {
		differ = append(differ, "its listeners have changed in the cloud")
	}
	if listed.Targets != nil && targets != nil {
		missing, surplus := targets.listedAs(listed.Targets)
		if len(missing) > 0 {
			differ = append(differ, "in the cloud it lacks the targets "+shortList(missing))
		}
		if len(surplus) > 0 {
			differ = append(differ, "in the cloud it has the wrong targets "+shortList(surplus))
		}
	}
	return differ
}

// markOf returns the cluster's UID if any load balancer is marked with it, which says that the provider marks them.
func markOf(listed []provider.LoadBalancer, clusterUID types.UID) types.UID {
	if slices.ContainsFunc(listed, func(balancer provider.LoadBalancer) bool { return balancer.ClusterUID == clusterUID }) {
		return clusterUID
	}
	return ""
}
