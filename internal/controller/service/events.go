package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/service/writelimit"
	"github.com/mooring-ccm/mooring/internal/metric"
	"github.com/mooring-ccm/mooring/internal/names"
)

// The reasons of events. Those of the reference have its names.
const (
	// EventEnsuring and EventEnsured frame the making or changing of a load balancer.
	EventEnsuring = "EnsuringLoadBalancer"
	EventEnsured  = "EnsuredLoadBalancer"
	// EventPending says that provisioning is in progress.
	EventPending = "PendingLoadBalancer"
	// EventSyncFailed says that a load balancer could not be made, changed or deleted.
	EventSyncFailed = names.EventSyncFailed
	// EventUpdated and EventUpdateFailed are about a change of the targets only.
	EventUpdated      = "UpdatedLoadBalancer"
	EventUpdateFailed = "UpdateLoadBalancerFailed"
	// EventWaitingForCloud says that the call for the load balancer waits to be let in, and for what.
	EventWaitingForCloud = "WaitingForCloud"
	// EventUnavailable says that there is no node that may be a target.
	EventUnavailable = "UnAvailableLoadBalancer"
	// EventDeleting and EventDeleted mark begin and end of the deletion of a load balancer. EventDeleteFailed ends the deletion if its Service no
	// longer exists.
	EventDeleting     = "DeletingLoadBalancer"
	EventDeleted      = "DeletedLoadBalancer"
	EventDeleteFailed = names.EventDeleteFailed
	// EventDeletionIncomplete says that a load balancer is gone though its deletion failed, and what may be left of it.
	EventDeletionIncomplete = "LoadBalancerDeletionIncomplete"
	// EventDrifted says that a load balancer was found to be gone or changed in the cloud and is being repaired.
	EventDrifted = "LoadBalancerDrifted"
	// EventInvalidAnnotation says that an annotation of ours has no effect.
	EventInvalidAnnotation = names.ReasonInvalidAnnotation
	// EventWaiting says for what a Service waits that is to be written to the cloud.
	EventWaiting = "WaitingForWrite"
)

// events reports what passes do, by events of Services, log lines and metrics. It changes nothing that a pass reads.
type events struct {
	recorder record.EventRecorder
	metrics  *metrics
	// waits bounds how often an event says that a Service waits.
	waits kit.EventLimiter
}

// outcome is what became of a call.
type outcome struct {
	result
	err  error
	took time.Duration
	// announced says that the call was announced.
	announced bool
}

// before announces a call that changes something for a Service that is ensured or loses its load balancer, and reports whether it has. Such a call is
// not a mere look, nor the same attempt again.
func (e *events) before(ctx context.Context, p *pass, act action, last attempt) (announced bool) {
	refreshes := p.seen.made == nil && len(act.service.Status.LoadBalancer.Ingress) > 0
	switch {
	case act.verb == verbRemove && last.err == nil:
		e.recorder.Event(act.service, corev1.EventTypeNormal, EventDeleting, "Deleting the load balancer: "+strings.Join(act.why, ", "))
	case act.verb == verbEnsure && !refreshes && p.known.ensure.err == nil:
		if len(p.seen.drift) > 0 {
			e.recorder.Event(act.service, corev1.EventTypeWarning, EventDrifted, "Repairing the load balancer: "+strings.Join(act.why, ", "))
		}
		e.recorder.Event(act.service, corev1.EventTypeNormal, EventEnsuring, "Ensuring the load balancer")
		logf.FromContext(ctx).Info("Ensuring the load balancer", "reason", act.why)
		if len(p.want.latest.nodes) == 0 {
			e.recorder.Event(act.service, corev1.EventTypeWarning, EventUnavailable, noTargets)
		}
	default:
		return false
	}
	return true
}

// after reports what became of a call.
func (e *events) after(ctx context.Context, p *pass, act action, done outcome) {
	log, took := logf.FromContext(ctx), done.took.Round(time.Millisecond).String()
	switch {
	case act.verb == verbRetarget:
		e.afterRetarget(ctx, p, act, done)
	case done.err != nil:
	case act.verb == verbEnsure && done.status == nil:
		log.V(1).Info("The cloud provider leaves the load balancer to another controller")
	case act.verb == verbEnsure:
		if done.announced || changesStatus(p, act, done.result) {
			e.recorder.Event(act.service, corev1.EventTypeNormal, EventEnsured, "Ensured the load balancer")
			log.Info("Ensured the load balancer", "targets", len(p.want.latest.nodes), "took", took)
		}
	case act.verb == verbRemove:
		e.recorder.Event(act.service, corev1.EventTypeNormal, EventDeleted, "Deleted the load balancer")
		log.Info("Deleted the load balancer", "reason", act.why, "took", took)
	}
}

