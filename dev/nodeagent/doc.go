// Package nodeagent puts nodes into a cluster as kubelets do that run with --cloud-provider=external, without running
// any containers. To a cloud controller manager and to kube-controller-manager an agent looks like a kubelet: the Node
// object that it registers, the taint and the annotation on it, its conditions and its Lease.
//
// What a kubelet writes, and when, is taken from k8s.io/kubernetes v1.36.3, pkg/kubelet/kubelet_node_status.go and
// pkg/kubelet/nodestatus/setters.go.
package nodeagent
