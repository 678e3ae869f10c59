package route

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/message"
)

// reconciler makes passes: it observes, lets desired.go and plan.go decide, and has the plan carried out.
type reconciler struct {
	reader       client.Reader
	clusterCIDRs []netip.Prefix
	abilities    abilities
	owners       ownership.Rules
	absenceCheck absenceCheck
	state        *state
	scheduler    *scheduler
	applier      *applier
	conditions   *conditionWriter
	events       *events
	metrics      *metrics
}

// Reconcile makes a pass if it is time for one. It returns all that failed; the scheduler knows when to try again.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if wait := r.scheduler.early(time.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	trigger := r.scheduler.begin(time.Now())
	compared, err := r.compare(ctx)
	if err != nil {
		return r.conclude(ctx, trigger, nil, nil, result{blocked: err})
	}
	outcomes, unwritten := r.carryOut(ctx, compared)
	return r.conclude(ctx, trigger, outcomes, unwritten, result{partial: compared.unclear})
}

// comparison is what a pass has found out, and what there is to do.
type comparison struct {
	members  []member
	wanted   desired
	planned  plan
	admitted allowed
	// unclear is what the API server did not confirm.
	unclear error
}

// compare compares all routes with all nodes.
func (r *reconciler) compare(ctx context.Context) (comparison, error) {
	busy := r.state.underWay()
	routes, err := r.list(ctx)
	if err != nil {
		return comparison{}, err
	}
	// Nodes are read after the routes: a route whose node is not among them has outlived it.
	members, err := r.members(ctx)
	if err != nil {
		return comparison{}, err
	}
	wanted := desire(members, r.clusterCIDRs, r.state.unsupportedFamilies()...)
	planned := makePlan(wanted, routes, r.abilities)
	if slices.ContainsFunc(planned.makes, func(a action) bool { return a.kind == create }) {
		if wanted.serviceCIDRs = r.serviceCIDRs(ctx); len(wanted.serviceCIDRs) > 0 {
			planned = makePlan(wanted, routes, r.abilities)
		}
	}
	admitted := r.state.admit(wanted, planned, busy, time.Now())
	held, unconfirmed := r.absenceCheck.doubtful(ctx, wanted.targets, slices.Concat(admitted.removals, admitted.makes))
	return comparison{members, wanted, planned, admitted.without(held), unconfirmed}, nil
}

// carryOut does what there is to do. It returns what became of the operations, and which conditions could not be written.
func (r *reconciler) carryOut(ctx context.Context, c comparison) (outcomes []outcome, unwritten error) {
	r.events.record(c.planned.notices)
	outcomes = r.applier.apply(ctx, c.admitted)
	now := time.Now()
	without := r.state.unsupportedFamilies()
	if len(without) > len(c.wanted.unsupported) {
		log.FromContext(ctx).Info("The cloud provider makes no routes of a family: nodes are served without them", "family", fmt.Sprint(without))
	}
	c.wanted.unsupported = without
	routedNodes, missing := routedNodesOf(c.members, c.wanted, c.planned, unmet(c.planned, c.admitted, outcomes),
		func(lacking key) bool { return r.state.deniable(lacking, now) })
	r.metrics.missing.Set(float64(missing))
	return outcomes, r.conditions.write(ctx, routedNodes, now)
}

// conclude notes how a pass ended, and returns when the next one is due and all that failed.
func (r *reconciler) conclude(ctx context.Context, trigger string, outcomes []outcome, unwritten error, ended result) (reconcile.Result, error) {
	failures := []error{ended.blocked, ended.partial, unwritten}
	for _, outcome := range outcomes {
		failures = append(failures, outcome.err)
		ended.changed = ended.changed || outcome.err == nil
	}
	now := time.Now()
	ended.doubtful = r.state.doubts(now)
	r.metrics.compared(trigger, ended)
	ended.retry = earlier(r.state.next(now), r.conditions.next(now))
	next := r.scheduler.end(now, ended)
	if err := errors.Join(failures...); err != nil && ctx.Err() == nil { // what fails because the process stops is no failure
		return reconcile.Result{}, message.Bound(err, kit.MaxMessage) // an outage has one for each route
	}
	return reconcile.Result{RequeueAfter: next}, nil
}

