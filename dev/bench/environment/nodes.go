package environment

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

const (
	// ClusterCIDR is what the pod CIDRs of nodes are from.
	ClusterCIDR = "10.128.0.0/9"
	// writers is how many requests the benchmark itself has under way at once.
	writers = 32
)

// Join creates nodes as their kubelets do, waiting for their initialization: those of the instances with the numbers from
// first on.
func (e *Environment) Join(ctx context.Context, first, count int) error {
	return e.createNodes(ctx, first, count, func(*corev1.Node, int) {})
}

// JoinWithCIDR is Join of nodes that have a pod CIDR, to which there is no route yet.
func (e *Environment) JoinWithCIDR(ctx context.Context, first, count int) error {
	return e.createNodes(ctx, first, count, withCIDR)
}

// JoinAside is Join for nodes that are no targets of load balancers, as a label of theirs says.
func (e *Environment) JoinAside(ctx context.Context, first, count int) error {
	return e.createNodes(ctx, first, count, func(node *corev1.Node, _ int) {
		node.Labels[corev1.LabelNodeExcludeBalancers] = ""
	})
}

// AddInitialized creates nodes as they are after their initialization, so there is nothing to do for them.
func (e *Environment) AddInitialized(ctx context.Context, count int) error {
	return e.createNodes(ctx, 1, count, initialized)
}

// AddInitializedUnrouted is AddInitialized with a pod CIDR for each node, to which there is no route yet.
func (e *Environment) AddInitializedUnrouted(ctx context.Context, count int) error {
	return e.createNodes(ctx, 1, count, func(node *corev1.Node, number int) {
		initialized(node, number)
		withCIDR(node, number)
	})
}

// createNodes creates the nodes of consecutive instances as fast as the API server takes them.
func (e *Environment) createNodes(ctx context.Context, first, count int, complete func(node *corev1.Node, number int)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for number := first; number < first+count; number++ {
		node := registered(number)
		complete(node, number)
		group.Go(func() error {
			_, err := e.cluster.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("create %d nodes: %w", count, err)
	}
	return nil
}

// RemoveNodes deletes all nodes, and waits until none is left and the managers have removed their routes. Their instances stay.
func (e *Environment) RemoveNodes(ctx context.Context) error {
	if err := e.cluster.Client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete all nodes: %w", err)
	}
	all := e.watch.countNodes(func(*corev1.Node) bool { return true })
	return await(ctx, func() int {
		return all - e.watch.countNodes(func(*corev1.Node) bool { return true }) - e.Cloud.service.RouteCount(clusterName)
	}, all, func(int) {}, e.problem)
}

// FallSilent makes nodes unready, the first ones, as kube-controller-manager does when a kubelet does not report.
func (e *Environment) FallSilent(ctx context.Context, count int) error {
	now := metav1.NewTime(time.Now())
	patch, err := json.Marshal(corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown",
		Message: "Kubelet stopped posting node status.", LastHeartbeatTime: now, LastTransitionTime: now,
	}}}})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for number := range count {
		group.Go(func() error {
			_, err := e.cluster.Client.CoreV1().Nodes().Patch(ctx, cloudsim.DefaultInstance(number+1).Name, types.StrategicMergePatchType, patch,
				metav1.PatchOptions{}, "status")
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("make %d nodes unready: %w", count, err)
	}
	return nil
}

// Waiting returns the node of an instance as its kubelet registers it, waiting for its initialization. Instances are numbered from 1.
func Waiting(number int) *corev1.Node { return registered(number) }

// registered is the node of an instance, ready and waiting for its initialization, as a kubelet with --cloud-provider=external reports it.
func registered(number int) *corev1.Node {
	node := nodeagent.Node(nodeagent.Options{Name: cloudsim.DefaultInstance(number).Name})
	// What is measured depends on the size of a node. It stays what it was when earlier figures were measured.
	info := &node.Status.NodeInfo
	info.MachineID, info.SystemUUID, info.BootID, info.OSImage = "", "", "", "none"
	for i := range node.Status.Conditions {
		node.Status.Conditions[i].Message = ""
	}
	return node
}

// initialized does what a cloud controller manager does to a node: provider ID, labels, addresses, and no taint.
func initialized(node *corev1.Node, number int) {
	instance := cloudsim.DefaultInstance(number)
	// A new cloud counts the instances of its seed from 1.
	node.Spec.Taints, node.Spec.ProviderID = nil, sim.ProviderID(fmt.Sprintf("i-%08d", number))
	for key, value := range map[string]string{
		corev1.LabelInstanceTypeStable: instance.MachineType, corev1.LabelInstanceType: instance.MachineType,
		corev1.LabelTopologyZone: instance.Zone, corev1.LabelFailureDomainBetaZone: instance.Zone,
		corev1.LabelTopologyRegion: cloudsim.DefaultRegion, corev1.LabelFailureDomainBetaRegion: cloudsim.DefaultRegion,
	} {
		node.Labels[key] = value
	}
	node.Status.Addresses = nil
	for _, address := range instance.Addresses {
		node.Status.Addresses = append(node.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeAddressType(address.Type), Address: address.Address})
	}
}

