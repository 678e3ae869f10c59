package ccm

import (
	"context"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	bounded "github.com/mooring-ccm/mooring/internal/message/events"
)

const (
	// rememberedEvents is of how many events client-go remembers that they were written, to count another of the kind instead of
	// writing a new one. It must be more than there are nodes in a large cluster: a memory that is too small for an outage that
	// all nodes tell of remembers none of them. It takes no room before it is used.
	rememberedEvents = 16384
	// newsRate is how many events a second are written that say that all went well, after the first newsBurst. A thousand nodes
	// that join need two writes each to become usable; the event of each must not make these wait. An event costs the API server
	// nearly as much as such a write.
	newsRate, newsBurst = 10, 20
)

// events writes the events of all components, one after the other and apart from the controllers, which never wait for it: an
// event without room is dropped. Alike events are merged, and an object gets at most 25 from one component
// and then one in five minutes, as in the reference. What goes wrong waits for nothing that went well.
type events struct {
	news, warnings record.EventBroadcaster
	// hurry ends the pacing.
	hurry context.CancelFunc
}

// newEvents returns what writes events until it is shut down, whatever becomes of ctx.
func newEvents(ctx context.Context, sink record.EventSink) *events {
	ctx = context.WithoutCancel(ctx)
	pacing, hurry := context.WithCancel(ctx)
	good := paced{EventSink: sink, ctx: pacing, limiter: rate.NewLimiter(newsRate, newsBurst)}
	return &events{news: newBroadcaster(ctx, good), warnings: newBroadcaster(ctx, sink), hurry: hurry}
}

// eventSink returns the API server's.
func eventSink(client typedcorev1.EventsGetter) record.EventSink {
	return &typedcorev1.EventSinkImpl{Interface: client.Events("")}
}

func newBroadcaster(ctx context.Context, sink record.EventSink) record.EventBroadcaster {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx),
		record.WithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: rememberedEvents}))
	broadcaster.StartStructuredLogging(4)
	broadcaster.StartRecordingToSink(sink)
	return broadcaster
}

// shutdown takes no more events. The events that are left are written as fast as possible while the process ends; what has not been
// written by then is lost, as in the reference.
func (e *events) shutdown() {
	e.hurry()
	e.news.Shutdown()
	e.warnings.Shutdown()
}

// recorder returns a recorder of events from the given component.
func (e *events) recorder(component string) record.EventRecorder {
	source := corev1.EventSource{Component: component}
	return bounded.Bounded(recorder{news: e.news.NewRecorder(clientgoscheme.Scheme, source), warnings: e.warnings.NewRecorder(clientgoscheme.Scheme, source)})
}

// recorder is a record.EventRecorder that keeps warnings apart.
type recorder struct{ news, warnings record.EventRecorder }

func (r recorder) of(eventtype string) record.EventRecorder {
	if eventtype == corev1.EventTypeNormal {
		return r.news
	}
	return r.warnings
}

func (r recorder) Event(object runtime.Object, eventtype, reason, message string) {
	r.of(eventtype).Event(object, eventtype, reason, message)
}

func (r recorder) Eventf(object runtime.Object, eventtype, reason, format string, args ...any) {
	r.of(eventtype).Eventf(object, eventtype, reason, format, args...)
}

func (r recorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventtype, reason, format string, args ...any) {
	r.of(eventtype).AnnotatedEventf(object, annotations, eventtype, reason, format, args...)
}

// paced is an event sink that is used no faster than its limiter allows, until ctx ends.
type paced struct {
	record.EventSink
	ctx     context.Context
	limiter *rate.Limiter
}

// Create waits for its turn and writes an event.
func (p paced) Create(event *corev1.Event) (*corev1.Event, error) {
	_ = p.limiter.Wait(p.ctx) // an error says that no event has to wait
	return p.EventSink.Create(event)
}

// Patch waits for its turn and counts an event that was written before.
func (p paced) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	_ = p.limiter.Wait(p.ctx)
	return p.EventSink.Patch(event, data)
}
