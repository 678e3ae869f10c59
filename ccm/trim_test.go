package ccm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// kept is a node with all that must reach controllers and plugins.
func kept() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "node-1", UID: "uid-1", ResourceVersion: "7", Finalizers: []string{"example.com/f"},
			Labels:      map[string]string{"a": "1"},
			Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "b": "2"},
		},
		Spec: corev1.NodeSpec{
			ProviderID: "sim://1", PodCIDR: "10.0.0.0/24", PodCIDRs: []string{"10.0.0.0/24"}, Unschedulable: true,
			Taints: []corev1.Taint{{Key: "t", Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{
			Capacity:        corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
			Allocatable:     corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")},
			Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
			NodeInfo:        corev1.NodeSystemInfo{MachineID: "m", SystemUUID: "s", KubeletVersion: "v1.36.3"},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		},
	}
}

func TestTheCacheKeepsWhatControllersRead(t *testing.T) {
	node := kept()
	node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"registry.example.com/pause:1"}, SizeBytes: 1}}
	node.Status.VolumesInUse = []corev1.UniqueVolumeName{"v"}
	node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "v", DevicePath: "/dev/v"}}
	node.Status.Config = &corev1.NodeConfigStatus{Error: "e"}
	node.Status.RuntimeHandlers = []corev1.NodeRuntimeHandler{{Name: "runc"}}
	node.Status.Features = &corev1.NodeFeatures{SupplementalGroupsPolicy: ptr.To(true)}
	node.Status.DeclaredFeatures = []string{"f"}
	trimmed, err := trimNode(node)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(kept(), trimmed); diff != "" {
		t.Errorf("in the cache (-want +got):\n%s", diff)
	}
	last := toolscache.DeletedFinalStateUnknown{Key: "node-1"}
	if got, err := trimNode(last); got != last || err != nil {
		t.Errorf("what is no node becomes %v, %v", got, err)
	}
}
