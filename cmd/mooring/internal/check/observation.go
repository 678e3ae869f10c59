package check

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/managers"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
)

// Part is something that was read of a cluster, or could not be.
type Part[T any] struct {
	Value T
	// Unread says why it could not be read; empty if it was.
	Unread string
}

// Observation is what was read of a cluster. Each part may have failed on its own.
type Observation struct {
	// Now is when.
	Now time.Time
	// Namespace and Lease name the Lease by which Mooring elects its leader.
	Namespace, Lease string
	// Schemes are those of the provider IDs that are Mooring's own; empty if the caller did not say.
	Schemes []string
	// Server is the version of the API server, such as "v1.36.3". Tested are the versions that this version of Mooring is tested with, the
	// oldest first.
	Server Part[string]
	Tested []string
	Nodes  Part[[]corev1.Node]
	// Services are all of the cluster.
	Services Part[[]corev1.Service]
	// Leases are those of Namespace.
	Leases Part[[]coordinationv1.Lease]
	// Workloads are the Deployments and DaemonSets of the cluster whose pods are cloud controller managers.
	Workloads Part[[]Workload]
	// Pods are the pods of those workloads, and what runs as a static pod beside kube-apiserver.
	Pods Part[[]corev1.Pod]
	// ControllerManagers are the pods of kube-controller-manager.
	ControllerManagers Part[[]corev1.Pod]
	// KubeProxy is the ConfigMap kube-system/kube-proxy, or nil if it does not exist.
	KubeProxy Part[*corev1.ConfigMap]
	// Events are those about nodes and Services that wait.
	Events Part[[]corev1.Event]
	// Rights are the permissions that Mooring needs.
	Rights Part[[]Right]
}

// Workload is a Deployment or a DaemonSet, or a static pod, that runs a cloud controller manager.
type Workload struct {
	Kind, Namespace, Name string
	// Selector selects its pods.
	Selector string
	// Account is the name of its ServiceAccount.
	Account string
	// Image is what it runs, and Flags are how.
	Image string
	Flags managers.Flags
	// Wanted and Ready count its pods.
	Wanted, Ready int32
}

// String is the kind and the name.
func (w Workload) String() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// Right is something that Mooring may have to do.
type Right struct {
	// Verb, Group, Resource, Namespace and Name are in the terms of RBAC. An empty namespace is the whole cluster.
	Verb, Group, Resource, Namespace, Name string
	// Account is the ServiceAccount, NAMESPACE/NAME, that was asked about.
	Account string
	// Optional says what does not work without it. Empty: the manager does not start.
	Optional string
	// Allowed is the answer of the API server.
	Allowed bool
}

// String reads like the API server's message for a refused request.
func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += " \"" + r.Name + "\""
	}
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

// Own returns the workloads that elect their leader by the observed lease. Dry runs take no lease and are left out.
func (o *Observation) Own() []Workload {
	var own []Workload
	for _, workload := range o.Workloads.Value {
		namespace, lease := workload.Flags.Lease()
		if namespace == o.Namespace && lease == o.Lease && !workload.Flags.Is("dry-run") {
			own = append(own, workload)
		}
	}
	return own
}

// others returns the workloads that run another manager than the observed one.
func (o *Observation) others() []Workload {
	var others []Workload
	for _, workload := range o.Workloads.Value {
		namespace, lease := workload.Flags.Lease()
		if (namespace != o.Namespace || lease != o.Lease) && !workload.Flags.Is("dry-run") {
			others = append(others, workload)
		}
	}
	return others
}

// flags are those of the observed manager; nil if it was not found.
func (o *Observation) flags() managers.Flags {
	if own := o.Own(); len(own) > 0 {
		return own[0].Flags
	}
	return nil
}

// routes reports whether the observed manager configures routes in the cloud: --configure-cloud-routes is true by default, and without
// --cluster-cidr there is nothing to configure.
func (o *Observation) routes() bool {
	flags := o.flags()
	return flags["configure-cloud-routes"] != "false" && flags["cluster-cidr"] != ""
}

// status is what nodes and Services are to their manager, as mooring status shows it.
func (o *Observation) status() view.Status {
	return view.Of(view.Seen{
		Now: o.Now, Nodes: o.Nodes.Value, Services: o.Services.Value, Events: o.Events.Value, Schemes: o.schemes(),
	})
}
