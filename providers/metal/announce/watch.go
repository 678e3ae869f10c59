package announce

import (
	"fmt"
	"maps"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mooring-ccm/mooring/providers/metal/announce/model"
)

// world is what the API server has said so far, reduced to what decides. When the API server is away it stays as it is.
type world struct {
	ownsNode    func(*corev1.Node) bool
	ownsService func(*corev1.Service) bool
	// changed has room for one.
	changed chan struct{}
	synced  []cache.InformerSynced
	// listNodes and listServices read the caches.
	listNodes    corelisters.NodeLister
	listServices corelisters.ServiceLister

	mu        sync.Mutex
	nodes     map[string]model.Node
	services  map[types.NamespacedName]model.Service
	slices    map[types.NamespacedName]map[string]endpointSlice
	endpoints map[types.NamespacedName]model.ByFamily
}

// watch follows nodes, Services and EndpointSlices. The informers must not have been started.
func watch(factory informers.SharedInformerFactory, ownsNode func(*corev1.Node) bool,
	ownsService func(*corev1.Service) bool) (*world, error) {
	w := &world{
		ownsNode: ownsNode, ownsService: ownsService, changed: make(chan struct{}, 1),
		nodes: map[string]model.Node{}, services: map[types.NamespacedName]model.Service{},
		slices: map[types.NamespacedName]map[string]endpointSlice{}, endpoints: map[types.NamespacedName]model.ByFamily{},
		listNodes: factory.Core().V1().Nodes().Lister(), listServices: factory.Core().V1().Services().Lister(),
	}
	for _, informer := range []struct {
		kind     string
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{"nodes", factory.Core().V1().Nodes().Informer(), handler(w.setNode, w.deleteNode)},
		{"Services", factory.Core().V1().Services().Informer(), handler(w.setService, w.deleteService)},
		{"EndpointSlices", factory.Discovery().V1().EndpointSlices().Informer(), handler(w.setSlice, w.deleteSlice)},
	} {
		if err := informer.informer.SetTransform(reduced); err != nil {
			return nil, fmt.Errorf("watching %s: %w", informer.kind, err)
		}
		registration, err := informer.informer.AddEventHandler(informer.handler)
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", informer.kind, err)
		}
		w.synced = append(w.synced, registration.HasSynced)
	}
	return w, nil
}

// reduced drops what takes room in a cache and decides nothing.
func reduced(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	switch object := object.(type) {
	case *corev1.Node:
		object.Status.Images = nil
	case *discoveryv1.EndpointSlice:
		for i := range object.Endpoints {
			endpoint := &object.Endpoints[i]
			object.Endpoints[i] = discoveryv1.Endpoint{Conditions: endpoint.Conditions, NodeName: endpoint.NodeName}
		}
	}
	return object, nil
}

// handler makes a handler of two functions; an update is a new state like any.
func handler[T any](set, remove func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if object, ok := object.(T); ok {
				set(object)
			}
		},
		UpdateFunc: func(_, object any) {
			if object, ok := object.(T); ok {
				set(object)
			}
		},
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if object, ok := object.(T); ok {
				remove(object)
			}
		},
	}
}

// review asks anew which nodes and Services are of ours: that may follow from the config. Each object is read with the lock held: a
// handler that comes later has nothing older.
func (w *world) review() {
	w.mu.Lock()
	defer w.mu.Unlock()
	nodes, _ := w.listNodes.List(labels.Everything()) // a cache has no errors
	for _, node := range nodes {
		w.putNode(node)
	}
	services, _ := w.listServices.List(labels.Everything())
	for _, service := range services {
		w.putService(service)
	}
}

func (w *world) setNode(object *corev1.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.putNode(object)
}

// putNode is called with the lock held.
func (w *world) putNode(object *corev1.Node) {
	if !w.ownsNode(object) {
		w.forgetNode(object.Name)
		return
	}
	node := nodeOf(object)
	if known, found := w.nodes[node.Name]; !found || !reflect.DeepEqual(known, node) { // heartbeats change nothing
		w.nodes[node.Name] = node
		w.signal()
	}
}

func (w *world) deleteNode(object *corev1.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetNode(object.Name)
}

// forgetNode is called with the lock held.
func (w *world) forgetNode(name string) {
	if _, found := w.nodes[name]; found {
		delete(w.nodes, name)
		w.signal()
	}
}

func (w *world) setService(object *corev1.Service) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.putService(object)
}

// putService is called with the lock held.
func (w *world) putService(object *corev1.Service) {
	service, has := serviceOf(object)
	if !has || !w.ownsService(object) {
		w.forgetService(keyOf(object.Namespace, object.Name))
		return
	}
	if known, found := w.services[service.Key]; !found || !reflect.DeepEqual(known, service) {
		w.services[service.Key] = service
		w.signal()
	}
}

func (w *world) deleteService(object *corev1.Service) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetService(keyOf(object.Namespace, object.Name))
}

// forgetService is called with the lock held.
func (w *world) forgetService(key types.NamespacedName) {
	if _, found := w.services[key]; found {
		delete(w.services, key)
		w.signal()
	}
}

func (w *world) setSlice(object *discoveryv1.EndpointSlice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slice, usable := sliceOf(object)
	if !usable {
		w.forgetSlice(keyOf(object.Namespace, object.Labels[discoveryv1.LabelServiceName]), object.Name)
		return
	}
	of := w.slices[slice.service]
	if of == nil {
		of = map[string]endpointSlice{}
		w.slices[slice.service] = of
	}
	if known, found := of[object.Name]; !found || !reflect.DeepEqual(known, slice) {
		of[object.Name] = slice
		w.merge(slice.service)
	}
}

func (w *world) deleteSlice(object *discoveryv1.EndpointSlice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetSlice(keyOf(object.Namespace, object.Labels[discoveryv1.LabelServiceName]), object.Name)
}

// forgetSlice is called with the lock held. Nobody moves a slice to another Service: its controller sets the label, and makes a
// new slice for each Service.
func (w *world) forgetSlice(service types.NamespacedName, name string) {
	if _, found := w.slices[service][name]; !found {
		return
	}
	delete(w.slices[service], name)
	if len(w.slices[service]) == 0 {
		delete(w.slices, service)
	}
	w.merge(service)
}

// merge puts the slices of a Service together after one has changed. The lock is held.
func (w *world) merge(service types.NamespacedName) {
	before := w.endpoints[service]
	if w.slices[service] == nil {
		delete(w.endpoints, service)
	} else {
		w.endpoints[service] = merged(w.slices[service])
	}
	if _, ours := w.services[service]; ours && !reflect.DeepEqual(before, w.endpoints[service]) {
		w.signal()
	}
}

func (w *world) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// fill puts what is known into an Input. What is in the maps is not changed any more.
func (w *world) fill(in *Input) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in.Nodes, in.Services = maps.Clone(w.nodes), maps.Clone(w.services)
	in.Endpoints = make(map[types.NamespacedName]model.ByFamily, len(in.Services))
	for key := range in.Services {
		in.Endpoints[key] = w.endpoints[key]
	}
}
