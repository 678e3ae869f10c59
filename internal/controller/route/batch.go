package route

import (
	"context"
	"errors"
	"fmt"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/provider"
)

// lonelier is by how much a batch shrinks with each failure of a call as a whole. With 4, it takes three failures to find the one
// route in 64 by which they all fail, and an outage costs a third more calls than one for each route.
const lonelier = 4

// batches divides actions among calls: each for itself, or as many in a call as the provider takes. Those that have failed as part
// of a call that failed as a whole go in smaller company, so that one that cannot be done soon holds up itself alone.
func (a *applier) batches(actions []action) [][]action {
	size := max(a.batch, 1)
	if a.change == nil {
		size = 1
	}
	var all [][]action
	open := map[int]int{} // by the size of a batch, which one still takes some
	for _, action := range actions {
		most := size
		for range a.memory.failedTogether(action) {
			most = max(most/lonelier, 1)
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

// urgency is that of the most urgent action of a batch.
func urgency(batch []action) cloud.Priority {
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
			errs[i] = action.failed(results[i])
		case len(batch) == 1:
			errs[i] = action.failed(err)
		default:
			errs[i] = action.failed(&togetherError{changes: len(batch), err: err})
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

// failed says what an error is about.
func (a action) failed(err error) error {
	switch a.kind {
	case remove:
		return deleting(a, err)
	case create:
		return creating(a, err)
	default:
		return replacing(a, err)
	}
}

// togetherError is what several changes failed with that were one call: it says nothing about any one of them.
type togetherError struct {
	changes int
	err     error
}

func (e *togetherError) Error() string {
	return fmt.Sprintf("one of %d changes that failed together: %v", e.changes, e.err)
}
func (e *togetherError) Unwrap() error { return e.err }

// blames reports whether an error is about its operation alone, and not about a call in which there were others.
func blames(err error) bool {
	var together *togetherError
	return !errors.As(err, &together)
}
