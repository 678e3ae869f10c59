package virtual

import (
	"context"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watcher is a watch of one kind.
type watcher struct {
	kind    string
	events  chan watch.Event
	stopped chan struct{}
	stop    func()
}

// watchBuffer is more events than a test makes between two moments of virtual time.
const watchBuffer = 10_000

// watch begins a watch with what was written after a version.
func (c *cluster) watch(kind string, since string) *watcher {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &watcher{kind: kind, events: make(chan watch.Event, watchBuffer), stopped: make(chan struct{})}
	w.stop = sync.OnceFunc(func() { close(w.stopped) })
	c.watches[w] = true
	from, _ := strconv.Atoi(since)
	for key, object := range c.objects {
		if version, _ := strconv.Atoi(object.GetResourceVersion()); key.kind == kind && version > from {
			w.events <- watch.Event{Type: watch.Modified, Object: object.DeepCopyObject()}
		}
	}
	return w
}

// send has all watches of a kind show an event. The lock is held.
func (c *cluster) send(kind string, event watch.Event) {
	for w := range c.watches {
		if w.kind != kind {
			continue
		}
		select {
		case <-w.stopped:
			delete(c.watches, w)
		case w.events <- watch.Event{Type: event.Type, Object: event.Object.DeepCopyObject()}:
		}
	}
}

func (w *watcher) Stop()                          { w.stop() }
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

// caches are client-go's informers over a cluster.
type caches struct {
	informertest.FakeInformers // keeps the informers by their kind
	nodes, services            toolscache.SharedIndexInformer
}

// startCaches starts informers of nodes and Services, which end with the context.
func startCaches(ctx context.Context, c *cluster, running *sync.WaitGroup) *caches {
	started := &caches{
		nodes:    informer(c, &corev1.Node{}, func() client.ObjectList { return &corev1.NodeList{} }),
		services: informer(c, &corev1.Service{}, func() client.ObjectList { return &corev1.ServiceList{} }),
	}
	started.Scheme = scheme.Scheme // else each who asks for an informer sets it
	started.InformersByGVK = map[schema.GroupVersionKind]toolscache.SharedIndexInformer{
		corev1.SchemeGroupVersion.WithKind("Node"):    started.nodes,
		corev1.SchemeGroupVersion.WithKind("Service"): started.services,
	}
	running.Go(func() { started.nodes.RunWithContext(ctx) })
	running.Go(func() { started.services.RunWithContext(ctx) })
	return started
}

// noWatchList says that the stand-in has no streaming lists.
type noWatchList struct{ toolscache.ListerWatcher }

// IsWatchListSemanticsUnSupported is looked for by client-go's reflector.
func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

func informer(c *cluster, object client.Object, list func() client.ObjectList) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(noWatchList{&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			found := list()
			return found, c.List(ctx, found)
		},
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.watch(kindOf(object), options.ResourceVersion), nil
		},
	}}, object, 0, toolscache.Indexers{})
}

// WaitForCacheSync waits until the informers have seen all objects.
func (c *caches) WaitForCacheSync(ctx context.Context) bool {
	return toolscache.WaitForCacheSync(ctx.Done(), c.nodes.HasSynced, c.services.HasSynced)
}

// Start blocks like Start of a real cache.
func (c *caches) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// cachedClient writes to the cluster and reads from the informers, as the client of a manager does.
type cachedClient struct {
	*cluster
	caches *caches
}

func (c cachedClient) Get(ctx context.Context, name client.ObjectKey, into client.Object, options ...client.GetOption) error {
	var store toolscache.Store
	switch into.(type) {
	case *corev1.Node:
		store = c.caches.nodes.GetStore()
	case *corev1.Service:
		store = c.caches.services.GetStore()
	default:
		return c.cluster.Get(ctx, name, into, options...)
	}
	key := toolscache.NewObjectName(name.Namespace, name.Name).String()
	found, exists, err := store.GetByKey(key)
	if err != nil || !exists {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kindOf(into)}, name.Name)
	}
	copyInto(found.(client.Object), into)
	return nil
}

func (c cachedClient) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	switch list := list.(type) {
	case *corev1.NodeList:
		for _, object := range c.caches.nodes.GetStore().List() {
			if node := object.(*corev1.Node); asked.UnsafeDisableDeepCopy != nil && *asked.UnsafeDisableDeepCopy {
				list.Items = append(list.Items, *node)
			} else {
				list.Items = append(list.Items, *node.DeepCopy())
			}
		}
	case *corev1.ServiceList:
		for _, object := range c.caches.services.GetStore().List() {
			list.Items = append(list.Items, *object.(*corev1.Service).DeepCopy())
		}
	}
	return nil
}
