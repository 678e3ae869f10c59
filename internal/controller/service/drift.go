package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/service/orphancheck"
	"github.com/mooring-ccm/mooring/internal/dryrun"
	"github.com/mooring-ccm/mooring/internal/sleep"
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
)

// Differences of load balancers.
const (
	driftGone          = "it is gone from the cloud"
	differentAddresses = "its addresses have changed in the cloud"
)

// The kinds of drift, as the label of a metric.
const (
	driftKindGone    = "gone"
	driftKindChanged = "changed"
)

// driftCheck compares load balancers with the cloud: what was made there may have been changed or deleted behind our back. It
// repairs nothing itself but queues what differs, behind every change that a user waits for.
type driftCheck struct {
	*reconciler
	// list lists the load balancers of the cluster. Nil: the cloud cannot, and is asked for one after the other.
	list func(context.Context) (*listing, error)
	// period is how long a comparison of all takes or waits; calls bounds how many calls a minute it costs without list.
	period time.Duration
	calls  int
	// absence is over what time the cloud must have denied a load balancer.
	absence time.Duration
	// orphans looks for what belongs to no Service.
	orphans *orphancheck.LoadBalancers
	// listedAt is when the load balancers were listed last, and lookedAt when there was time for a look at a single one. missing are the load
	// balancers that the list lacked. Only run uses them.
	listedAt, lookedAt time.Time
	missing            map[types.NamespacedName]bool
	// seenAt is when the cloud was asked how a single one is.
	seenAt   map[types.NamespacedName]time.Time
	failures kit.FailureLog
}

// run compares until ctx ends.
func (d *driftCheck) run(ctx context.Context) {
	if d.period <= 0 {
		return
	}
	defer d.orphans.Wait()
	d.listedAt = time.Now()
	for {
		if !sleep.For(ctx, d.pause(time.Now())) {
			return
		}
		d.failures.Note(ctx, "Could not compare load balancers with the cloud", d.step(ctx, time.Now()))
	}
}

// step lists where the cloud can list and that is due, and else looks at one load balancer. A list does not take the place of a look that is
// due: lists may come oftener than looks are allowed.
func (d *driftCheck) step(ctx context.Context, now time.Time) error {
	var err error
	if d.list != nil && now.Sub(d.listedAt) >= d.period {
		d.listedAt, err = now, d.checkAll(ctx)
		if now.Sub(d.lookedAt) < d.betweenLooks() {
			return err
		}
	}
	d.lookedAt = now
	return errors.Join(err, d.checkNext(ctx))
}

// betweenLooks is the shortest time between two looks at single load balancers.
func (d *driftCheck) betweenLooks() time.Duration { return time.Minute / time.Duration(d.calls) }

// pause is how long to wait before the next step: until the next listing, or so long that the calls for single load balancers spread over a
// period and stay within their budget. Load balancers that the cloud does not find are looked at as often as the budget allows.
func (d *driftCheck) pause(now time.Time) time.Duration {
	shortest := d.betweenLooks()
	eligible, urgent := 0, false
	for key, known := range d.states.all() {
		if d.candidate(key, known, now) {
			eligible++
			urgent = urgent || d.list != nil || d.urgency(key, known) > 0
		}
	}
	pause := max(d.period/time.Duration(max(eligible, 1)), shortest)
	if urgent {
		pause = shortest
	}
	if d.list == nil {
		return pause
	}
	untilList := max(d.listedAt.Add(d.period).Sub(now), 0)
	if eligible == 0 {
		return untilList
	}
	return min(pause, untilList)
}

// urgency orders load balancers that are looked at: first the ones that the cloud did not find, then the ones that a list lacks. One that was made
// again and again, and is still not found, has its turn as others do.
func (d *driftCheck) urgency(key types.NamespacedName, known state) int {
	switch {
	case known.repairs >= maxRepairs:
		return 0
	case known.made.denial.answers > 0:
		return 2
	case d.missing[key]:
		return 1
	default:
		return 0
	}
}

// candidate reports whether a single load balancer may be looked at. Where the cloud lists, only the ones that a list lacks are, and the ones that
// were not found when their targets were to be changed.
func (d *driftCheck) candidate(key types.NamespacedName, known state, now time.Time) bool {
	if known.made != nil && known.made.ensured && known.made.status != nil && known.made.denial.answers > 0 && len(known.drift) == 0 {
		return true
	}
	return known.comparable(now) && (d.list == nil || d.missing[key])
}

// comparable reports whether a load balancer is one of which it is known what it should be, and was so at a given time. One
// that is being worked on is looked at the next time.
func (s state) comparable(at time.Time) bool {
	return s.made != nil && s.made.ensured && s.made.status != nil && !s.failing() && len(s.drift) == 0 && s.madeAt.Before(at)
}

// checkAll compares all load balancers with one listing of the cloud, and looks for orphans in it. The ones that the list lacks are looked at one
// after the other after that: lists may lag behind.
func (d *driftCheck) checkAll(ctx context.Context) error {
	began := time.Now()
	listed, err := d.list(ctx)
	d.count(err)
	if err != nil {
		return err
	}
	err = d.compareAll(ctx, began, listed)
	d.failures.Note(ctx, "Could not look for load balancers that belong to no Service", d.orphans.Check(ctx, listed.all))
	return err
}

