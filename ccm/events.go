package ccm

import (
	"context"

	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// rememberedEvents is of how many events client-go remembers that they were written, to count another of the kind instead of
// writing a new one. It must be more than there are nodes in a large cluster: a memory that is too small for an outage that all
// nodes tell of remembers none of them. It takes no room before it is used.
const rememberedEvents = 16384

// newBroadcaster returns what writes the events of all components, one after the other and apart from the controllers, which
// never wait for it: an event for which there is no room any more is dropped. Alike events are merged, and an object gets at
// most 25 from one component and then one in five minutes, as in the reference.
func newBroadcaster(ctx context.Context, events typedcorev1.EventInterface) record.EventBroadcaster {
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)),
		record.WithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: rememberedEvents}))
	broadcaster.StartStructuredLogging(4)
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: events})
	return broadcaster
}