// ended reports the end of a pass, and which annotations of ours have no effect: a mistyped one would be ignored silently.
func (e *events) ended(p *pass) {
	e.metrics.updated(p.key, time.Now())
	if p.addressed {
		e.metrics.ready.Observe(time.Since(p.service.CreationTimestamp.Time).Seconds())
	}
	if p.want.intent != provide {
		return
	}
	if faults := names.AnnotationFaults("Service", p.service.Annotations); len(faults) > 0 {
		e.waits.Record(e.recorder, p.service, corev1.EventTypeWarning, EventInvalidAnnotation, strings.Join(faults, "; "))
	}
}

// changesStatus reports whether a Service is to show something else after it was ensured.
func changesStatus(p *pass, act action, done result) bool {
	made := &made{status: done.status, targets: p.want.latest.members, unpublished: !done.echo}
	shown := publishedBy(act.service)
	return !publicationFor(shown, made, time.Now()).equal(shown)
}

func (e *events) afterRetarget(ctx context.Context, p *pass, act action, done outcome) {
	e.metrics.syncs.Inc()
	e.metrics.hostLatency.Observe(done.took.Seconds())
	switch {
	case done.err != nil && ctx.Err() == nil:
		e.metrics.nodeSyncErrors.Inc()
		if errors.Is(done.err, errNotFound) && p.known.made.denial.isNews() {
			notFound(ctx, e.recorder, act.service)
		}
	case done.err != nil:
	case len(p.want.latest.nodes) == 0:
		e.recorder.Event(act.service, corev1.EventTypeWarning, EventUnavailable, noTargets)
	default:
		e.recorder.Event(act.service, corev1.EventTypeNormal, EventUpdated, "Updated the targets of the load balancer")
		logf.FromContext(ctx).V(1).Info("Updated the targets of the load balancer", "targets", len(p.want.latest.nodes),
			"byDifference", act.change != nil, "took", done.took.Round(time.Millisecond).String())
	}
}

// waiting sends a Service an event about why its write waits.
func (e *events) waiting(act action, reason, message string) {
	e.waits.Record(e.recorder, act.service, corev1.EventTypeNormal, reason, message)
}

// notFound reports a load balancer that the cloud does not find.
func notFound(ctx context.Context, recorder record.EventRecorder, service *corev1.Service) {
	logf.FromContext(ctx).Info("The cloud does not find a load balancer; asking again before recreating it", "service", keyOf(service).String())
	recorder.Event(service, corev1.EventTypeWarning, EventDrifted, deniedMessage)
}

// stillDiffers reports a load balancer that differs from what was made in the same way as before its repairs, or is gone again.
func stillDiffers(ctx context.Context, recorder record.EventRecorder, service *corev1.Service, differ []string, gone bool) {
	message, next := "Load balancer still differs after three repairs; giving up", "when it differs in another way"
	if gone {
		message, next = "Load balancer is still gone after three repairs; repairing it once an hour", "once an hour"
	}
	logf.FromContext(ctx).Info(message, "service", keyOf(service).String(), "differences", differ)
	recorder.Event(service, corev1.EventTypeWarning, EventDrifted, kit.EventMessage(fmt.Sprintf(
		"The load balancer still differs after %d repairs: %s. Find out what changes it in the cloud. Mooring repairs it again %s", maxRepairs, strings.Join(differ, ", "), next)))
}

// deletionIncomplete reports that a load balancer counts as deleted though its deletion has failed again and again.
func deletionIncomplete(ctx context.Context, recorder record.EventRecorder, service *corev1.Service, err error) {
	logf.FromContext(ctx).Info("Load balancer already gone; ignoring the error of its deletion, which may have left parts of it in the cloud",
		"error", err.Error())
	recorder.Event(service, corev1.EventTypeWarning, EventDeletionIncomplete, kit.EventMessage(fmt.Sprintf(
		"The load balancer no longer exists, but its deletion failed %d times. Look in the cloud for parts of it that this error names: %v", absenceTries, err)))
}

