package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// bookmarkInterval is how often a watch that allows bookmarks gets one.
const bookmarkInterval = time.Minute

// minWatch is how long a watch lasts at least if its client names no timeout. It lasts up to twice as long.
const minWatch = 30 * time.Minute

// drawnWatch is the same with DrawWatches if its client names one: what reflectors ask for.
const drawnWatch = 5 * time.Minute

// watchEvent is one event of a watch. Its entry is encoded when the client reads it.
type watchEvent struct {
	kind   watch.EventType
	entry  *entry
	object runtime.Object // of a bookmark or an error
	stamp  int64
}

// watcher is a watch, and the body of its response.
type watcher struct {
	server    *Server
	table     *table
	about     Attributes
	resource  *resource
	selection selection
	encoding  runtime.SerializerInfo
	bookmarks bool
	metadata  bool
	ctx       context.Context
	wake      chan struct{}
	deadline  time.Time
	// started is the version from which the watch goes on. Older changes were part of its start.
	started int64

	mu     sync.Mutex
	queue  []watchEvent
	ended  bool // no event comes any longer
	closed bool // the client closed the body

	// What follows belongs to the reader.
	pending  []byte
	bookmark time.Time
	lastSeen int64
}

// watch answers with a body that the client reads events from.
func (s *Server) watch(c *call) *http.Response {
	options, selected, err := c.listOptions()
	if err != nil {
		return errorResponse(c.request, err)
	}
	asked := int64(0)
	if options.ResourceVersion != "" {
		if asked, err = parseVersion(options.ResourceVersion); err != nil {
			return errorResponse(c.request, internal(err.Error()))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	drawn := s.draw("watch" + c.Identity + c.Path)
	lasts := minWatch + time.Duration(drawn%uint64(minWatch))
	switch {
	case options.TimeoutSeconds == nil || *options.TimeoutSeconds <= 0:
	case s.options.DrawWatches:
		lasts = drawnWatch + time.Duration(drawn%uint64(drawnWatch))
	default:
		lasts = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	now := time.Now()
	w := &watcher{
		server: s, table: s.table(c.resource), about: c.Attributes, resource: c.resource, selection: selected, encoding: c.output, metadata: c.onlyMetadata(),
		bookmarks: options.AllowWatchBookmarks, ctx: c.request.Context(), wake: make(chan struct{}, 1), deadline: now.Add(lasts),
		bookmark: now.Add(bookmarkInterval), started: s.version, lastSeen: s.version,
	}
	w.start(options, asked)
	w.table.watchers = append(w.table.watchers, w)
	mediaType := c.output.MediaType
	if c.accepted.Stream != "" || mediaType == runtime.ContentTypeProtobuf {
		mediaType += ";stream=watch"
	}
	s.audit(c, answer{}, http.StatusOK)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {mediaType}, "Cache-Control": {"no-cache, private"}}, Body: w, ContentLength: -1}
}

// start queues what a watch begins with: the state, what came after a version, or an error.
func (w *watcher) start(options *metav1.ListOptions, asked int64) {
	initial := options.SendInitialEvents
	fromState := asked == 0
	if initial != nil {
		fromState = *initial
	}
	switch {
	case fromState:
		for _, current := range sorted(w.table.objects) {
			if w.selection.matches(current) {
				w.queue = append(w.queue, watchEvent{kind: watch.Added, entry: current})
			}
		}
		if initial != nil && w.bookmarks {
			w.queue = append(w.queue, w.bookmarkEvent(w.started, true))
		}
	case asked == 0:
	case asked < w.server.compacted:
		expired := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", asked, w.server.compacted+1))
		w.queue, w.ended = append(w.queue, watchEvent{kind: watch.Error, object: statusOf(expired)}), true
	default:
		w.started = asked
		for _, change := range w.table.history {
			w.see(change)
		}
	}
}

// bookmarkEvent makes an object that has a version only.
func (w *watcher) bookmarkEvent(version int64, initialEnd bool) watchEvent {
	object := w.resource.make()
	object.GetObjectKind().SetGroupVersionKind(w.resource.GroupVersionKind)
	about := mustMeta(object)
	about.SetResourceVersion(strconv.FormatInt(version, 10))
	if initialEnd {
		about.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	if w.metadata {
		object = partial(about)
	}
	return watchEvent{kind: watch.Bookmark, object: object, stamp: version}
}

// see queues a change if the selection has the object before or after it.
func (w *watcher) see(written change) {
	if written.version <= w.started {
		return
	}
	after := !written.deleted && w.selection.matches(written.after)
	before := written.before != nil && w.selection.matches(written.before)
	event := watchEvent{entry: written.after, stamp: written.version}
	switch {
	case after && before:
		event.kind = watch.Modified
	case after:
		event.kind = watch.Added
	case before && written.deleted:
		event.kind = watch.Deleted
	case before: // it no longer matches: the client gets what did, with the new version
		event.kind, event.entry = watch.Deleted, written.before.withVersion(written.version)
	default:
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.queue = append(w.queue, event)
		w.notify()
	}
}

// withVersion is a copy with another version.
func (e *entry) withVersion(version int64) *entry {
	object := e.object.DeepCopyObject()
	about := mustMeta(object)
	about.SetResourceVersion(strconv.FormatInt(version, 10))
	return &entry{object: object, meta: about, version: version, fields: e.fields}
}

func (w *watcher) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// end lets the client read what is queued, and then the end.
func (w *watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.notify()
}

// readable reports whether there is something to read: an event, a bookmark or the end.
func (w *watcher) readable() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	return len(w.queue) > 0 || w.ended || w.closed || !now.Before(w.deadline) || w.bookmarks && !now.Before(w.bookmark)
}

// next returns the next event, or that the watch has ended.
func (w *watcher) next() (event watchEvent, found, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 {
		event, w.queue = w.queue[0], w.queue[1:]
		return event, true, false
	}
	return event, false, w.ended || w.closed
}

// Read gives the client the next bytes, or waits for an event, a bookmark that is due, or the end.
func (w *watcher) Read(into []byte) (int, error) {
	for len(w.pending) == 0 {
		if err := w.ctx.Err(); err != nil {
			return 0, fmt.Errorf("read a watch: %w", err)
		}
		if !w.readable() {
			w.wait()
			continue
		}
		if deliver := w.server.options.Deliver; deliver != nil {
			deliver(w.about)
		}
		event, found, ended := w.next()
		if ended {
			return 0, io.EOF
		}
		if !found {
			if event, found = w.due(); !found {
				continue
			}
		}
		if err := w.encode(event); err != nil {
			return 0, err
		}
	}
	n := copy(into, w.pending)
	w.pending = w.pending[n:]
	return n, nil
}

// due ends a watch at its deadline, and returns a bookmark when one is due.
func (w *watcher) due() (watchEvent, bool) {
	now := time.Now()
	if !now.Before(w.deadline) {
		w.end()
		return watchEvent{}, false
	}
	if !w.bookmarks || now.Before(w.bookmark) {
		return watchEvent{}, false
	}
	w.bookmark = now.Add(bookmarkInterval)
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 { // what came first is sent first
		event := w.queue[0]
		w.queue = w.queue[1:]
		return event, true
	}
	return w.bookmarkEvent(w.server.version, false), true
}

// wait waits until something may be read.
func (w *watcher) wait() {
	until := w.deadline
	if w.bookmarks && w.bookmark.Before(until) {
		until = w.bookmark
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-w.wake:
	case <-w.ctx.Done():
	case <-timer.C:
	}
}

// encode makes the bytes of an event.
func (w *watcher) encode(event watchEvent) error {
	var object []byte
	var err error
	if event.entry != nil {
		object, err = event.entry.encode(w.resource, w.encoding, w.metadata)
	} else {
		object, err = runtime.Encode(w.encoding.Serializer, event.object)
	}
	if err != nil {
		return fmt.Errorf("encode an event of a watch: %w", err)
	}
	var frame bytes.Buffer
	into := w.encoding.StreamSerializer.Framer.NewFrameWriter(&frame)
	err = w.encoding.StreamSerializer.Encode(&metav1.WatchEvent{Type: string(event.kind), Object: runtime.RawExtension{Raw: object}}, into)
	if err != nil {
		return fmt.Errorf("encode an event of a watch: %w", err)
	}
	w.pending = frame.Bytes()
	return nil
}

// Close is called by the client, which reads no longer.
func (w *watcher) Close() error {
	w.mu.Lock()
	w.closed, w.queue = true, nil
	w.notify()
	w.mu.Unlock()
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.table.watchers = slices.DeleteFunc(w.table.watchers, func(other *watcher) bool { return other == w })
	return nil
}
