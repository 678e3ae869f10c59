package sim

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// watchInstances is provider.WatchInstancesFunc. It mends a connection that broke, since the cloud can report what was missed;
// one that breaks again at once is left to the caller, who knows when to try again.
func (c *Cloud) watchInstances(ctx context.Context, yield func(provider.InstanceEvent) error) error {
	w := &watch{yield: yield, since: api.FromBeginning}
	for {
		w.marks = 0
		err := c.client.WatchInstances(ctx, w.since, w.take)
		var refused *api.Error
		switch {
		case w.stopped != nil:
			return w.stopped
		case api.HasCode(err, api.CodeRevisionExpired):
			return fmt.Errorf("%w: %w", provider.ErrWatchExpired, err)
		case ctx.Err() != nil || errors.As(err, &refused) || w.marks < 2:
			return classify(err)
		}
	}
}

// watch is what was reported so far.
type watch struct {
	yield func(provider.InstanceEvent) error
	// since is the revision of the last mark, and marks how many came by this connection.
	since int64
	marks int
	// stopped is what yield returned.
	stopped error
}

func (w *watch) take(change api.InstanceChange) error {
	event := provider.InstanceEvent{Kind: provider.InstancesCurrent}
	switch change.Kind {
	case api.ChangeMark:
		w.since = change.Revision
		w.marks++
	case api.ChangeSet:
		event = provider.InstanceEvent{Kind: provider.InstanceSet, Instance: listed(*change.Instance)}
	case api.ChangeDeleted:
		event.Kind = provider.InstanceDeleted
		event.Instance.ProviderID = ProviderID(change.ID)
	}
	w.stopped = w.yield(event)
	return w.stopped
}

// listed returns an instance as lists and watches show it.
func listed(instance api.Instance) provider.Instance {
	return provider.Instance{
		NodeName:         types.NodeName(instance.Name),
		State:            stateOf(instance.State),
		InstanceMetadata: metadataOf(instance),
	}
}
