package virtual

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/dev/scenariotest"
)

// cluster stands in for the API server, which no bubble of virtual time can contain. It keeps the rules that the controllers rest on:
// versions that increase, preconditions of deletions and patches, finalizers, no status by a write of the object and no spec by one of
// its status, and watches that show all of it in its order. What the real one does is tested in dev/integration.
//
// See ADR 9.
type cluster struct {
	client.Client // nil: a call that is not expected here ends the test

	mu      sync.Mutex
	version int
	objects map[objectKey]client.Object
	watches map[*watcher]bool
	// writes is how often each object was written by a controller, not by the test.
	writes map[objectKey]int
}

// objectKey identifies an object.
type objectKey struct {
	kind string
	name types.NamespacedName
}

func newCluster() *cluster {
	return &cluster{objects: map[objectKey]client.Object{}, watches: map[*watcher]bool{}, writes: map[objectKey]int{}}
}

func kindOf(object runtime.Object) string {
	if metadata, partial := object.(*metav1.PartialObjectMetadata); partial {
		return metadata.Kind
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return err.Error() // of which there is no object
	}
	return kinds[0].Kind
}

func keyOf(object client.Object) objectKey {
	return objectKey{kind: kindOf(object), name: client.ObjectKeyFromObject(object)}
}

// resource is what the API server's errors name as the kind.
func (k objectKey) resource() schema.GroupResource {
	return corev1.Resource(strings.ToLower(k.kind) + "s")
}

// copyInto makes one object a copy of another one of its kind.
func copyInto(from, into client.Object) {
	switch into := into.(type) {
	case *metav1.PartialObjectMetadata:
		into.SetName(from.GetName()) // who asks for it only wants to know whether there is one
	case *corev1.Node:
		from.(*corev1.Node).DeepCopyInto(into)
	case *corev1.Service:
		from.(*corev1.Service).DeepCopyInto(into)
	case *corev1.Namespace:
		from.(*corev1.Namespace).DeepCopyInto(into)
	}
}

// Get reads from the server.
func (c *cluster) Get(_ context.Context, name client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := objectKey{kind: kindOf(into), name: name}
	object, found := c.objects[key]
	if !found {
		return apierrors.NewNotFound(key.resource(), name.Name)
	}
	copyInto(object, into)
	return nil
}

// List reads from the server.
func (c *cluster) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, object := range c.objects {
		appendTo(list, object)
	}
	list.SetResourceVersion(strconv.Itoa(c.version))
	return nil
}

// appendTo adds a copy of an object to a list if it is of its kind.
func appendTo(list client.ObjectList, object client.Object) {
	switch list := list.(type) {
	case *corev1.NodeList:
		if node, ok := object.(*corev1.Node); ok {
			list.Items = append(list.Items, *node.DeepCopy())
		}
	case *corev1.ServiceList:
		if service, ok := object.(*corev1.Service); ok {
			list.Items = append(list.Items, *service.DeepCopy())
		}
	}
}

// put creates or replaces an object, as another client does.
func (c *cluster) put(object client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if object.GetUID() == "" {
		object.SetUID(types.UID(fmt.Sprintf("uid-%d", c.version+1)))
	}
	if stamp := object.GetCreationTimestamp(); stamp.IsZero() {
		object.SetCreationTimestamp(metav1.Now())
	}
	c.store(object)
}

// change changes a node as another client does, such as its kubelet.
func (c *cluster) change(name string, change func(*corev1.Node)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := objectKey{kind: "Node", name: types.NamespacedName{Name: name}}
	if before, found := c.objects[key]; found {
		after := before.DeepCopyObject().(*corev1.Node)
		change(after)
		c.store(after)
	}
}

// remove asks for the deletion of an object, as a user does.
func (c *cluster) remove(object client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(object)
	current, found := c.objects[key]
	if !found {
		return
	}
	if len(current.GetFinalizers()) > 0 {
		now := metav1.Now()
		current = current.DeepCopyObject().(client.Object)
		current.SetDeletionTimestamp(&now)
		c.store(current)
		return
	}
	c.drop(key, current)
}

