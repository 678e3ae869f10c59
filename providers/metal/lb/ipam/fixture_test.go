package ipam

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// apiServer holds Services, and every state that they ever were in, so caches may lag behind.
type apiServer struct {
	now      map[string]*corev1.Service // by name; what is in it is never changed
	versions []map[string]*corev1.Service
	created  int
}

func newAPIServer() *apiServer {
	return &apiServer{now: map[string]*corev1.Service{}, versions: []map[string]*corev1.Service{{}}}
}

// write puts a Service, or takes it away, as one revision.
func (a *apiServer) write(name string, service *corev1.Service) {
	a.now = maps.Clone(a.now)
	if service == nil {
		delete(a.now, name)
	} else {
		service.ResourceVersion = strconv.Itoa(len(a.versions))
		a.now[name] = service
	}
	a.versions = append(a.versions, a.now)
}

// create makes a Service with a new UID, even if one of its name was there.
func (a *apiServer) create(name string, edits ...func(*corev1.Service)) *corev1.Service {
	a.created++
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(fmt.Sprintf("%s-%d", name, a.created)), Annotations: map[string]string{},
			CreationTimestamp: metav1.NewTime(time.Unix(int64(a.created), 0)),
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
	}
	for _, edit := range edits {
		edit(service)
	}
	a.write(name, service)
	return service
}

// change edits a Service that is there.
func (a *apiServer) change(name string, edit func(*corev1.Service)) {
	if service, found := a.now[name]; found {
		service = service.DeepCopy()
		edit(service)
		a.write(name, service)
	}
}

// delete deletes a Service, which stays as long as it has a finalizer.
func (a *apiServer) delete(name string) {
	switch service := a.now[name]; {
	case service == nil:
	case len(service.Finalizers) == 0:
		a.write(name, nil)
	case service.DeletionTimestamp.IsZero():
		a.change(name, func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
	}
}

// client is a clientset that lists Services as they are now.
func (a *apiServer) client() *fake.Clientset {
	client := &fake.Clientset{}
	client.AddReactor("list", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list := &corev1.ServiceList{}
		name, one := action.(clienttesting.ListAction).GetListRestrictions().Fields.RequiresExactMatch("metadata.name")
		for _, service := range a.now {
			if !one || service.Name == name {
				list.Items = append(list.Items, *service)
			}
		}
		return true, list, nil
	})
	client.AddReactor("get", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.GetAction).GetName()
		return true, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels.Set{"name": name}}}, nil
	})
	return client
}

// reader is a cache of the API server that shows the Services as they were at a revision.
type reader struct {
	api *apiServer
	at  int
	// handler is called with what changes, as an informer calls its handlers.
	handler cache.ResourceEventHandler
}

// follow moves the reader on to a revision, in one step: like a watch if it is the next one, and like a new list if it is not.
func (r *reader) follow(to int) {
	if to <= r.at || to >= len(r.api.versions) {
		return
	}
	before, after := r.api.versions[r.at], r.api.versions[to]
	skipped := to-r.at > 1
	r.at = to
	if r.handler == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		was, is := before[name], after[name]
		switch {
		case is != nil && is.UID == was.UID && is != was:
			r.handler.OnUpdate(was, is)
		case is == nil || is.UID != was.UID:
			r.delete(was, skipped)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if was := before[name]; was == nil || was.UID != after[name].UID {
			r.handler.OnAdd(after[name], false)
		}
	}
}

// catchUp moves the reader on to now, one revision after the other.
func (r *reader) catchUp() {
	for r.at < len(r.api.versions)-1 {
		r.follow(r.at + 1)
	}
}

func (r *reader) delete(was *corev1.Service, skipped bool) {
	if skipped {
		r.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: was.Namespace + "/" + was.Name, Obj: was})
		return
	}
	r.handler.OnDelete(was)
}

// begin calls a handler with everything that the reader holds.
func (r *reader) begin(handler cache.ResourceEventHandler) {
	r.handler = handler
	for _, service := range r.api.versions[r.at] {
		handler.OnAdd(service, true)
	}
}

// informer stands for a watch that a test moves on by itself.
type informer struct {
	cache.SharedIndexInformer
	reader *reader
}

type registration struct {
	cache.ResourceEventHandlerRegistration
}

func (i informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.reader.begin(handler)
	return registration{}, nil
}

func (i informer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }

// leader is a process that leads: a Allocator whose watch lags behind, and a controller whose cache does.
type leader struct {
	*Allocator
	allocations *allocations
	api         *apiServer
	watch       *reader
	cache       *reader
	recorder    *record.FakeRecorder
	retried     []types.NamespacedName
	made        map[string]*madeFor
	written     map[string]*corev1.Service
	removed     map[types.UID]bool
}

// madeFor is what the controller remembers to have ensured.
type madeFor struct {
	service *corev1.Service
	status  *corev1.LoadBalancerStatus // nil: the last attempt failed
}