// compareAll compares the load balancers that were comparable at a given time with a list, and notes the ones that it lacks.
func (d *driftCheck) compareAll(ctx context.Context, at time.Time, listed *listing) error {
	settled, _, err := d.targets.sets(ctx, nil)
	if err != nil {
		return err
	}
	d.missing = map[types.NamespacedName]bool{}
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
		balancer, found := listed.byService[service.UID]
		if !found {
			d.missing[key] = true
			continue
		}
		targets := d.targets.of(known.made.service, settled)
		if !targets.servedBy(known.made.targets) {
			targets = nil // it is queued for a change of its targets already
		}
		d.compare(ctx, key, known, &balancer.Status, func(shown *made) []string {
			shown.learnSelection(targets, balancer.Targets)
			return differences(service, shown, targets, balancer, listed.mark)
		})
	}
	return errors.Join(errs...)
}

// compare compares a load balancer that the cloud shows. What it shows the first time after an Ensure is remembered: that it shows anything else
// later is a difference, and that it differs from what the Ensure returned is none. It does not end a row of repairs either: each repair is followed
// by a first time.
func (d *driftCheck) compare(ctx context.Context, key types.NamespacedName, known state, status *corev1.LoadBalancerStatus,
	differences func(*made) []string,
) {
	delete(d.missing, key)
	shown, first := *known.made, known.made.baseline == nil && status != nil
	shown.denial = denial{}
	if first {
		shown.baseline = status.DeepCopy()
	}
	differ := differences(&shown)
	if first && len(differ) == 0 {
		d.states.observe(key, known.made, func(row *state) { row.shown(&shown, time.Now()) })
	} else {
		d.decide(ctx, key, known, &shown, differ)
	}
	if row := known.made.denial; row.told() || row.answers > 0 && known.failing() {
		d.enqueuer.Add(key, priorityRepair) // its condition is to be corrected
	}
}

// denied counts an answer that the cloud does not find a load balancer. After enough of them it is made again. Until then its Service says so.
func (d *driftCheck) denied(ctx context.Context, key types.NamespacedName, known state) {
	after, now := *known.made, time.Now()
	after.denial = after.denial.after(now)
	if after.denial.proven(d.absence, now) {
		d.decide(ctx, key, known, &after, []string{driftGone})
		return
	}
	if d.states.observe(key, known.made, func(row *state) { row.shown(&after, now) }) && after.denial.isNews() {
		notFound(ctx, d.events.recorder, known.made.service)
		d.enqueuer.Add(key, priorityRepair)
	}
}

// checkNext compares the load balancer that has not been looked at for longest. It sees less than a listing does: whether the
// load balancer exists, and its addresses.
func (d *driftCheck) checkNext(ctx context.Context) error {
	key, known, found := d.nextCandidate(time.Now())
	if !found {
		return nil
	}
	d.seenAt[key] = time.Now()
	service, err := d.current(ctx, key, known)
	if err != nil || service == nil {
		return err
	}
	status, exists, err := d.applier.get(admission.WithPriority(ctx, admission.PriorityRefresh), service)
	d.count(err)
	if err != nil {
		return fmt.Errorf("looking at the load balancer of service %s: %w", nameOf(key), err)
	}
	if !exists {
		d.denied(ctx, key, known)
		return nil
	}
	if status == nil {
		status = known.made.baseline // it says nothing of addresses
	}
	d.compare(ctx, key, known, status, func(shown *made) []string {
		if status != nil && readdressed(service, shown, status.Ingress) {
			return []string{differentAddresses}
		}
		return nil
	})
	return nil
}

// current returns the Service of a load balancer as it is now, for the plugin to find it by. Nil: a pass over it is due that was not made
// yet, so there is nothing to compare with.
func (d *driftCheck) current(ctx context.Context, key types.NamespacedName, known state) (*corev1.Service, error) {
	cached := &corev1.Service{}
	if err := d.reader.Get(ctx, nameOf(key), cached); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading service %s: %w", nameOf(key), err)
	}
	service := known.newest(cached)
	if service.UID != known.made.service.UID || len(changes(known.made.lastEnsured, service)) > 0 ||
		intentFor(service, d.classes, true) != provide {
		return nil, nil
	}
	return service, nil
}

// learnSelection remembers which of the nodes that the plugin was given the cloud does not show as targets since: a plugin may select them by an
// annotation or by rules of its own. One that is shown once and not later is a difference.
func (m *made) learnSelection(targets *targetSet, listed []types.NodeName) {
	if targets == nil || listed == nil {
		return
	}
	missing, _ := targets.listedAs(listed)
	unlisted := map[string]bool{}
	for _, name := range missing {
		if m.unlisted == nil || m.unlisted[name] {
			unlisted[name] = true
		}
	}
	m.unlisted = unlisted
}

