package managers_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/managers"
)

func TestFlags(t *testing.T) {
	got := managers.FlagsOf(&corev1.Container{
		Command: []string{"/bin/sh", "-c", "exec /ccm --cloud-provider=aws --v 2"},
		Args:    []string{"--leader-elect", "--cluster-name=a=b", "--v=4", "word", "--", "-x"},
	})
	want := managers.Flags{"cloud-provider": "aws", "leader-elect": "true", "cluster-name": "a=b", "v": "4"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	for name, test := range map[string]struct {
		flags           managers.Flags
		namespace, name string
	}{
		"by default": {managers.Flags{}, "kube-system", "cloud-controller-manager"},
		"by flags": {
			managers.Flags{"leader-elect-resource-namespace": "a", "leader-elect-resource-name": "b"}, "a", "b",
		},
		"none": {managers.Flags{"leader-elect": "false"}, "", ""},
	} {
		if namespace, lease := test.flags.Lease(); namespace != test.namespace || lease != test.name {
			t.Errorf("%s: the lease is %s/%s", name, namespace, lease)
		}
	}
}

func TestContainer(t *testing.T) {
	for name, test := range map[string]struct {
		container corev1.Container
		want      bool
	}{
		"by its image":            {corev1.Container{Image: "registry.example:5000/team/hcloud-cloud-controller-manager:v1@sha256:0"}, true},
		"by a short image":        {corev1.Container{Image: "example/ccm-linode"}, true},
		"by its command":          {corev1.Container{Image: "example/all-in-one", Command: []string{"/bin/aws-cloud-controller-manager"}}, true},
		"by its name":             {corev1.Container{Name: "openstack-cloud-controller-manager", Image: "example/occm"}, true},
		"a repository's name":     {corev1.Container{Image: "cloud-controller-manager.example/other/thing"}, false},
		"kube-controller-manager": {corev1.Container{Image: "kube-controller-manager"}, false},
	} {
		got := managers.Container(&corev1.PodSpec{Containers: []corev1.Container{{Image: "sidecar"}, test.container}})
		if (got != nil) != test.want {
			t.Errorf("%s: found %v", name, got)
		}
	}
}

// What a kubelet can make is a mirror, by either mark.
func TestOfKubelet(t *testing.T) {
	for name, test := range map[string]struct {
		meta metav1.ObjectMeta
		want bool
	}{
		"a ReplicaSet's": {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Controller: ptr.To(true)}}}, false},
		"annotated":      {metav1.ObjectMeta{Annotations: map[string]string{corev1.MirrorPodAnnotationKey: ""}}, true},
		"a Node's":       {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Controller: ptr.To(true)}}}, true},
	} {
		if got := managers.OfKubelet(&corev1.Pod{ObjectMeta: test.meta}); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
