// Package reads is what TestReadsAreFound looks at.
package reads

import (
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/service/helpers"
)

type wrapped struct{ *corev1.Node }

const key = "example.com/key"

func read(node *corev1.Node, service *corev1.Service, other wrapped, object interface{ GetLabels() map[string]string }) any {
	node.Spec.ProviderID = "written"
	node.Annotations["written"] = "x"
	taint := node.Spec.Taints[0].DeepCopy()
	status := &service.Status
	name := cloudprovider.DefaultLoadBalancerName(service)
	return []any{node.Annotations[key], node.GetLabels(), other.Spec.PodCIDR, other.Name, taint.Value, status.LoadBalancer.Ingress, helpers.NeedsHealthCheck(service),
		name, object.GetLabels()}
}
