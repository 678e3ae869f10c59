package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// suffixLength and suffixLetters are those of k8s.io/apiserver/pkg/storage/names.
const (
	suffixLength  = 5
	suffixLetters = "bcdfghjklmnpqrstvwxz2456789"
	maxPrefix     = 63 - suffixLength
)

// create stores a new object. The lock is held, or no client knows the server yet.
func (s *Server) create(c *call, object runtime.Object) answer {
	t, about := s.table(c.resource), mustMeta(object)
	if err := s.placeInNamespace(c, about); err != nil {
		return failed(err)
	}
	versioned := about.GetResourceVersion() != ""
	about.SetResourceVersion("")
	about.SetDeletionTimestamp(nil)
	about.SetDeletionGracePeriodSeconds(nil)
	about.SetSelfLink("")
	about.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	if prefix := about.GetGenerateName(); prefix != "" && about.GetName() == "" {
		about.SetName(s.generateName(t, about.GetNamespace(), prefix))
	}
	key := objectKey{about.GetNamespace(), about.GetName()}
	about.SetUID(s.uid(t, key))
	about.SetGeneration(0)
	if err := s.own(c, t.resource.make(), object); err != nil {
		return failed(err)
	}
	if prepare := t.resource.rules.prepareCreate; prepare != nil {
		prepare(c, object)
	}
	if _, ok := object.(*discoveryv1.EndpointSlice); ok {
		about.SetGeneration(1)
	}
	if err := s.admitCreate(object); err != nil {
		return failed(err)
	}
	if errs := t.validateCreate(c.resource, object); len(errs) > 0 {
		return failed(apierrors.NewInvalid(t.resource.GroupKind(), about.GetName(), errs))
	}
	if err := s.namespaceOpen(c, about.GetNamespace()); err != nil {
		return failed(err)
	}
	if versioned {
		return failed(internal("resourceVersion should not be set on objects to be created"))
	}
	if _, taken := t.objects[key]; taken {
		return failed(apierrors.NewAlreadyExists(c.resource.groupResource(), about.GetName()))
	}
	if c.dryRun() {
		return answer{object: served(c.resource, object), code: http.StatusCreated}
	}
	made := s.store(t, object, nil, false)
	return answer{entry: made, code: http.StatusCreated, after: made.object, changed: true}
}

// admitCreate does what admission and allocators do.
func (s *Server) admitCreate(object runtime.Object) error {
	switch object := object.(type) {
	case *corev1.Node:
		taintNotReady(object)
	case *corev1.Service:
		return s.allocate(object, nil)
	}
	return nil
}

// placeInNamespace puts an object into the namespace of the request.
func (s *Server) placeInNamespace(c *call, about metav1.Object) error {
	namespace := c.Namespace
	if !c.resource.namespaced {
		namespace = ""
	}
	switch about.GetNamespace() {
	case namespace:
	case "":
		about.SetNamespace(namespace)
	default:
		if namespace == "" {
			return apierrors.NewBadRequest("namespace may not be set on a cluster-scoped object")
		}
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// namespaceOpen refuses creations in a namespace that does not exist or goes.
func (s *Server) namespaceOpen(c *call, name string) error {
	if !c.resource.namespaced {
		return nil
	}
	found, ok := s.tables["/namespaces"].objects[objectKey{name: name}]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
	}
	if found.object.(*corev1.Namespace).DeletionTimestamp != nil {
		err := apierrors.NewForbidden(c.resource.groupResource(), c.Name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", name))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", name), Field: "metadata.namespace"}}
		return err
	}
	return nil
}

func (s *Server) generateName(t *table, namespace, prefix string) string {
	if len(prefix) > maxPrefix {
		prefix = prefix[:maxPrefix]
	}
	for {
		number, suffix := s.draw("name"+t.resource.key()+"/"+namespace+"/"+prefix), make([]byte, suffixLength)
		for i := range suffix {
			suffix[i] = suffixLetters[number%uint64(len(suffixLetters))]
			number /= uint64(len(suffixLetters))
		}
		if _, taken := t.objects[objectKey{namespace, prefix + string(suffix)}]; !taken {
			return prefix + string(suffix)
		}
	}
}