// withCIDR adds a pod CIDR.
func withCIDR(node *corev1.Node, number int) {
	node.Spec.PodCIDR = fmt.Sprintf("10.%d.%d.0/24", 128+number/256, number%256)
	node.Spec.PodCIDRs = []string{node.Spec.PodCIDR}
}

// AwaitInitialized waits until so many nodes are initialized.
func (e *Environment) AwaitInitialized(ctx context.Context, want int) error {
	return e.awaitNodes(ctx, want, isInitialized)
}

// AwaitInitializedNode waits until the node of an instance is initialized.
func (e *Environment) AwaitInitializedNode(ctx context.Context, number int) error {
	name := cloudsim.DefaultInstance(number).Name
	return e.awaitNodes(ctx, 1, func(node *corev1.Node) bool { return node.Name == name && isInitialized(node) })
}

// isInitialized reports whether a node has lost its initial taint and has the IPs of its instance. The reference writes the IPs after it removes the
// taint. In between, the scheduler places pods on the node, but the API server cannot reach its kubelet.
func isInitialized(node *corev1.Node) bool {
	return !hasTaint(node, cloudproviderapi.TaintExternalCloudProvider) &&
		slices.ContainsFunc(node.Status.Addresses, func(address corev1.NodeAddress) bool { return address.Type == corev1.NodeInternalIP })
}

// AwaitRouted waits until so many nodes are known to have a route.
func (e *Environment) AwaitRouted(ctx context.Context, want int) error {
	return e.awaitNodes(ctx, want, func(node *corev1.Node) bool {
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeNetworkUnavailable {
				return condition.Status == corev1.ConditionFalse
			}
		}
		return false
	})
}

// AwaitLosses waits until nodes are deleted, so many others carry the taint of a machine that is off, and no load balancer has
// a target that is gone.
func (e *Environment) AwaitLosses(ctx context.Context, all, gone, off int) error {
	return e.await(ctx, gone+off+1, func() int {
		deleted := all - e.watch.countNodes(func(*corev1.Node) bool { return true })
		tainted := e.watch.countNodes(func(node *corev1.Node) bool { return hasTaint(node, cloudproviderapi.TaintNodeShutdown) })
		done := min(deleted, gone) + min(tainted, off)
		if done < gone+off {
			return done
		}
		if _, stale := e.Cloud.Balancers(); stale > 0 {
			return done
		}
		return done + 1
	})
}

func (e *Environment) awaitNodes(ctx context.Context, want int, meets func(*corev1.Node) bool) error {
	return e.await(ctx, want, func() int { return e.watch.countNodes(meets) })
}

func hasTaint(node *corev1.Node, key string) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == key {
			return true
		}
	}
	return false
}
