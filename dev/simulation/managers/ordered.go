package managers

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// orderedInformer is an informer of Mooring that hands out objects in the order of their names, instead of a map's.
type orderedInformer struct{ cache.SharedIndexInformer }

func newOrderedInformer(from cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return orderedInformer{cache.NewSharedIndexInformer(from, example, resync, indexers)}
}

// GetStore implements cache.SharedInformer.
func (i orderedInformer) GetStore() cache.Store { return i.GetIndexer() }

// GetIndexer implements cache.SharedIndexInformer.
func (i orderedInformer) GetIndexer() cache.Indexer {
	return orderedIndexer{i.SharedIndexInformer.GetIndexer()}
}

// AddEventHandler implements cache.SharedInformer.
func (i orderedInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(&orderedHandler{next: handler})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i orderedInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(&orderedHandler{next: handler}, resync)
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i orderedInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(&orderedHandler{next: handler}, options)
}

// orderedIndexer sorts what it lists.
type orderedIndexer struct{ cache.Indexer }

// List implements cache.Store.
func (i orderedIndexer) List() []any { return inOrder(i.Indexer.List()) }

// Index implements cache.Indexer.
func (i orderedIndexer) Index(name string, object any) ([]any, error) {
	found, err := i.Indexer.Index(name, object)
	return inOrder(found), err
}

// ByIndex implements cache.Indexer.
func (i orderedIndexer) ByIndex(name, value string) ([]any, error) {
	found, err := i.Indexer.ByIndex(name, value)
	return inOrder(found), err
}

func inOrder(objects []any) []any {
	key := func(object any) string {
		about, err := meta.Accessor(object)
		if err != nil {
			return ""
		}
		return about.GetNamespace() + "/" + about.GetName()
	}
	slices.SortStableFunc(objects, func(a, b any) int { return cmp.Compare(key(a), key(b)) })
	return objects
}

// orderedHandler gets the objects that are there when it is added in the order of a map. It hands them on when all have come: virtual time goes on
// then only.
type orderedHandler struct {
	next cache.ResourceEventHandler

	mu      sync.Mutex
	initial []any
}

// OnAdd implements cache.ResourceEventHandler.
func (h *orderedHandler) OnAdd(object any, initial bool) {
	if !initial {
		h.flush()
		h.next.OnAdd(object, false)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.initial = append(h.initial, object); len(h.initial) == 1 {
		time.AfterFunc(time.Nanosecond, h.flush)
	}
}

// OnUpdate implements cache.ResourceEventHandler.
func (h *orderedHandler) OnUpdate(before, after any) {
	h.flush()
	h.next.OnUpdate(before, after)
}

// OnDelete implements cache.ResourceEventHandler.
func (h *orderedHandler) OnDelete(object any) {
	h.flush()
	h.next.OnDelete(object)
}

// flush hands on what has come.
func (h *orderedHandler) flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, object := range inOrder(h.initial) {
		h.next.OnAdd(object, true)
	}
	h.initial = nil
}