// update replaces an object, or creates it where its kind allows that.
func (s *Server) update(c *call) answer {
	object, err := c.decode()
	if err != nil {
		return failed(err)
	}
	if err := c.checkName(mustMeta(object)); err != nil {
		return failed(err)
	}
	if err := s.placeInNamespace(c, mustMeta(object)); err != nil {
		return failed(err)
	}
	before, ok := s.table(c.resource).objects[objectKey{c.Namespace, c.Name}]
	if !ok {
		if !c.resource.createByUpdate {
			return failed(apierrors.NewNotFound(c.resource.groupResource(), c.Name))
		}
		if uid := mustMeta(object).GetUID(); uid != "" {
			return failed(apierrors.NewConflict(c.resource.groupResource(), c.Name, fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: ", uid)))
		}
		mustMeta(object).SetResourceVersion("")
		return s.create(c, object)
	}
	if uid := mustMeta(object).GetUID(); uid != "" && uid != before.meta.GetUID() {
		return failed(apierrors.NewConflict(c.resource.groupResource(), c.Name,
			fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: %v", uid, before.meta.GetUID())))
	}
	return s.replace(c, before, object)
}

func (c *call) checkName(about metav1.Object) error {
	switch about.GetName() {
	case c.Name:
		return nil
	case "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", c.Name))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", about.GetName(), c.Name))
}

// errOptimisticLock is what the API server says of a write with an old version.
var errOptimisticLock = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// replace stores a new version of an object if something changes.
func (s *Server) replace(c *call, before *entry, object runtime.Object) answer {
	t, about := s.table(c.resource), mustMeta(object)
	if err := s.own(c, before.object, object); err != nil {
		return failed(err)
	}
	switch version := about.GetResourceVersion(); {
	case (version == "" || version == "0") && t.resource.conditional:
		return failed(apierrors.NewInvalid(schema.GroupKind{Group: c.resource.Group, Kind: c.resource.name}, c.Name,
			field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")}))
	case version == "" || version == "0":
	default:
		if _, err := parseVersion(version); err != nil {
			return failed(apierrors.NewInternalError(err))
		}
		if version != before.meta.GetResourceVersion() {
			return failed(apierrors.NewConflict(c.resource.groupResource(), c.Name, errOptimisticLock))
		}
	}
	about.SetResourceVersion(before.meta.GetResourceVersion())
	if err := s.prepareUpdate(c, before, object); err != nil {
		return failed(err)
	}
	if errs := t.validateUpdate(c, object, before.object); len(errs) > 0 {
		return failed(apierrors.NewInvalid(t.resource.GroupKind(), about.GetName(), errs))
	}
	if c.dryRun() {
		return answer{object: served(c.resource, object)}
	}
	if about.GetDeletionTimestamp() != nil && len(about.GetFinalizers()) == 0 && gracePassed(about) && gone(object) {
		s.remove(t, before)
		return answer{object: served(c.resource, object), before: before.object, changed: true}
	}
	keepTimes(object, before.object)
	if equality.Semantic.DeepEqual(object, before.object) {
		return answer{entry: before, before: before.object, after: before.object}
	}
	after := s.store(t, object, before, false)
	return answer{entry: after, before: before.object, after: after.object, changed: true}
}

// prepareUpdate puts back what clients may not change.
func (s *Server) prepareUpdate(c *call, before *entry, object runtime.Object) error {
	t, about := s.table(c.resource), mustMeta(object)
	if service, ok := object.(*corev1.Service); ok && c.Subresource == "" {
		if err := s.allocate(service, before.object.(*corev1.Service)); err != nil {
			return err
		}
	}
	about.SetGeneration(before.meta.GetGeneration())
	if prepare := t.resource.rules.prepareUpdate; prepare != nil {
		prepare(c.Subresource, object, before.object)
	}
	if about.GetUID() == "" {
		about.SetUID(before.meta.GetUID())
	}
	about.SetCreationTimestamp(before.meta.GetCreationTimestamp())
	if before.meta.GetDeletionTimestamp() != nil {
		about.SetDeletionTimestamp(before.meta.GetDeletionTimestamp())
	}
	if grace := before.meta.GetDeletionGracePeriodSeconds(); grace != nil && about.GetDeletionGracePeriodSeconds() == nil {
		about.SetDeletionGracePeriodSeconds(grace)
	}
	if slice, ok := object.(*discoveryv1.EndpointSlice); ok {
		old := before.object.(*discoveryv1.EndpointSlice)
		same := *slice
		same.ObjectMeta = old.ObjectMeta
		if !equality.Semantic.DeepEqual(&same, old) || !equality.Semantic.DeepEqual(slice.Labels, old.Labels) {
			slice.Generation = old.Generation + 1
		}
	}
	return nil
}

func gracePassed(about metav1.Object) bool {
	return about.GetDeletionGracePeriodSeconds() == nil || *about.GetDeletionGracePeriodSeconds() == 0
}

// gone says that nothing but metadata keeps an object.
func gone(object runtime.Object) bool {
	namespace, ok := object.(*corev1.Namespace)
	return !ok || len(namespace.Spec.Finalizers) == 0
}

// remove drops an object. Watches see its last stored state with a new version, as etcd has it.
func (s *Server) remove(t *table, before *entry) *entry {
	return s.store(t, before.object.DeepCopyObject(), before, true)
}

// delete removes an object, or marks it as being deleted while something waits for it.
func (s *Server) delete(c *call) answer {
	options, err := c.deleteOptions()
	if err != nil {
		return failed(err)
	}
	if errs := metavalidation.ValidateDeleteOptions(options); len(errs) > 0 {
		return failed(apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs))
	}
	t := s.table(c.resource)
	before, ok := t.objects[objectKey{c.Namespace, c.Name}]
	if !ok {
		return failed(apierrors.NewNotFound(c.resource.groupResource(), c.Name))
	}
	if err := preconditions(t.resource, before, options.Preconditions); err != nil {
		return failed(err)
	}
	object := before.object.DeepCopyObject()
	about := mustMeta(object)
	grace := gracePeriod(object, options)
	finalizers := about.GetFinalizers()
	if _, ok := object.(*corev1.Event); !ok { // which no garbage collector looks at
		finalizers = propagate(finalizers, options)
	}
	about.SetFinalizers(finalizers)
	if grace == 0 && len(finalizers) == 0 && gone(object) {
		if c.dryRun() {
			return answer{object: deletedStatus(c.resource, before)}
		}
		last := s.remove(t, before)
		result := answer{object: deletedStatus(c.resource, before), before: before.object, changed: true}
		if returnsDeleted[c.resource.name] {
			result.object, result.entry = nil, last
		}
		return result
	}
	markDeleted(object, grace)
	if c.dryRun() {
		return answer{object: served(c.resource, object)}
	}
	if equality.Semantic.DeepEqual(object, before.object) {
		return answer{entry: before, before: before.object, after: before.object}
	}
	after := s.store(t, object, before, false)
	return answer{entry: after, before: before.object, after: after.object, changed: true}
}

// markDeleted sets what says that an object is being deleted.
func markDeleted(object runtime.Object, grace int64) {
	about := mustMeta(object)
	if about.GetDeletionTimestamp() != nil && (grace == 0) == (about.GetDeletionGracePeriodSeconds() == nil || *about.GetDeletionGracePeriodSeconds() == 0) {
		return
	}
	if about.GetDeletionTimestamp() == nil && about.GetGeneration() > 0 {
		about.SetGeneration(about.GetGeneration() + 1)
	}
	when := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second).Truncate(time.Second))
	about.SetDeletionTimestamp(&when)
	about.SetDeletionGracePeriodSeconds(&grace)
	if namespace, ok := object.(*corev1.Namespace); ok {
		namespace.Status.Phase = corev1.NamespaceTerminating
		about.SetDeletionGracePeriodSeconds(nil)
	}
}

// returnsDeleted are the resources whose deletion answers with the object.
var returnsDeleted = map[string]bool{"services": true, "pods": true, "serviceaccounts": true, "namespaces": true}

func deletedStatus(resource *resource, before *entry) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: before.meta.GetName(), Group: resource.Group, Kind: resource.name, UID: before.meta.GetUID()},
	}
}