// failed counts and logs a try that failed, and sends an event of a kind about it, if one is due, to the Service, which may be gone.
func (e *events) failed(ctx context.Context, last attempt, about *corev1.Service, kind, message string, err error) {
	e.metrics.failures.WithLabelValues(last.reason).Inc()
	log := logf.FromContext(ctx).WithValues("retryAfter", time.Until(last.Until).Round(time.Millisecond).String())
	switch {
	case last.reason == ReasonNotFound && kind != EventUpdateFailed:
		log.Info("The cloud does not find the load balancer whose targets are to be changed", "reason", err.Error())
		return // the row of such answers has an event of its own
	case last.reason == ReasonPending && !last.news:
		return
	case last.reason == ReasonPending:
		log.Info("The load balancer is not ready yet", "reason", err.Error())
	default:
		log.Error(err, message, "reason", last.reason)
	}
	var update *retargetError
	switch {
	case !last.news || about == nil:
	case last.reason == ReasonPending && kind != EventUpdateFailed:
		e.recorder.Event(about, corev1.EventTypeNormal, EventPending, kit.EventMessage("The load balancer is not ready yet: "+err.Error()))
	case errors.As(err, &update) || kind == EventUpdateFailed:
		nodes := "the present nodes"
		if update != nil {
			nodes = shortList(update.nodes)
		}
		e.recorder.Event(about, corev1.EventTypeWarning, EventUpdateFailed,
			kit.EventMessage(fmt.Sprintf("Error updating the targets of the load balancer to %s: %v", nodes, err)))
	default:
		e.recorder.Event(about, corev1.EventTypeWarning, kind, kit.EventMessage(fmt.Sprintf("Error syncing the load balancer: %v", err)))
	}
}

// metrics are those of the reference controller under their names, and ours.
type metrics struct {
	syncs           prometheus.Counter
	nodeSyncErrors  prometheus.Counter
	nodeSyncLatency prometheus.Histogram
	hostLatency     prometheus.Histogram

	failures *prometheus.CounterVec
	ready    prometheus.Histogram
	targets  prometheus.Gauge
	drifts   *prometheus.CounterVec
	checks   *prometheus.CounterVec

	mu sync.Mutex
	// round is the load balancers that have not been updated yet after the last change of the set of nodes, which began at roundBegan.
	round      map[types.NamespacedName]struct{}
	roundBegan time.Time
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := metric.With(registerer)
	long := prometheus.ExponentialBuckets(1, 2, 15) // the reference's: 1 s to 4.5 h
	m := &metrics{
		round: map[types.NamespacedName]struct{}{},
		syncs: factory.NewCounter("service_controller_loadbalancer_sync_total",
			"How often the targets of a load balancer were changed because the set of nodes had."),
		nodeSyncErrors: factory.NewCounter("service_controller_nodesync_error_total",
			"How often that failed."),
		nodeSyncLatency: factory.NewHistogram("service_controller_nodesync_latency_seconds",
			"How long it took until all load balancers had received a change of the set of nodes.", long),
		hostLatency: factory.NewHistogram("service_controller_update_loadbalancer_host_latency_seconds",
			"How long it took to change the targets of one load balancer, the wait for its turn included.", long),
		failures: factory.NewCounterVec("mooring_service_failures_total",
			"Passes over a Service that failed, by the reason that the Service's condition gives.", "reason"),
		ready: factory.NewHistogram("mooring_service_time_to_address_seconds",
			"How long after a Service's creation its first address was in its status.", prometheus.ExponentialBuckets(0.25, 2, 13)), // 250 ms to 17 min
		targets: factory.NewGauge(names.MetricServiceTargets,
			"Nodes that are targets of every load balancer."),
		drifts: factory.NewCounterVec(names.MetricServiceDrift,
			"Load balancers that were found to be gone or changed in the cloud, by kind: gone or changed.", "kind"),
		checks: factory.NewCounterVec("mooring_service_drift_checks_total",
			"Drift checks, by result: success or error. One is a listing, or a call for one load balancer.", "result"),
	}
	for _, kind := range []string{driftKindGone, driftKindChanged} { // an alert on an increase needs a value from before the first one
		m.drifts.WithLabelValues(kind)
	}
	return m
}

// registerCounts exports how many load balancers there are and how many wait, counted at each scrape.
func registerCounts(registerer prometheus.Registerer, states *states, limiter *writelimit.Limiter) {
	factory := promauto.With(registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mooring_service_writes_waiting",
		Help: "Services that wait for other writes to load balancers, of which the cloud bears only so many at once.",
	}, func() float64 { return float64(limiter.CountWaiting()) })
	gauge := func(state string, count func() int) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "mooring_service_load_balancers",
			Help:        "Services that have or shall have a load balancer, by state: provided, or unfinished.",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(count()) })
	}
	gauge("provided", func() int { provided, _ := states.counts(); return provided })
	gauge("unfinished", func() int { _, unfinished := states.counts(); return unfinished })
}

// beginRound notes which load balancers have to be updated after a change of the set of nodes.
func (m *metrics) beginRound(keys []types.NamespacedName, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.round) == 0 {
		m.roundBegan = now
	}
	for _, key := range keys {
		m.round[key] = struct{}{}
	}
}

// updated records that a load balancer has been updated, or no longer needs an update.
func (m *metrics) updated(key types.NamespacedName, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, waited := m.round[key]; !waited {
		return
	}
	delete(m.round, key)
	if len(m.round) == 0 {
		m.nodeSyncLatency.Observe(now.Sub(m.roundBegan).Seconds())
	}
}
