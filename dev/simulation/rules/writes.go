package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/mooring-ccm/mooring/dev/simulation/double"
	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/internal/names"
)

// kept is rule 2b: the reference would have deleted or tainted the node too, given the answers that Mooring got. It asks about a node that is
// not Ready, deletes it if the instance does not exist, and otherwise taints it if the instance is shut down. It removes the taint of a node
// that is Ready.
func kept(j *judge) {
	silent := map[string]time.Duration{} // since when a node is not Ready
	for _, change := range j.mooring.NodeChanges {
		name := change.Object
		since, isSilent := silent[name]
		answer := func(kind string) string {
			last := ""
			for _, call := range j.mooring.Calls {
				switch {
				case call.Object != name || call.Began < since || call.Ended > change.At:
				case kindOf(call.Method) == kind && call.Answer != "":
					last = call.Answer
				case kind == "InstanceExists" && call.Method == "InstanceID" && errors.Is(call.Err, cloudprovider.InstanceNotFound):
					last = double.No // of a node without an ID, which older plugins are asked for first
				}
			}
			return last
		}
		switch {
		case !change.Ours || change.Before == nil:
		case change.After == nil && !isSilent:
			j.add("2b-deleted", name, change.At, "Mooring deleted a node that is Ready, and the reference keeps it")
		case change.After == nil && answer("InstanceExists") != double.No && !j.draw.Plugin.Has(draw.Declaring): // a list denies too
			j.add("2b-deleted", name, change.At, "Mooring deleted a node, and the last answer since it is not Ready does not deny its instance: %q", answer("InstanceExists"))
		case change.After == nil:
		case !shutdown(change.Before) && shutdown(change.After) && (!isSilent || answer("InstanceShutdown") != double.Yes):
			j.add("2b-tainted", name, change.At, "Mooring set the shutdown taint, and the last answer since the node is not Ready is %q", answer("InstanceShutdown"))
		case shutdown(change.Before) && !shutdown(change.After) && !ready(change.Before):
			j.add("2b-untainted", name, change.At, "Mooring removed the shutdown taint of a node that is not Ready")
		}
		if change.After == nil || ready(change.After) {
			delete(silent, name)
		} else if !isSilent {
			silent[name] = change.At
		}
	}
}

// stays is rule 10: what others wrote stays, but for the fields that a row of the contract names.
func stays(j *judge) {
	owned := map[string]map[string]bool{} // the labels of a node whose values Mooring wrote
	for _, change := range j.mooring.NodeChanges {
		if change.Before == nil || change.After == nil {
			delete(owned, change.Object)
			continue
		}
		labels := owned[change.Object]
		if labels == nil {
			labels = map[string]bool{}
			owned[change.Object] = labels
		}
		if change.Ours {
			for _, what := range replaced(change.Before, change.After, labels) {
				j.add("10", change.Object, change.At, "Mooring changed %s, which others wrote", what)
			}
		}
		for key, value := range change.After.Labels {
			if was, had := change.Before.Labels[key]; !had || was != value {
				labels[key] = change.Ours
			}
		}
	}
	for _, change := range j.mooring.ServiceChanges {
		if !change.Ours || change.Before == nil || change.After == nil {
			continue
		}
		if !apiequality.Semantic.DeepEqual(foreignService(change.Before), foreignService(change.After)) {
			j.add("10", change.Object, change.At, "Mooring changed more of the Service than its finalizer, its status and its own annotations")
		}
	}
}

// betas are the labels that a cloud names, with the older name of each.
var betas = map[string]string{
	corev1.LabelTopologyZone:       corev1.LabelFailureDomainBetaZone,
	corev1.LabelTopologyRegion:     corev1.LabelFailureDomainBetaRegion,
	corev1.LabelInstanceTypeStable: corev1.LabelInstanceType,
}

// named reports whether a cloud names a label.
func named(key string) bool {
	_, stable := betas[key]
	return stable || slices.Contains(slices.Collect(maps.Values(betas)), key)
}

