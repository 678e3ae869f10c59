package conformance

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/provider"
)

// changesSource is where the results of ChangeRoutes are promised.
var changesSource = Source{"provider.ChangeRoutesFunc", "It returns what became of each change, in their order"}

func routeChangeRules() []Rule {
	return []Rule{
		{
			ID:     "routes-changed",
			Text:   "By one call of ChangeRoutes routes are created, replaced and deleted, and no others are touched.",
			Source: Source{"provider.ChangeRoutesFunc", "ChangeRoutesFunc makes changes of a cluster's routes"},
			Needs:  []Need{NeedRoutes, NeedChangeRoutes, NeedTwoInstances},
			check:  checkRoutesChanged,
		},
		{
			ID:     "routes-changed-again",
			Text:   "Making the same changes again is no error, makes no second route and breaks none.",
			Source: Source{"provider.ChangeRoutesFunc", "To make a change again that is made already is no error."},
			Needs:  []Need{NeedRoutes, NeedChangeRoutes, NeedInstance},
			check:  checkRoutesChangedAgain,
		},
		{
			ID:     "routes-changed-in-part",
			Text:   "A change that cannot be made is an error of its own or of the whole call, and what is reported as made is.",
			Source: changesSource,
			Needs:  []Need{NeedRoutes, NeedChangeRoutes, NeedInstance},
			check:  checkRoutesChangedInPart,
		},
	}
}

// changeRoutes makes changes by as many calls as the provider's batches take, and returns what became of each.
func (t *trial) changeRoutes(ctx context.Context, changes ...provider.RouteChange) ([]error, error) {
	capabilities := provider.CapabilitiesOf(t.Cloud)
	for _, change := range changes {
		if change.New == nil {
			continue
		}
		if err := t.willHaveRoute(ctx, change.New.DestinationCIDR); err != nil {
			return nil, err
		}
	}
	var results []error
	for len(changes) > 0 {
		batch := changes[:min(max(capabilities.RouteBatch, 1), len(changes))]
		changes = changes[len(batch):]
		made, err := capabilities.ChangeRoutes(ctx, t.options.ClusterName, batch)
		if err != nil {
			return nil, fmt.Errorf("ChangeRoutes of %d changes: %w", len(batch), err)
		}
		if len(made) != len(batch) {
			return nil, fmt.Errorf("ChangeRoutes returned %d results for %d changes", len(made), len(batch))
		}
		results = append(results, made...)
	}
	return results, nil
}

// mustChangeRoutes is changeRoutes of changes each of which can be made.
func (t *trial) mustChangeRoutes(ctx context.Context, changes ...provider.RouteChange) error {
	results, err := t.changeRoutes(ctx, changes...)
	if err == nil {
		err = errors.Join(results...)
	}
	return err
}

// creation is the creation of the trial's n-th route.
func (t *trial) creation(target Instance, n int) provider.RouteChange {
	return provider.RouteChange{New: t.route(target, cidr(n)), NameHint: t.hint(n)}
}

func checkRoutesChanged(ctx context.Context, t *trial) error {
	targets, err := t.instances(ctx, 2)
	if err != nil {
		return err
	}
	if err := t.mustChangeRoutes(ctx, t.creation(targets[0], 0), t.creation(targets[0], 1), t.creation(targets[1], 2)); err != nil {
		return err
	}
	deleted, err := t.routeTo(ctx, cidr(0))
	if err != nil {
		return err
	}
	replaced, err := t.routeTo(ctx, cidr(1))
	if err != nil {
		return err
	}
	replacement := t.route(targets[1], cidr(1))
	replacement.Name = replaced.Name
	changes := []provider.RouteChange{
		{Old: deleted}, {Old: replaced, New: replacement, NameHint: t.hint(1)}, t.creation(targets[1], 3),
	}
	if err := t.mustChangeRoutes(ctx, changes...); err != nil {
		return err
	}
	return t.routesTo(ctx, targets[1], cidr(1), cidr(2), cidr(3))
}

func checkRoutesChangedAgain(ctx context.Context, t *trial) error {
	target, err := t.newRoutes(ctx, cidr(0), cidr(1))
	if err != nil {
		return err
	}
	old, err := t.routeTo(ctx, cidr(0))
	if err != nil {
		return err
	}
	for range 2 {
		if err := t.mustChangeRoutes(ctx, provider.RouteChange{Old: old}, t.creation(target, 1), t.creation(target, 2)); err != nil {
			return err
		}
	}
	return t.routesTo(ctx, target, cidr(1), cidr(2))
}

func checkRoutesChangedInPart(ctx context.Context, t *trial) error {
	target, err := t.instance(ctx)
	if err != nil {
		return err
	}
	nowhere := t.creation(target, 1)
	nowhere.New.TargetNode = types.NodeName(string(t.uid("missing")))
	results, err := t.changeRoutes(ctx, t.creation(target, 0), nowhere, t.creation(target, 2))
	var broken *brokenError
	if errors.As(err, &broken) {
		return err
	}
	if err != nil {
		return nil // All or none: nothing is claimed of any.
	}
	if results[1] == nil {
		t.sawf("ChangeRoutes reports a route to node %q, which does not exist, as made", nowhere.New.TargetNode)
	}
	var made []string
	for _, n := range []int{0, 2} {
		if results[n] == nil {
			made = append(made, cidr(n))
		}
	}
	return t.routesTo(ctx, target, made...)
}
