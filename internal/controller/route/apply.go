package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/dryrun"
	"github.com/mooring-ccm/mooring/internal/sleep"
	"github.com/mooring-ccm/mooring/provider"
)

// outcome is what became of an action.
type outcome struct {
	action action
	err    error
}

// replaceFunc is provider.Capabilities.ReplaceRoute.
type replaceFunc func(ctx context.Context, clusterName string, old, replacement *cloudprovider.Route) error

// applier carries out actions in the cloud.
type applier struct {
	routes  cloudprovider.Routes
	replace replaceFunc
	// change makes up to batch changes by one call; nil: each is made by calls of its own.
	change      provider.ChangeRoutesFunc
	batch       int
	clusterName string
	// places bounds the calls under way.
	places *semaphore.Weighted
	// patience is how long a pass waits for operations when none of them ends. A plugin that hangs holds up neither other
	// nodes nor the next pass.
	patience time.Duration
	state    *state
	metrics  *metrics
	events   *events
	// late is called when an operation ends that its pass did not wait for.
	late func()
	// running counts the operations under way: a controller has not stopped before they have ended.
	running sync.WaitGroup
}

// apply carries out the removals, then the rest. It skips an action while a route that should be gone is in its way. It returns the outcomes of the
// actions that were tried and have ended.
func (a *applier) apply(ctx context.Context, admitted allowed) []outcome {
	removed := a.runAll(ctx, admitted.removals)
	blocked := unfinished(admitted.removals, removed)
	free := make([]action, 0, len(admitted.makes))
	for _, making := range admitted.makes {
		if i := slices.IndexFunc(blocked, making.destination().losesTo); i >= 0 {
			a.events.failed(making, fmt.Errorf("the route to %s that is in its way could not be deleted", blocked[i]))
			continue
		}
		free = append(free, making)
	}
	return append(removed, a.runAll(ctx, free)...)
}

// unfinished returns the destinations of the actions that have not succeeded.
func unfinished(actions []action, outcomes []outcome) []destination {
	succeeded := map[string]bool{}
	for _, outcome := range outcomes {
		succeeded[outcome.action.operation()] = outcome.err == nil
	}
	var destinations []destination
	for _, action := range actions {
		if !succeeded[action.operation()] {
			destinations = append(destinations, action.destination())
		}
	}
	return destinations
}

// runAll begins actions and waits until they have ended. Actions that are still under way when patience runs out go on without it.
//
// Operations that failed before begin one after the other, all of them within a period. If they began together, a plugin's limiter that refuses at
// once would admit only one of them. After the list that precedes them it would admit none.
func (a *applier) runAll(ctx context.Context, actions []action) (outcomes []outcome) {
	ended := make(chan outcome, len(actions))
	batches := a.batches(actions)
	again, spacing := time.Duration(0), min(kit.Moment, DefaultPeriod/time.Duration(max(len(batches), 1)))
	for _, batch := range batches {
		for _, action := range batch {
			a.state.begin(action)
		}
		wait := time.Duration(0)
		if a.change == nil && slices.ContainsFunc(batch, func(one action) bool { return a.state.get(one).failures.Count > 0 }) {
			again++
			wait = again * spacing
		}
		a.running.Go(func() {
			late := false
			sleep.For(ctx, wait)
			for i, err := range a.perform(ctx, batch) {
				late = a.state.end(batch[i], err, time.Now()) || late
				ended <- outcome{batch[i], err}
			}
			if late {
				a.late()
			}
		})
	}
	patience := time.NewTimer(a.patience)
	defer patience.Stop()
	for len(outcomes) < len(actions) {
		select {
		case one := <-ended:
			outcomes = append(outcomes, one)
			patience.Reset(a.patience)
			continue
		case <-patience.C:
			log.FromContext(ctx).Info("Continuing without waiting for slow operations on routes",
				"underWay", len(actions)-len(outcomes), "waited", a.patience.String())
		case <-ctx.Done():
		}
		left := a.state.abandon(actions)
		for len(outcomes) < len(actions)-left {
			outcomes = append(outcomes, <-ended)
		}
		return outcomes
	}
	return outcomes
}

// perform carries out the actions of a batch, and says so. It returns what became of each.
func (a *applier) perform(ctx context.Context, batch []action) []error {
	if err := a.places.Acquire(ctx, 1); err != nil {
		return each(batch, func(action action) error {
			return fmt.Errorf("waiting to %s the route to %s: %w", action.kind, action.destination(), err)
		})
	}
	defer a.places.Release(1)
	begun := time.Now()
	errs := a.call(admission.WithPriority(dryrun.Because(ctx, batch[0].why), urgency(batch), func(reason string) {
		for _, action := range batch {
			a.events.waiting(action, reason)
		}
	}), batch)
	took := time.Since(begun).Round(time.Millisecond).String()
	for i, action := range batch {
		a.metrics.performed(action.kind, errs[i])
		switch {
		case errs[i] == nil:
			log.FromContext(ctx).Info(changed[action.kind], action.keys("took", took)...)
			if before := a.state.get(action).accepted; before > 0 { // maxLag ago
				a.events.failed(action, fmt.Errorf("the cloud has accepted it %d times, but does not list it as a route by this node; "+
					"does the provider name the targets of routes as the nodes are named?", before+1))
			}
		case ctx.Err() == nil && !errors.Is(errs[i], cloudprovider.NotImplemented): // a process that stops is no failure of the route
			a.events.failed(action, errs[i])
		}
	}
	return errs
}