// nextCandidate returns the load balancer that is looked at next: one that the cloud has not found, and else one that was not looked at for
// longest.
func (d *driftCheck) nextCandidate(now time.Time) (oldest types.NamespacedName, found state, any bool) {
	var first int
	var unseen time.Time
	all := d.states.all()
	maps.DeleteFunc(d.seenAt, func(key types.NamespacedName, _ time.Time) bool { _, there := all[key]; return !there })
	for key, known := range all {
		if !d.candidate(key, known, now) {
			continue
		}
		urgency, at := d.urgency(key, known), kit.Later(d.seenAt[key], known.madeAt)
		if !any || cmp.Or(cmp.Compare(first, urgency), at.Compare(unseen), byName(key, oldest)) < 0 {
			oldest, found, any, first, unseen = key, known, true, urgency, at
		}
	}
	return oldest, found, any
}

// decide queues a load balancer for its repair if it differs. After is what is known of it then.
func (d *driftCheck) decide(ctx context.Context, key types.NamespacedName, known state, after *made, differ []string) {
	what, now := fmt.Sprint(differ), time.Now()
	gone := len(differ) > 0 && differ[0] == driftGone
	repair := len(differ) > 0 && (known.differs != what || known.repairs < maxRepairs || gone && now.Sub(known.repairedAt) >= rarely)
	news := false
	kept := d.states.observe(key, known.made, func(row *state) {
		row.shown(after, now)
		news = row.compared(differ, repair, now)
	})
	kind := driftKindChanged
	if gone {
		kind = driftKindGone
	}
	switch {
	case !kept:
	case repair:
		d.metrics.drifts.WithLabelValues(kind).Inc()
		d.enqueuer.Add(key, priorityRepair)
	case len(differ) > 0 && known.repairs == maxRepairs:
		stillDiffers(ctx, d.events.recorder, known.made.service, differ, gone)
	}
	if news {
		d.enqueuer.Add(key, priorityRepair) // its condition says so, or no longer
	}
}

// count counts a comparison.
func (d *driftCheck) count(err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	d.metrics.checks.WithLabelValues(result).Inc()
}

// readdressed reports whether the cloud shows a load balancer with other addresses than at first. One that it shows as the Service does is
// as it should be, whatever it was at first.
func readdressed(service *corev1.Service, made *made, shown []corev1.LoadBalancerIngress) bool {
	return made.baseline != nil && !sameIngress(shown, made.baseline.Ingress) && !sameIngress(shown, service.Status.LoadBalancer.Ingress)
}

// differences compares a load balancer as the cloud lists it with what was made, as far as the list says, and its targets with
// those it shall have; nil for the targets that it is about to get. Service is the Service as it is now. ClusterUID is what the load balancer
// shall be marked with, empty where the provider marks none. None: they agree.
func differences(service *corev1.Service, made *made, targets *targetSet, listed provider.LoadBalancer, clusterUID types.UID) []string {
	var differ []string
	if clusterUID != "" && listed.ClusterUID != clusterUID {
		differ = append(differ, "it does not carry the UID of this cluster")
	}
	if readdressed(service, made, listed.Status.Ingress) {
		differ = append(differ, differentAddresses)
	}
	if listed.Ports != nil && !slices.Equal(dryrun.Listeners(listed.Ports), dryrun.Listeners(made.lastEnsured.Spec.Ports)) {
		differ = append(differ, "its listeners have changed in the cloud")
	}
	if listed.Targets != nil && targets != nil {
		missing, surplus := targets.listedAs(listed.Targets)
		if missing = slices.DeleteFunc(missing, func(name string) bool { return made.unlisted[name] }); len(missing) > 0 {
			differ = append(differ, "in the cloud it lacks the targets "+shortList(missing))
		}
		if len(surplus) > 0 {
			differ = append(differ, "in the cloud it has the wrong targets "+shortList(surplus))
		}
	}
	return differ
}

// listing is what one list of the cloud shows.
type listing struct {
	all       []provider.LoadBalancer
	byService map[types.UID]provider.LoadBalancer
	// mark is the cluster's UID if the provider marks load balancers with it.
	mark types.UID
}

// lister returns what lists the load balancers of the cluster; nil if the plugin cannot.
func (c *Controller) lister(applier *applier) func(context.Context) (*listing, error) {
	list := provider.CapabilitiesOf(c.options.Cloud).ListLoadBalancers
	if list == nil {
		return nil
	}
	return func(ctx context.Context) (*listing, error) {
		listed, err := list(admission.WithPriority(ctx, admission.PriorityRefresh), c.options.ClusterName)
		if err != nil {
			return nil, fmt.Errorf("listing load balancers: %w", err)
		}
		byService := make(map[types.UID]provider.LoadBalancer, len(listed))
		for _, balancer := range listed {
			byService[balancer.ServiceUID] = balancer
		}
		return &listing{listed, byService, markOf(listed, applier.clusterUID(ctx))}, nil
	}
}

// markOf returns the cluster's UID if any load balancer is marked with it, which says that the provider marks them.
func markOf(listed []provider.LoadBalancer, clusterUID types.UID) types.UID {
	if slices.ContainsFunc(listed, func(balancer provider.LoadBalancer) bool { return balancer.ClusterUID == clusterUID }) {
		return clusterUID
	}
	return ""
}