// list asks the cloud for all routes of the cluster.
func (r *reconciler) list(ctx context.Context) ([]*cloudprovider.Route, error) {
	routes, err := r.applier.routes.ListRoutes(ctx, r.applier.clusterName)
	if err != nil {
		return nil, fmt.Errorf("listing the routes of cluster %q: %w", r.applier.clusterName, err)
	}
	for i, route := range routes {
		if route == nil {
			return nil, fmt.Errorf("listing the routes of cluster %q: the provider returned nothing in place %d of %d",
				r.applier.clusterName, i, len(routes))
		}
	}
	r.metrics.routes.Set(float64(len(routes)))
	return routes, nil
}

// members reads all nodes from the cache.
func (r *reconciler) members(ctx context.Context) ([]member, error) {
	list := &corev1.NodeList{}
	if err := r.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil { // they are not changed here
		return nil, fmt.Errorf("reading the nodes: %w", err)
	}
	return membersOf(list.Items, r.owners), nil
}

// serviceCIDRs returns the ranges of Services. Only administrators write those objects, which API servers have from Kubernetes 1.33 on. None are
// known where they cannot be read.
func (r *reconciler) serviceCIDRs(ctx context.Context) (ranges []netip.Prefix) {
	list := &networkingv1.ServiceCIDRList{}
	if err := r.absenceCheck.live.List(ctx, list); err != nil {
		log.FromContext(ctx).V(4).Info("The ranges of Services cannot be read: pod CIDRs may overlap them", "reason", err.Error())
		return nil
	}
	for i := range list.Items {
		for _, cidr := range list.Items[i].Spec.CIDRs {
			if prefix, err := netip.ParsePrefix(cidr); err == nil {
				ranges = append(ranges, prefix.Masked())
			}
		}
	}
	return ranges
}

// unmet returns the wants that have no route after a pass: wants without a plan, wants that wait, and wants whose operations have not succeeded.
func unmet(planned plan, admitted allowed, outcomes []outcome) map[key]bool {
	missing := map[key]bool{}
	for _, want := range planned.unmet {
		missing[want.key()] = true
	}
	for _, want := range admitted.waiting {
		missing[want.key()] = true
	}
	for _, making := range admitted.makes {
		missing[making.want.key()] = true
	}
	for _, outcome := range outcomes {
		if outcome.action.want != nil && outcome.err == nil {
			delete(missing, outcome.action.want.key())
		}
	}
	return missing
}

// routedNodesOf returns the nodes whose condition this controller maintains, and how many wants are unmet. As in the reference, a node without pod
// CIDRs is not among them, unless routes pointed to it. The controller does not report missing routes of a presumed node, because another owner may
// make them. It reports none either while a list that denies a route may lag.
func routedNodesOf(members []member, wanted desired, planned plan, unmet map[key]bool, deniable func(key) bool) (
	routedNodes []routedNode, missing int,
) {
	withoutPodCIDRs := map[types.NodeName]bool{}
	for _, name := range planned.withoutPodCIDRs {
		withoutPodCIDRs[name] = true
	}
	for _, member := range members {
		name := types.NodeName(member.node.Name)
		destinations := slices.DeleteFunc(slices.Clone(wanted.targets[name].destinations), wanted.excuses)
		if !member.membership.takesPart() || len(destinations) == 0 && !withoutPodCIDRs[name] {
			continue
		}
		lacking, denied := 0, len(destinations) == 0
		for _, destination := range destinations {
			if one := (key{member.node.UID, destination}); unmet[one] {
				lacking++
				denied = denied || deniable(one)
			}
		}
		routed := len(destinations) > 0 && lacking == 0
		if member.membership == presumed && !routed {
			continue
		}
		missing += lacking
		if !routed && !denied {
			continue
		}
		routedNodes = append(routedNodes, routedNode{node: member.node, routed: routed})
	}
	return routedNodes, missing
}