// store puts an object in its place with a new version. One that waits only for its finalizers goes. The lock is held.
func (c *cluster) store(object client.Object) {
	key := keyOf(object)
	before, found := c.objects[key]
	c.version++
	object.SetResourceVersion(strconv.Itoa(c.version))
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		c.drop(key, object)
		return
	}
	c.objects[key] = object
	kind := watch.Added
	if found && before.GetUID() == object.GetUID() {
		kind = watch.Modified
	}
	c.send(key.kind, watch.Event{Type: kind, Object: object})
}

// drop removes an object. The lock is held.
func (c *cluster) drop(key objectKey, last client.Object) {
	c.version++
	last = last.DeepCopyObject().(client.Object)
	last.SetResourceVersion(strconv.Itoa(c.version))
	delete(c.objects, key)
	c.send(key.kind, watch.Event{Type: watch.Deleted, Object: last})
}

// Delete deletes an object if it is the one that its preconditions name.
func (c *cluster) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(object)
	current, found := c.objects[key]
	if !found {
		return apierrors.NewNotFound(key.resource(), key.name.Name)
	}
	asked := (&client.DeleteOptions{}).ApplyOptions(options)
	if wants := asked.Preconditions; wants != nil {
		if wants.UID != nil && *wants.UID != current.GetUID() || wants.ResourceVersion != nil && *wants.ResourceVersion != current.GetResourceVersion() {
			return apierrors.NewConflict(key.resource(), key.name.Name, errors.New("it is not the object that the request is about"))
		}
	}
	c.writes[key]++
	c.drop(key, current)
	return nil
}

// Patch writes all of an object but its status.
func (c *cluster) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return c.patch(object, patch, false)
}

// Status writes the status and the metadata of an object.
func (c *cluster) Status() client.SubResourceWriter { return statusWriter{cluster: c} }

type statusWriter struct {
	client.SubResourceWriter
	cluster *cluster
}

func (w statusWriter) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return w.cluster.patch(object, patch, true)
}

func (c *cluster) patch(object client.Object, patch client.Patch, status bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(object)
	before, found := c.objects[key]
	if !found {
		return apierrors.NewNotFound(key.resource(), key.name.Name)
	}
	after, err := patched(before, object, patch, status)
	if err != nil { // as the API server answers when a test of a JSON patch fails: without details
		return apierrors.NewGenericServerResponse(422, "patch", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	if after.GetUID() != before.GetUID() || after.GetResourceVersion() != before.GetResourceVersion() {
		return apierrors.NewConflict(key.resource(), key.name.Name, errors.New("it is not the object that the request is about"))
	}
	if !equality.Semantic.DeepEqual(before, after) {
		c.writes[key]++
		c.store(after)
	}
	copyInto(after, object)
	return nil
}

// patched returns what becomes of an object by a patch.
func patched(before, object client.Object, patch client.Patch, status bool) (client.Object, error) {
	switch before := before.(type) {
	case *corev1.Node:
		after, err := scenariotest.Patched(before, object, patch)
		if err == nil && status {
			after.Spec = before.Spec
		} else if err == nil {
			after.Status = before.Status
		}
		return after, err
	case *corev1.Service:
		after, err := scenariotest.Patched(before, object, patch)
		if err == nil && status {
			after.Spec = before.Spec
		} else if err == nil {
			after.Status = before.Status
		}
		return after, err
	default:
		return nil, fmt.Errorf("no patches of %T", before)
	}
}

// written returns how often controllers have written an object of a kind.
func (c *cluster) written(kind, namespace, name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes[objectKey{kind: kind, name: types.NamespacedName{Namespace: namespace, Name: name}}]
}

// node returns a node, or nil if there is no such node.
func (c *cluster) node(name string) *corev1.Node {
	node := &corev1.Node{}
	if c.Get(context.Background(), client.ObjectKey{Name: name}, node) != nil {
		return nil
	}
	return node
}

// service returns a Service of the namespace default, or nil if there is no such Service.
func (c *cluster) service(name string) *corev1.Service {
	service := &corev1.Service{}
	if c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, service) != nil {
		return nil
	}
	return service
}