// replaced returns what a write changed of a node that others wrote. At initialization the labels are the cloud's. Later only values that
// Mooring wrote are changed, and a stable label follows its beta label.
func replaced(before, after *corev1.Node, owned map[string]bool) (what []string) {
	for _, key := range slices.Sorted(maps.Keys(union(before.Labels, after.Labels))) {
		was, had := before.Labels[key]
		is, has := after.Labels[key]
		beta, reconciled := before.Labels[betas[key]]
		switch {
		case was == is && had == has, !had && (named(key) || uninitialized(before)), had && named(key) && (uninitialized(before) || owned[key]):
		case reconciled && is == beta:
		default:
			what = append(what, "the label "+key+" from "+was+" to "+is)
		}
	}
	if before.Spec.ProviderID != "" && before.Spec.ProviderID != after.Spec.ProviderID {
		what = append(what, "the provider ID "+before.Spec.ProviderID)
	}
	if !uninitialized(before) && uninitialized(after) {
		what = append(what, "the uninitialized taint, which it set")
	}
	was, is := foreignNode(before), foreignNode(after)
	for _, part := range []struct {
		name    string
		was, is any
	}{
		{"annotations", was.Annotations, is.Annotations},
		{"taints", was.Spec.Taints, is.Spec.Taints},
		{"conditions", was.Status.Conditions, is.Status.Conditions},
	} {
		if !apiequality.Semantic.DeepEqual(part.was, part.is) {
			what = append(what, fmt.Sprintf("%s from %v to %v", part.name, part.was, part.is))
		}
	}
	was.Annotations, was.Spec.Taints, was.Status.Conditions = is.Annotations, is.Spec.Taints, is.Status.Conditions
	if !apiequality.Semantic.DeepEqual(was, is) {
		what = append(what, "other fields of the node")
	}
	return what
}

func union(a, b map[string]string) map[string]string {
	both := maps.Clone(a)
	if both == nil {
		both = map[string]string{}
	}
	maps.Copy(both, b)
	return both
}

// foreignNode returns a node without what Mooring may write. Labels and the provider ID are judged one by one, and addresses by rule 13.
func foreignNode(node *corev1.Node) *corev1.Node {
	foreign := node.DeepCopy()
	foreign.ObjectMeta = foreignMeta(foreign.ObjectMeta)
	foreign.Labels, foreign.Spec.ProviderID, foreign.Status.Addresses = nil, "", nil
	foreign.Spec.Taints = slices.DeleteFunc(foreign.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == cloudproviderapi.TaintExternalCloudProvider || taint.Key == cloudproviderapi.TaintNodeShutdown
	})
	foreign.Status.Conditions = slices.DeleteFunc(foreign.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeNetworkUnavailable || condition.Type == names.ConditionInstanceGone
	})
	return foreign
}

// foreignService returns a Service without what Mooring may write.
func foreignService(service *corev1.Service) *corev1.Service {
	foreign := service.DeepCopy()
	foreign.ObjectMeta = foreignMeta(foreign.ObjectMeta)
	foreign.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	foreign.Status.Conditions = slices.DeleteFunc(foreign.Status.Conditions, func(condition metav1.Condition) bool {
		return condition.Type == names.ConditionLoadBalancerReady
	})
	return foreign
}

// foreignMeta returns the metadata of an object without versions, the finalizer of load balancers and Mooring's own annotations.
func foreignMeta(meta metav1.ObjectMeta) metav1.ObjectMeta {
	meta.ResourceVersion, meta.Generation, meta.ManagedFields = "", 0, nil
	meta.Finalizers = slices.DeleteFunc(meta.Finalizers, func(finalizer string) bool { return finalizer == servicehelpers.LoadBalancerCleanupFinalizer })
	maps.DeleteFunc(meta.Annotations, func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		return domain == ourDomain || strings.HasSuffix(domain, "."+ourDomain)
	})
	return meta
}

// ourDomain is the domain of Mooring's own annotations.
const ourDomain = "mooring.dev"

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}

func tainted(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}

func shutdown(node *corev1.Node) bool { return tainted(node, cloudproviderapi.TaintNodeShutdown) }

func uninitialized(node *corev1.Node) bool {
	return tainted(node, cloudproviderapi.TaintExternalCloudProvider)
}