// each returns an error for each action.
func each(batch []action, about func(action) error) []error {
	errs := make([]error, len(batch))
	for i, action := range batch {
		errs[i] = about(action)
	}
	return errs
}

// keys are what the log says of an action that was carried out.
func (a action) keys(more ...any) []any {
	keys := append([]any{"destination", a.destination().String(), "reason", a.why}, more...)
	if a.old != nil {
		keys = append(keys, "route", a.old.Name, "oldNode", string(a.old.TargetNode))
	}
	if a.want != nil {
		keys = append(keys, "node", string(a.want.node))
	}
	return keys
}

// changed are the lines of the log, by what was done.
var changed = map[kind]string{
	remove: "Deleted a route", replace: "Replaced a route in place", recreate: "Deleted and created a route", create: "Created a route",
}

// priorities order the calls among all that wait for the cloud. A node without a route has no traffic at all.
var priorities = map[kind]admission.Priority{
	remove: admission.PriorityDeletion, replace: admission.PriorityUpdate, recreate: admission.PriorityUpdate, create: admission.PriorityNewObject,
}

// call makes the calls to the cloud that a batch consists of.
func (a *applier) call(ctx context.Context, batch []action) []error {
	if a.change != nil {
		return a.together(ctx, batch)
	}
	return each(batch, func(action action) error { return a.single(ctx, action) })
}

// single carries out one action by calls of its own.
func (a *applier) single(ctx context.Context, action action) error {
	if action.kind == replace {
		return action.failed(replace, a.replace(ctx, a.clusterName, action.old, action.wanted()))
	}
	if action.kind != create {
		if err := a.routes.DeleteRoute(ctx, a.clusterName, action.old); err != nil || action.kind == remove {
			return action.failed(remove, err)
		}
	}
	return action.failed(create, a.routes.CreateRoute(ctx, a.clusterName, action.nameHint(), action.wanted()))
}

// nameHint is the UID of the node, as in the reference: plugins make the name of the route to it of that.
func (a action) nameHint() string { return string(a.want.uid) }

// failed says what an error of a step of an action is about; nil stays nil.
func (a action) failed(step kind, err error) error {
	switch {
	case err == nil:
		return nil
	case step == remove:
		return fmt.Errorf("deleting the route %s to %s by %q: %w", a.old.Name, a.old.DestinationCIDR, a.old.TargetNode, err)
	case step == create:
		return fmt.Errorf("creating the route to %s by node %s: %w", a.want.cidr, a.want.node, err)
	default:
		return fmt.Errorf("replacing the route %s to %s by one by node %s: %w", a.old.Name, a.want.cidr, a.want.node, err)
	}
}

// batchShrink is by how much a batch shrinks with each failure of a call as a whole. With 4, it takes three failures to find the one
// route in 64 by which they all fail, and an outage costs a third more calls than one for each route.
const batchShrink = 4

// batches divides actions among calls: each for itself, or as many in a call as the provider takes. Actions of a call that failed as a whole go into
// smaller batches. An action that cannot succeed then soon delays only itself. Actions of a call that hung go alone at once.
//
// See ADR 33.
func (a *applier) batches(actions []action) [][]action {
	size := max(a.batch, 1)
	if a.change == nil {
		size = 1
	}
	var all [][]action
	open := map[int]int{} // by the size of a batch, which one still takes some
	for _, action := range actions {
		most := size
		for range a.state.get(action).together {
			most = max(most/batchShrink, 1)
		}
		at, found := open[most]
		if !found || len(all[at]) == most {
			at = len(all)
			open[most] = at
			all = append(all, nil)
		}
		all[at] = append(all[at], action)
	}
	return all
}

// urgency is the urgency of the most urgent action of a batch.
func urgency(batch []action) admission.Priority {
	most := priorities[batch[0].kind]
	for _, action := range batch[1:] {
		most = max(most, priorities[action.kind])
	}
	return most
}

// together carries out the actions of a batch by one call.
func (a *applier) together(ctx context.Context, batch []action) []error {
	changes := make([]provider.RouteChange, len(batch))
	for i, action := range batch {
		changes[i] = action.change()
	}
	results, err := a.change(ctx, a.clusterName, changes)
	if err == nil && len(results) != len(changes) {
		err = fmt.Errorf("the provider's ChangeRoutes returned %d results for %d changes", len(results), len(changes))
	}
	errs := make([]error, len(batch))
	for i, action := range batch {
		switch {
		case err == nil:
			errs[i] = action.failed(action.kind, results[i])
		case len(batch) == 1:
			errs[i] = action.failed(action.kind, err)
		default:
			errs[i] = action.failed(action.kind, &batchError{changes: len(batch), err: err})
		}
	}
	return errs
}

// change is an action as the plugin is to be given it.
func (a action) change() provider.RouteChange {
	change := provider.RouteChange{Old: a.old}
	if a.want != nil {
		change.New, change.NameHint = a.wanted(), a.nameHint()
	}
	return change
}

// batchError is what several changes failed with that were one call: it says nothing about any one of them.
type batchError struct {
	changes int
	err     error
}

func (e *batchError) Error() string {
	return fmt.Sprintf("one of %d changes that failed together: %v", e.changes, e.err)
}
func (e *batchError) Unwrap() error { return e.err }

// isOwnFailure reports whether an error is about its operation alone, and not about a call in which there were others.
func isOwnFailure(err error) bool {
	var together *batchError
	return !errors.As(err, &together)
}
