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

	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

// clusterState is what the API server has said so far, reduced to what decides. When the API server is away it stays as it is.
type clusterState struct {
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
	others    map[string]model.Node
	services  map[types.NamespacedName]model.Service
	slices    map[types.NamespacedName]map[string]endpointSlice
	endpoints map[types.NamespacedName]model.ByFamily
}

// watch follows nodes, Services and EndpointSlices. The informers must not have been started.
func watch(factory informers.SharedInformerFactory, ownsNode func(*corev1.Node) bool,
	ownsService func(*corev1.Service) bool) (*clusterState, error) {
	c := &clusterState{
		ownsNode: ownsNode, ownsService: ownsService, changed: make(chan struct{}, 1),
		nodes: map[string]model.Node{}, others: map[string]model.Node{}, services: map[types.NamespacedName]model.Service{},
		slices: map[types.NamespacedName]map[string]endpointSlice{}, endpoints: map[types.NamespacedName]model.ByFamily{},
		listNodes: factory.Core().V1().Nodes().Lister(), listServices: factory.Core().V1().Services().Lister(),
	}
	for _, informer := range []struct {
		kind     string
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{"nodes", factory.Core().V1().Nodes().Informer(), handler(c.setNode, c.deleteNode)},
		{"Services", factory.Core().V1().Services().Informer(), handler(c.setService, c.deleteService)},
		{"EndpointSlices", factory.Discovery().V1().EndpointSlices().Informer(), handler(c.setSlice, c.deleteSlice)},
	} {
		if err := informer.informer.SetTransform(reduced); err != nil {
			return nil, fmt.Errorf("watching %s: %w", informer.kind, err)
		}
		registration, err := informer.informer.AddEventHandler(informer.handler)
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", informer.kind, err)
		}
		c.synced = append(c.synced, registration.HasSynced)
	}
	return c, nil
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

// refilter asks anew which nodes and Services are of ours: that may follow from the config. Each object is read with the lock held: a
// handler that comes later has nothing older.
func (c *clusterState) refilter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes, _ := c.listNodes.List(labels.Everything()) // a cache has no errors
	for _, node := range nodes {
		c.putNode(node)
	}
	services, _ := c.listServices.List(labels.Everything())
	for _, service := range services {
		c.putService(service)
	}
}

func (c *clusterState) setNode(object *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putNode(object)
}

// putNode is called with the lock held.
func (c *clusterState) putNode(object *corev1.Node) {
	node, into, from := nodeOf(object), c.nodes, c.others
	if !c.ownsNode(object) {
		node, into, from = model.Node{Name: node.Name, Addresses: node.Addresses, External: node.External}, from, into
	}
	if known, found := into[node.Name]; !found || !reflect.DeepEqual(known, node) { // heartbeats change nothing
		delete(from, node.Name)
		into[node.Name] = node
		c.signal()
	}
}

func (c *clusterState) deleteNode(object *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.nodes, object.Name)
	delete(c.others, object.Name)
	c.signal()
}

func (c *clusterState) setService(object *corev1.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putService(object)
}

// putService is called with the lock held.
func (c *clusterState) putService(object *corev1.Service) {
	service, has := serviceOf(object)
	if !has || !c.ownsService(object) {
		c.forgetService(keyOf(object.Namespace, object.Name))
		return
	}
	if known, found := c.services[service.Key]; !found || !reflect.DeepEqual(known, service) {
		c.services[service.Key] = service
		c.signal()
	}
}

func (c *clusterState) deleteService(object *corev1.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetService(keyOf(object.Namespace, object.Name))
}

// forgetService is called with the lock held.
func (c *clusterState) forgetService(key types.NamespacedName) {
	if _, found := c.services[key]; found {
		delete(c.services, key)
		c.signal()
	}
}

func (c *clusterState) setSlice(object *discoveryv1.EndpointSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slice, usable := sliceOf(object)
	if !usable {
		c.forgetSlice(keyOf(object.Namespace, object.Labels[discoveryv1.LabelServiceName]), object.Name)
		return
	}
	of := c.slices[slice.service]
	if of == nil {
		of = map[string]endpointSlice{}
		c.slices[slice.service] = of
	}
	if known, found := of[object.Name]; !found || !reflect.DeepEqual(known, slice) {
		of[object.Name] = slice
		c.merge(slice.service)
	}
}

func (c *clusterState) deleteSlice(object *discoveryv1.EndpointSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetSlice(keyOf(object.Namespace, object.Labels[discoveryv1.LabelServiceName]), object.Name)
}

// forgetSlice is called with the lock held. A slice never moves to another Service: the controller of slices sets the label, and makes a
// new slice for each Service.
func (c *clusterState) forgetSlice(service types.NamespacedName, name string) {
	if _, found := c.slices[service][name]; !found {
		return
	}
	delete(c.slices[service], name)
	if len(c.slices[service]) == 0 {
		delete(c.slices, service)
	}
	c.merge(service)
}

// merge puts the slices of a Service together after one has changed. The lock is held.
func (c *clusterState) merge(service types.NamespacedName) {
	before := c.endpoints[service]
	if c.slices[service] == nil {
		delete(c.endpoints, service)
	} else {
		c.endpoints[service] = merged(c.slices[service])
	}
	if _, ours := c.services[service]; ours && !reflect.DeepEqual(before, c.endpoints[service]) {
		c.signal()
	}
}

func (c *clusterState) signal() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// fill puts what is known into an Input. What is in the maps is no longer changed.
func (c *clusterState) fill(in *Input) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in.Nodes, in.Others, in.Services = maps.Clone(c.nodes), maps.Clone(c.others), maps.Clone(c.services)
	in.Endpoints = make(map[types.NamespacedName]model.ByFamily, len(in.Services))
	for key := range in.Services {
		in.Endpoints[key] = c.endpoints[key]
	}
}
