// Package outofservice puts the taint node.kubernetes.io/out-of-service on nodes of machines that are off, and takes it off again
// (KEP-2268, non-graceful node shutdown). With the taint, kube-controller-manager removes the node's pods and detaches their
// volumes at once, so StatefulSets go on elsewhere.
//
// Volumes that are detached while the machine still writes are corrupted. So the taint needs three witnesses: the machine's
// management controller, which gives the machine's system UUID, has confirmed for a while that it is off; the node carries the
// shutdown taint, by the node lifecycle controller; and its condition Ready is Unknown, because the kubelet is silent. What is not
// known changes nothing.
package outofservice