func preconditions(resource *resource, before *entry, wanted *metav1.Preconditions) error {
	if wanted == nil {
		return nil
	}
	// The API server names the kind here, not the resource.
	named := schema.GroupResource{Group: resource.Group, Resource: resource.Kind}
	if uid := before.meta.GetUID(); wanted.UID != nil && *wanted.UID != uid {
		return apierrors.NewConflict(named, before.meta.GetName(), fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *wanted.UID, uid))
	}
	if version := before.meta.GetResourceVersion(); wanted.ResourceVersion != nil && *wanted.ResourceVersion != version {
		return apierrors.NewConflict(named, before.meta.GetName(), fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *wanted.ResourceVersion, version))
	}
	return nil
}

// defaultGrace is what a pod gets to end if nothing else says how long.
const defaultGrace = 30

// gracePeriod is how many seconds a kubelet gets to end a pod. Other objects have none.
func gracePeriod(object runtime.Object, options *metav1.DeleteOptions) int64 {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return 0
	}
	grace := int64(defaultGrace)
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	if options.GracePeriodSeconds != nil {
		grace = *options.GracePeriodSeconds
	}
	if pod.DeletionGracePeriodSeconds != nil {
		grace = min(grace, *pod.DeletionGracePeriodSeconds)
	}
	return max(grace, 0)
}

// propagate adds or removes the finalizers by which the garbage collector takes part in a deletion.
func propagate(finalizers []string, options *metav1.DeleteOptions) []string {
	wanted := ""
	switch policy := options.PropagationPolicy; {
	case policy != nil && *policy == metav1.DeletePropagationForeground:
		wanted = metav1.FinalizerDeleteDependents
	case policy != nil && *policy == metav1.DeletePropagationOrphan:
		wanted = metav1.FinalizerOrphanDependents
	case policy == nil:
		return finalizers
	}
	kept := slices.DeleteFunc(slices.Clone(finalizers), func(name string) bool {
		return name == metav1.FinalizerDeleteDependents || name == metav1.FinalizerOrphanDependents
	})
	if wanted != "" {
		kept = append(kept, wanted)
	}
	return kept
}

// Evict removes an object as no client can: without finalizers and grace, as when etcd lost it.
func (s *Server) Evict(group, version, name string, object types.NamespacedName) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := resourceOf(group, version, name)
	if resource == nil {
		return fmt.Errorf("the server has no resource %s in %s/%s", name, group, version)
	}
	t := s.table(resource)
	before, ok := t.objects[objectKey{object.Namespace, object.Name}]
	if !ok {
		return fmt.Errorf("there is no %s %s at version %s", name, object, strconv.FormatInt(s.version, 10))
	}
	s.remove(t, before)
	return nil
}
