package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// DefaultAuditPeriod is how often every load balancer is compared with the cloud.
	DefaultAuditPeriod = 10 * time.Minute
	// DefaultAuditCalls is how many calls a minute that may cost where the cloud cannot list load balancers.
	DefaultAuditCalls = 1

	// maxRepairs is how often in a row a load balancer is repaired for the same difference. A provider that goes on showing it
	// means it so.
	maxRepairs = 3
)

const (
	// driftGone is what is told of a load balancer that is not there any more.
	driftGone = "it is gone from the cloud"
	// driftStatus is why the plugin is asked what a Service is to show.
	driftStatus = "the Service shows other addresses than the cloud provider returned"
)

// auditor compares load balancers with the cloud: what was made there may have been changed or deleted behind our back. It
// repairs nothing itself but queues what differs, behind everything that somebody waits for.
type auditor struct {
	// list lists the load balancers of the cluster. Nil: the cloud cannot, and is asked for one after the other.
	list func(context.Context, string) ([]provider.LoadBalancer, error)
	// period is how long a comparison of all takes or waits; calls bounds how many calls a minute it costs without list.
	period  time.Duration
	calls   int
	reader  client.Reader
	classes Classes
	applier *applier
	targets *targets
	memory  *memory
	metrics *metrics
	enqueue func(types.NamespacedName, int)
	// leftovers looks after what belongs to no Service. Nil without list.
	leftovers *collector
}

// run compares until ctx ends.
func (a *auditor) run(ctx context.Context) {
	if a.period <= 0 {
		return
	}
	step := a.patrol
	if a.list != nil {
		step = a.sweep
	}
	failing, reviewed := false, time.Now()
	for {
		timer := time.NewTimer(a.pause())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		var err error
		if now := time.Now(); now.Sub(reviewed) >= a.period {
			reviewed, err = now, a.review(ctx, now)
		}
		err = errors.Join(err, step(ctx))
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			logf.FromContext(ctx).Error(err, "Could not compare load balancers with the cloud; trying again")
		case err == nil && failing:
			logf.FromContext(ctx).Info("Load balancers could be compared with the cloud again")
		}
		failing = err != nil
	}
}

// pause is how long to wait before the next step: a period before the next listing, or so long that the calls for single load
// balancers spread over a period and stay within their budget.
func (a *auditor) pause() time.Duration {
	if a.list != nil {
		return a.period
	}
	eligible := 0
	for _, known := range a.memory.all() {
		if known.comparable(time.Now()) {
			eligible++
		}
	}
	return max(a.period/time.Duration(max(eligible, 1)), time.Minute/time.Duration(a.calls))
}

// comparable reports whether a load balancer is one of which it is known what it should be, and was so at a given time. One
// that is being worked on is looked at the next time.
func (r remembered) comparable(at time.Time) bool {
	return r.made != nil && r.made.ensured && r.made.status != nil && r.failure == nil && len(r.drift) == 0 && r.madeAt.Before(at)
}

// review queues the Services that do not show any more what was made for them: somebody has changed their status or has taken
// their finalizer. Other addresses are not overwritten with what was once returned: the plugin is asked anew by an Ensure. All else
// costs no call to the cloud, and one to the API server for each that is repaired.
func (a *auditor) review(ctx context.Context, now time.Time) error {
	var list corev1.ServiceList
	if err := a.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // they are only read
		return fmt.Errorf("listing services: %w", err)
	}
	memory := a.memory.all()
	for i := range list.Items {
		key := keyOf(&list.Items[i])
		known := memory[key]
		service := known.newest(&list.Items[i])
		if !known.comparable(now) || known.made.service.UID != service.UID ||
			intentFor(service, a.classes, true) != provide {
			continue
		}
		replaced := overwritten(service, known.made)
		if !replaced && shows(service, known.made, now) {
			continue
		}
		if replaced {
			a.memory.change(key, func(now *remembered) {
				if now.made == known.made {
					now.drift = []string{driftStatus}
				}
			})
		}
		logf.FromContext(ctx).Info("Somebody has changed what the Service shows of its load balancer; repairing it",
			"service", key.String(), "finalizer", hasFinalizer(service), "status", service.Status)
		a.enqueue(key, priorityRepair)
	}
	return nil
}

// sweep compares all load balancers with one listing of the cloud.
func (a *auditor) sweep(ctx context.Context) error {
	began := time.Now()
	listed, err := a.list(cloud.WithPriority(ctx, cloud.PriorityRefresh), a.applier.clusterName)
	a.count(err)
	if err != nil {
		return fmt.Errorf("listing load balancers: %w", err)
	}
	byService := make(map[types.UID]provider.LoadBalancer, len(listed))
	for _, balancer := range listed {
		byService[balancer.ServiceUID] = balancer
	}
	settled, _, err := a.targets.sets(ctx)
	if err != nil {
		return err
	}
	mark := markOf(listed, a.applier.clusterUID(ctx))
	for key, known := range a.memory.all() {
		if !known.comparable(began) {
			continue
		}
		balancer, found := byService[known.made.service.UID]
		if !found {
			if err := a.missing(ctx, key, known); err != nil {
				return err
			}
			continue
		}
		targets := settled
		if !settled.servedBy(known.made.targets) {
			targets = nil // it is queued for a change of its targets already
		}
		a.judge(ctx, key, known, differences(known.made, targets, balancer, mark))
	}
	return a.leftovers.sweep(ctx, listed)
}

