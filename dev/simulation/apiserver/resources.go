package apiserver

import (
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// resource is a row of the table of what the server serves.
type resource struct {
	schema.GroupVersionKind
	name, singular string
	shortNames     []string
	namespaced     bool
	subresources   []string
	// storage names the table of another resource that keeps these objects too.
	storage string
	// virtual resources have no storage: a creation is a question.
	virtual bool
	// createByUpdate lets an update create; conditional demands a version of each update.
	createByUpdate, conditional bool
	rules                       rules
}

// rules are what one kind demands beyond what all have in common. Each may be nil.
type rules struct {
	// defaults are filled in when an object is decoded, before managedFields.
	defaults func(runtime.Object)
	// prepareCreate clears what clients may not set.
	prepareCreate func(*call, runtime.Object)
	// prepareUpdate puts back what an update of this subresource may not change.
	prepareUpdate func(subresource string, object, old runtime.Object)
	// validate finds what is wrong. The old object is nil for a creation.
	validate validation
	// fields are selectable beside the name and the namespace.
	fields func(runtime.Object) fields.Set
	// reset are paths that a write of a subresource does not own.
	reset map[string][]string
}

func core(kind string) schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(kind) }

var resources = []*resource{
	{GroupVersionKind: core("Namespace"), name: "namespaces", singular: "namespace", shortNames: []string{"ns"},
		subresources: []string{"status"}, rules: namespaceRules},
	{GroupVersionKind: core("Node"), name: "nodes", singular: "node", shortNames: []string{"no"}, subresources: []string{"status"}, rules: nodeRules},
	{GroupVersionKind: core("Service"), name: "services", singular: "service", shortNames: []string{"svc"}, namespaced: true,
		subresources: []string{"status"}, createByUpdate: true, rules: serviceRules},
	{GroupVersionKind: core("Pod"), name: "pods", singular: "pod", shortNames: []string{"po"}, namespaced: true,
		subresources: []string{"status"}, rules: podRules},
	{GroupVersionKind: core("Event"), name: "events", singular: "event", shortNames: []string{"ev"}, namespaced: true,
		createByUpdate: true, rules: eventRules},
	{GroupVersionKind: eventsv1.SchemeGroupVersion.WithKind("Event"), name: "events", singular: "event", shortNames: []string{"ev"}, namespaced: true,
		createByUpdate: true, storage: "/events", rules: eventRules},
	{GroupVersionKind: core("ConfigMap"), name: "configmaps", singular: "configmap", shortNames: []string{"cm"}, namespaced: true},
	{GroupVersionKind: core("Secret"), name: "secrets", singular: "secret", namespaced: true, rules: secretRules},
	{GroupVersionKind: core("Endpoints"), name: "endpoints", singular: "endpoints", shortNames: []string{"ep"}, namespaced: true, createByUpdate: true},
	{GroupVersionKind: core("ServiceAccount"), name: "serviceaccounts", singular: "serviceaccount", shortNames: []string{"sa"}, namespaced: true,
		subresources: []string{"token"}},
	{GroupVersionKind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), name: "endpointslices", singular: "endpointslice", namespaced: true,
		rules: endpointSliceRules},
	{GroupVersionKind: coordinationv1.SchemeGroupVersion.WithKind("Lease"), name: "leases", singular: "lease", namespaced: true,
		createByUpdate: true, conditional: true, rules: leaseRules},
	{GroupVersionKind: certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), name: "certificatesigningrequests",
		singular: "certificatesigningrequest", shortNames: []string{"csr"}, subresources: []string{"approval", "status"}, rules: csrRules},
	{GroupVersionKind: authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"), name: "selfsubjectaccessreviews",
		singular: "selfsubjectaccessreview", virtual: true},
	{GroupVersionKind: authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), name: "selfsubjectreviews",
		singular: "selfsubjectreview", virtual: true},
}

