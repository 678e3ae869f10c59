package check_test

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/check"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/managers"
	"github.com/mooring-ccm/mooring/internal/names"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// ago returns a time so long before noon.
func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

func node(name string, edits ...func(*corev1.Node)) corev1.Node {
	n := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: ago(time.Hour)},
		Spec:       corev1.NodeSpec{ProviderID: "sim://" + name, PodCIDR: "10.244.0.0/24"},
	}
	for _, edit := range edits {
		edit(&n)
	}
	return n
}

func tainted(key string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key}) }
}

func conditioned(kind corev1.NodeConditionType, since time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: "Why", LastTransitionTime: ago(since),
		})
	}
}

func identified(id string) func(*corev1.Node) { return func(n *corev1.Node) { n.Spec.ProviderID = id } }

func lease(name, holder string, renewed time.Duration) coordinationv1.Lease {
	return coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: ptr.To(metav1.NewMicroTime(noon.Add(-renewed))), AcquireTime: ptr.To(metav1.NewMicroTime(noon.Add(-time.Hour))),
		},
	}
}

func workload(name string, flags managers.Flags) check.Workload {
	return check.Workload{Kind: "Deployment", Namespace: "kube-system", Name: name, Image: "ccm:" + name, Flags: flags, Wanted: 2, Ready: 2}
}

func pod(name string, edits ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Image: "cloud-controller-manager:1"}}},
	}
	for _, edit := range edits {
		edit(&p)
	}
	return p
}

func waits(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Image: "cloud-controller-manager:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}},
		}}
	}
}

func kcm(args ...string) corev1.Pod {
	return pod("kube-controller-manager-a", func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Command: append([]string{"kube-controller-manager"}, args...)}}
	})
}

// announcedAs returns a Service with a load balancer whose addresses are not announced.
func announcedAs(name, reason string) corev1.Service {
	service := balanced(name, time.Hour)
	service.Status.Conditions = []metav1.Condition{
		{Type: "LoadBalancerReady", Status: metav1.ConditionTrue, Reason: "Provided"},
		{Type: names.ConditionAnnounced, Status: metav1.ConditionFalse, Reason: reason, Message: "Why"},
	}
	return service
}

func balanced(name string, since time.Duration) corev1.Service {
	return corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: ago(since)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
}

// healthy is a cluster in which nothing is wrong, with the provider metal and routes.
func healthy() *check.Observation {
	return &check.Observation{
		Now: noon, Namespace: "kube-system", Lease: "cloud-controller-manager", Tested: []string{"v1.36.3"},
		Server:   check.Part[string]{Value: "v1.35.1+k3s1"},
		Nodes:    check.Part[[]corev1.Node]{Value: []corev1.Node{node("a"), node("b"), node("new", identified(""), tainted(uninitialized), func(n *corev1.Node) { n.CreationTimestamp = ago(time.Minute) })}},
		Services: check.Part[[]corev1.Service]{Value: []corev1.Service{balanced("new", time.Minute), {}}},
		Leases:   check.Part[[]coordinationv1.Lease]{Value: []coordinationv1.Lease{lease("cloud-controller-manager", "a_1", time.Second), lease("kube-scheduler", "a", 0)}},
		Workloads: check.Part[[]check.Workload]{Value: []check.Workload{
			workload("mooring", managers.Flags{"cloud-provider": "metal", "cluster-cidr": "10.244.0.0/16"}), workload("dry", managers.Flags{"dry-run": "true", "leader-elect-resource-name": "x"}),
		}},
		Pods:               check.Part[[]corev1.Pod]{Value: []corev1.Pod{pod("a"), pod("b")}},
		ControllerManagers: check.Part[[]corev1.Pod]{Value: []corev1.Pod{kcm("--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16")}},
		KubeProxy:          check.Part[*corev1.ConfigMap]{Value: proxy("0.0.0.0:10256")},
		Rights:             check.Part[[]check.Right]{Value: []check.Right{{Verb: "list", Resource: "nodes", Account: "kube-system/m", Allowed: true}}},
	}
}

func proxy(address string) *corev1.ConfigMap {
	return &corev1.ConfigMap{Data: map[string]string{"config.conf": "kind: KubeProxyConfiguration\nhealthzBindAddress: " + address + "\n"}}
}