// missing looks again at a load balancer that is not in a list: lists may lag behind.
func (a *auditor) missing(ctx context.Context, key types.NamespacedName, known remembered) error {
	exists, err := a.applier.exists(ctx, known.made.service)
	a.count(err)
	if err != nil {
		return fmt.Errorf("looking for the load balancer of service %s: %w", key, err)
	}
	if !exists {
		a.judge(ctx, key, known, []string{driftGone})
	}
	return nil
}

// patrol compares the load balancer that has not been looked at for longest. It sees less than a listing does: whether the
// load balancer exists, and its addresses.
func (a *auditor) patrol(ctx context.Context) error {
	key, known, found := a.longestUnseen(time.Now())
	if !found {
		return nil
	}
	a.memory.change(key, func(known *remembered) { known.seenAt = time.Now() })
	ctx = cloud.WithPriority(ctx, cloud.PriorityRefresh)
	status, exists, err := a.applier.balancer.GetLoadBalancer(ctx, a.applier.clusterName, known.made.service)
	a.count(err)
	switch {
	case err != nil:
		return fmt.Errorf("looking at the load balancer of service %s: %w", key, err)
	case !exists:
		a.judge(ctx, key, known, []string{driftGone})
	case status != nil && !equality.Semantic.DeepEqual(normalised(status.Ingress), normalised(known.made.status.Ingress)):
		a.judge(ctx, key, known, []string{"its addresses have changed in the cloud"})
	default:
		a.judge(ctx, key, known, nil)
	}
	return nil
}

func (a *auditor) longestUnseen(now time.Time) (oldest types.NamespacedName, found remembered, any bool) {
	for key, known := range a.memory.all() {
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

// judge queues a load balancer for its repair if it differs.
func (a *auditor) judge(ctx context.Context, key types.NamespacedName, known remembered, differ []string) {
	what := fmt.Sprint(differ)
	repair := len(differ) > 0 && (known.differs != what || known.repairs < maxRepairs || differ[0] == driftGone)
	a.memory.change(key, func(now *remembered) {
		switch {
		case now.made != known.made: // somebody has been at it while we looked
			repair = false
		case len(differ) == 0:
			now.differs, now.repairs = "", 0
		case now.differs == what:
			now.repairs++
		default:
			now.differs, now.repairs = what, 1
		}
		if repair {
			now.drift = differ
		}
	})
	log := logf.FromContext(ctx).WithValues("service", key.String())
	switch {
	case repair && differ[0] == driftGone:
		a.metrics.drifts.WithLabelValues("gone").Inc()
		a.enqueue(key, priorityRepair)
	case repair:
		a.metrics.drifts.WithLabelValues("changed").Inc()
		a.enqueue(key, priorityRepair)
	case len(differ) > 0 && known.repairs == maxRepairs:
		log.Info("The load balancer goes on to differ in the cloud after it was repaired; it is left as it is", "differences", differ)
	}
}

// withoutServed asks a cloud that can list whether load balancers that seem to need other targets have them already, and
// returns the others. One call may spare many; an error spares none.
func (a *auditor) withoutServed(ctx context.Context, keys []types.NamespacedName) []types.NamespacedName {
	if a.list == nil || len(keys) < 2 {
		return keys
	}
	began := time.Now()
	settled, _, err := a.targets.sets(ctx)
	if err != nil {
		return keys
	}
	listed, err := a.list(cloud.WithPriority(ctx, cloud.PriorityRefresh), a.applier.clusterName)
	a.count(err)
	if err != nil {
		return keys
	}
	byService := map[types.UID]provider.LoadBalancer{}
	for _, balancer := range listed {
		byService[balancer.ServiceUID] = balancer
	}
	var rest []types.NamespacedName
	for _, key := range keys {
		if !a.served(key, settled, byService, began) {
			rest = append(rest, key)
		}
	}
	return rest
}

// served notes that a load balancer has the targets that it shall have, if the list says so.
func (a *auditor) served(key types.NamespacedName, set *targetSet, listed map[types.UID]provider.LoadBalancer, at time.Time) bool {
	known, _ := a.memory.recall(key)
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
	served := false
	a.memory.change(key, func(now *remembered) {
		if served = now.made == known.made; served {
			changed := *now.made
			changed.targets, changed.written = written, nil // by name: what the cloud has behind a name is open
			now.made = &changed
		}
	})
	return served
}

// count counts a comparison.
func (a *auditor) count(err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	a.metrics.audits.WithLabelValues(result).Inc()
}

// clusterUID is the UID of the Service kubernetes in the namespace default, which every API server makes for itself. Unlike that
// of a namespace, it can be read with the rights that a cloud controller manager has anyway.
func clusterUID(reader client.Reader) func(context.Context) types.UID {
	return func(ctx context.Context) types.UID {
		var service corev1.Service
		if err := reader.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceDefault, Name: "kubernetes"}, &service); err != nil {
			return ""
		}
		return service.UID
	}
}