// newLeading returns an allocator that leads.
func newLeading(pools []config.Pool, registerer prometheus.Registerer, sources Sources) (*Allocator, error) {
	a, err := New(pools, registerer)
	if err != nil {
		return nil, err
	}
	return a, a.Lead(sources)
}

// lead begins to lead, with caches as of some revision.
func lead(api *apiServer, pools []config.Pool, watchAt, cacheAt int) (*leader, error) {
	l := &leader{
		api: api, watch: &reader{api: api, at: watchAt}, cache: &reader{api: api, at: cacheAt}, recorder: record.NewFakeRecorder(10_000),
		made: map[string]*madeFor{}, written: map[string]*corev1.Service{}, removed: map[types.UID]bool{},
	}
	var err error
	l.Allocator, err = newLeading(pools, nil, Sources{
		Client: api.client(), Services: informer{reader: l.watch}, Recorder: l.recorder,
	})
	if err != nil {
		return nil, err
	}
	l.setRetry(func(key types.NamespacedName) { l.retried = append(l.retried, key) })
	l.allocations = l.open()
	l.watch.begin(l.handler(l.allocations))
	l.Allocator.load(context.Background(), l.allocations)
	return l, nil
}

// newest returns the Service as the controller knows it.
func (l *leader) newest(name string) *corev1.Service {
	cached, written := l.api.versions[l.cache.at][name], l.written[name]
	if written != nil && (cached == nil || written.UID == cached.UID && newer(written.ResourceVersion, cached.ResourceVersion)) {
		if cached != nil {
			return written
		}
	}
	return cached
}

// step does the next thing that the controller has to do for a Service: one call or one write. It returns false if there is
// nothing to do, and the error of a call.
func (l *leader) step(name string) (bool, error) {
	service, made := l.newest(name), l.made[name]
	if made != nil && (service == nil || service.UID != made.service.UID) {
		delete(l.made, name)
		return true, l.EnsureLoadBalancerDeleted(context.Background(), "", made.service)
	}
	switch {
	case service == nil:
		return false, nil
	case service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.DeletionTimestamp.IsZero():
		return l.provide(name, service, made)
	case len(service.Finalizers) > 0 || made != nil:
		return l.withdraw(name, service)
	default:
		return false, nil
	}
}

func (l *leader) provide(name string, service *corev1.Service, made *madeFor) (bool, error) {
	switch {
	case len(service.Finalizers) == 0:
		return l.patch(name, service, func(s *corev1.Service) {
			if s.DeletionTimestamp.IsZero() {
				s.Finalizers = []string{"x"}
			}
		}), nil
	case made == nil || made.status == nil || !sameInputs(made.service, service):
		delete(l.removed, service.UID)
		ctx := provider.WithClusterUID(context.Background(), "cluster")
		status, err := l.EnsureLoadBalancer(ctx, "", service, nil)
		if status == nil && err == nil {
			err = errors.New("neither a status nor an error")
		}
		l.made[name] = &madeFor{service, status}
		return true, err
	case !sameStatus(made.status, service):
		return l.patch(name, service, func(s *corev1.Service) {
			if s.Spec.Type == corev1.ServiceTypeLoadBalancer { // the API server takes no addresses for others
				s.Status.LoadBalancer = *made.status
			}
		}), nil
	default:
		return false, nil
	}
}

func (l *leader) withdraw(name string, service *corev1.Service) (bool, error) {
	if !l.removed[service.UID] {
		delete(l.made, name)
		l.removed[service.UID] = true
		return true, l.EnsureLoadBalancerDeleted(context.Background(), "", service)
	}
	return l.patch(name, service, func(s *corev1.Service) {
		s.Finalizers, s.Status.LoadBalancer = nil, corev1.LoadBalancerStatus{}
	}), nil
}

// patch writes to the Service that is meant, if it is still there.
func (l *leader) patch(name string, meant *corev1.Service, edit func(*corev1.Service)) bool {
	live := l.api.now[name]
	if live == nil || live.UID != meant.UID {
		return false
	}
	l.api.change(name, edit)
	written := l.api.now[name]
	if len(written.Finalizers) == 0 && !written.DeletionTimestamp.IsZero() {
		l.api.write(name, nil)
	}
	l.written[name] = written
	return true
}

func sameInputs(a, b *corev1.Service) bool {
	return maps.Equal(a.Annotations, b.Annotations) && slices.Equal(a.Spec.IPFamilies, b.Spec.IPFamilies) && a.Spec.Type == b.Spec.Type
}

func sameStatus(status *corev1.LoadBalancerStatus, service *corev1.Service) bool {
	return slices.Equal(shownBy(&corev1.Service{Status: corev1.ServiceStatus{LoadBalancer: *status}}), shownBy(service))
}

// parse reads addresses.
func parse(texts ...string) []netip.Addr {
	var result []netip.Addr
	for _, text := range texts {
		result = append(result, netip.MustParseAddr(text))
	}
	return result
}