func resourceOf(group, version, name string) *resource {
	for _, resource := range resources {
		if resource.Group == group && resource.Version == version && resource.name == name {
			return resource
		}
	}
	return nil
}

// key names the table that keeps the objects.
func (r *resource) key() string {
	if r.storage != "" {
		return r.storage
	}
	return r.Group + "/" + r.name
}

func (r *resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.name}
}

// make returns an empty object of the kind.
func (r *resource) make() runtime.Object { return mustMake(r.GroupVersionKind) }

func mustMake(kind schema.GroupVersionKind) runtime.Object {
	object, err := scheme.Scheme.New(kind)
	if err != nil {
		panic(fmt.Sprintf("the scheme of client-go has no %v: %v", kind, err)) // a mistake in the table
	}
	return object
}

func (r *resource) verbs(subresource string) metav1.Verbs {
	switch {
	case r.virtual || subresource == "token":
		return metav1.Verbs{"create"}
	case subresource != "":
		return metav1.Verbs{"get", "patch", "update"}
	}
	return metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
}

// listOf puts objects into a list of the kind.
func (r *resource) listOf(entries []*entry, meta metav1.ListMeta) runtime.Object {
	kind := r.GroupVersionKind
	kind.Kind += "List"
	list := mustMake(kind)
	list.GetObjectKind().SetGroupVersionKind(kind)
	value := reflect.ValueOf(list).Elem()
	items := value.FieldByName("Items")
	all := reflect.MakeSlice(items.Type(), len(entries), len(entries))
	for i, entry := range entries {
		item := all.Index(i)
		item.Set(reflect.ValueOf(entry.as(r)).Elem()) // shallow: what is stored is never changed
		item.FieldByName("TypeMeta").Set(reflect.Zero(reflect.TypeFor[metav1.TypeMeta]()))
	}
	items.Set(all)
	value.FieldByName("ListMeta").Set(reflect.ValueOf(meta))
	return list
}

// selectable returns the fields that a selector may name.
func (r *resource) selectable(object runtime.Object, meta metav1.Object) fields.Set {
	set := fields.Set{"metadata.name": meta.GetName()}
	if r.namespaced {
		set["metadata.namespace"] = meta.GetNamespace()
	}
	if r.rules.fields != nil {
		maps.Copy(set, r.rules.fields(object))
	}
	return set
}

var podRules = rules{
	prepareCreate: func(_ *call, object runtime.Object) {
		pod := object.(*corev1.Pod)
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: pod.Status.QOSClass}
	},
	prepareUpdate: func(subresource string, object, old runtime.Object) {
		pod, before := object.(*corev1.Pod), old.(*corev1.Pod)
		if subresource == "status" {
			pod.Spec = before.Spec
			return
		}
		pod.Status = before.Status
	},
	fields: func(object runtime.Object) fields.Set {
		pod := object.(*corev1.Pod)
		return fields.Set{
			"spec.nodeName": pod.Spec.NodeName, "spec.restartPolicy": string(pod.Spec.RestartPolicy), "spec.schedulerName": pod.Spec.SchedulerName,
			"spec.serviceAccountName": pod.Spec.ServiceAccountName, "spec.hostNetwork": strconv.FormatBool(pod.Spec.HostNetwork),
			"status.phase": string(pod.Status.Phase), "status.podIP": pod.Status.PodIP, "status.nominatedNodeName": pod.Status.NominatedNodeName,
		}
	},
	reset: map[string][]string{"": {"status"}, "status": {"spec"}},
}

