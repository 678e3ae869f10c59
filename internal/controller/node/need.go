package node

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// The needs: what happens to an initialized node after which the cloud may say something else of it.
const (
	// needRebooted is that the node's boot ID has changed.
	needRebooted lookupReason = "rebooted"
	// needReady is that the node is ready again.
	needReady lookupReason = "ready"
	// needNodeIP is that the kubelet was given another --node-ip.
	needNodeIP lookupReason = "node_ip"
	// needChanged is that somebody else has changed what we hold the node to: its addresses, its provider ID, labels from the cloud.
	needChanged lookupReason = "changed"
)

// needOf returns why a change of an initialized node is a reason to look it up, empty if it is none. Young is how old a node is at
// most that becomes ready for the first time: it is looked up soon in any case. A change of what we write may be our own write, see
// watcher.
func needOf(before, after *corev1.Node, young time.Duration) lookupReason {
	const nodeIP = cloudproviderapi.AnnotationAlphaProvidedIPAddr
	was, is := before.Status.NodeInfo.BootID, after.Status.NodeInfo.BootID
	switch {
	case before.UID != after.UID || ownership.Uninitialized(before) || ownership.Uninitialized(after):
		return "" // the initialization looks it up
	case was != "" && is != "" && was != is:
		return needRebooted
	case !isReady(before) && isReady(after) && readySince(after).Sub(after.CreationTimestamp.Time) > young:
		return needReady
	case before.Annotations[nodeIP] != after.Annotations[nodeIP]:
		return needNodeIP
	case heldChanged(before, after):
		return needChanged
	default:
		return ""
	}
}

// heldChanged reports whether something has changed that we hold a node to, or know it by.
func heldChanged(before, after *corev1.Node) bool {
	if before.Spec.ProviderID != after.Spec.ProviderID || !slices.Equal(before.Status.Addresses, after.Status.Addresses) {
		return true
	}
	for _, key := range []string{ownership.AnnotationProven, annotationCloudLabels} {
		if before.Annotations[key] != after.Annotations[key] {
			return true
		}
	}
	if maps.Equal(before.Labels, after.Labels) {
		return false
	}
	for _, label := range []labelPair{typeLabel, zoneLabel, regionLabel} {
		if labelChanged(before, after, label.stable) || labelChanged(before, after, label.beta) {
			return true
		}
	}
	for key := range recordOf(after) {
		if labelChanged(before, after, key) {
			return true
		}
	}
	return false
}

func labelChanged(before, after *corev1.Node, key string) bool {
	was, had := before.Labels[key]
	is, has := after.Labels[key]
	return had != has || was != is
}

// readySince returns since when the Ready condition of a node is as it is, zero if the node has none.
func readySince(node *corev1.Node) time.Time {
	for i := range node.Status.Conditions {
		if condition := &node.Status.Conditions[i]; condition.Type == corev1.NodeReady {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