var namespaceRules = rules{
	defaults: func(object runtime.Object) {
		namespace := object.(*corev1.Namespace)
		if namespace.Name == "" {
			return
		}
		if namespace.Labels == nil {
			namespace.Labels = map[string]string{}
		}
		namespace.Labels[corev1.LabelMetadataName] = namespace.Name
	},
	prepareCreate: func(_ *call, object runtime.Object) {
		namespace := object.(*corev1.Namespace)
		namespace.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
		for _, finalizer := range namespace.Spec.Finalizers {
			if finalizer == corev1.FinalizerKubernetes {
				return
			}
		}
		namespace.Spec.Finalizers = append(namespace.Spec.Finalizers, corev1.FinalizerKubernetes)
	},
	prepareUpdate: func(subresource string, object, old runtime.Object) {
		namespace, before := object.(*corev1.Namespace), old.(*corev1.Namespace)
		namespace.Spec.Finalizers = before.Spec.Finalizers
		if subresource == "" {
			namespace.Status = before.Status
		}
	},
	fields: func(object runtime.Object) fields.Set {
		return fields.Set{"status.phase": string(object.(*corev1.Namespace).Status.Phase)}
	},
	reset: map[string][]string{"": {"status"}, "status": {"spec"}},
}

var eventRules = rules{
	fields: func(object runtime.Object) fields.Set {
		event := object.(*corev1.Event)
		source := event.Source.Component
		if source == "" {
			source = event.ReportingController
		}
		return fields.Set{
			"involvedObject.kind": event.InvolvedObject.Kind, "involvedObject.namespace": event.InvolvedObject.Namespace,
			"involvedObject.name": event.InvolvedObject.Name, "involvedObject.uid": string(event.InvolvedObject.UID),
			"involvedObject.apiVersion":      event.InvolvedObject.APIVersion,
			"involvedObject.resourceVersion": event.InvolvedObject.ResourceVersion,
			"involvedObject.fieldPath":       event.InvolvedObject.FieldPath,
			"reason":                         event.Reason, "reportingComponent": event.ReportingController, "source": source, "type": event.Type,
		}
	},
}

var secretRules = rules{
	defaults: func(object runtime.Object) {
		if secret := object.(*corev1.Secret); secret.Type == "" {
			secret.Type = corev1.SecretTypeOpaque
		}
		mergeStringData(object.(*corev1.Secret))
	},
	fields: func(object runtime.Object) fields.Set {
		return fields.Set{"type": string(object.(*corev1.Secret).Type)}
	},
}

func mergeStringData(secret *corev1.Secret) {
	for key, value := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
}

var endpointSliceRules = rules{
	defaults: func(object runtime.Object) {
		slice := object.(*discoveryv1.EndpointSlice)
		for i := range slice.Ports {
			if slice.Ports[i].Name == nil {
				slice.Ports[i].Name = new("")
			}
			if slice.Ports[i].Protocol == nil {
				slice.Ports[i].Protocol = new(corev1.ProtocolTCP)
			}
		}
	},
}

var leaseRules = rules{validate: validateLease}

var csrRules = rules{
	prepareCreate: func(c *call, object runtime.Object) {
		csr := object.(*certificatesv1.CertificateSigningRequest)
		csr.Spec.Username, csr.Spec.Groups, csr.Spec.UID, csr.Spec.Extra = c.Identity, c.groups, "", nil
		csr.Status = certificatesv1.CertificateSigningRequestStatus{}
	},
	prepareUpdate: prepareCSR,
	validate:      validateCSR,
	fields: func(object runtime.Object) fields.Set {
		return fields.Set{"spec.signerName": object.(*certificatesv1.CertificateSigningRequest).Spec.SignerName}
	},
	reset: map[string][]string{"": {"spec", "status"}, "approval": {"spec", "status.certificate"}, "status": {"spec", "status.conditions"}},
}

// prepareCSR keeps the request as it was made: only the subresources change something.
func prepareCSR(subresource string, object, old runtime.Object) {
	csr, before := object.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	csr.Spec = before.Spec
	switch subresource {
	case "":
		csr.Status = before.Status
	case "approval":
		csr.Status.Certificate = before.Status.Certificate
	}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	for i := range csr.Status.Conditions {
		condition := &csr.Status.Conditions[i]
		if condition.LastUpdateTime.IsZero() {
			condition.LastUpdateTime = now
		}
		if condition.LastTransitionTime.IsZero() {
			condition.LastTransitionTime = now
		}
	}
}
