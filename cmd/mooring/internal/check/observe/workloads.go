package observe

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/check"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/managers"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/pages"
)

// controllerManagers reads the pods of kube-controller-manager that show themselves in the cluster. kubeadm and RKE2 label them in one
// way, kOps in another.
func (o *Observer) controllerManagers(ctx context.Context) (pods []corev1.Pod, err error) {
	for _, selector := range []string{"component=kube-controller-manager", "component!=kube-controller-manager,k8s-app=kube-controller-manager"} {
		found, err := o.podsBy(ctx, metav1.NamespaceSystem, selector)
		if err != nil {
			return nil, err
		}
		pods = append(pods, found...)
	}
	return pods, nil
}

func (o *Observer) podsBy(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	return pages.All[corev1.Pod](ctx, o.Client.CoreV1().Pods(namespace).List, metav1.ListOptions{LabelSelector: selector})
}

// staticSelector selects pods of cloud controller managers that no workload has made: RKE2 runs its own as a static pod.
const staticSelector = "component=cloud-controller-manager"

// workloads reads what runs a cloud controller manager. All pods of a cluster would be too many to read.
func (o *Observer) workloads(ctx context.Context) (workloads []check.Workload, err error) {
	err = pages.Each(ctx, o.Client.AppsV1().Deployments(metav1.NamespaceAll).List, metav1.ListOptions{}, func(of *appsv1.Deployment) {
		workloads = append(workloads, fromDeployment(of)...)
	})
	if err != nil {
		return nil, err
	}
	err = pages.Each(ctx, o.Client.AppsV1().DaemonSets(metav1.NamespaceAll).List, metav1.ListOptions{}, func(of *appsv1.DaemonSet) {
		workloads = append(workloads, fromDaemonSet(of)...)
	})
	if err != nil {
		return nil, err
	}
	static, err := o.podsBy(ctx, metav1.NamespaceSystem, staticSelector)
	for i := range static {
		workloads = append(workloads, fromPod(&static[i])...)
	}
	return workloads, err
}

func fromDeployment(of *appsv1.Deployment) []check.Workload {
	return workload("Deployment", of.ObjectMeta, &of.Spec.Template.Spec, of.Spec.Selector, ptr.Deref(of.Spec.Replicas, 1), of.Status.ReadyReplicas)
}

func fromDaemonSet(of *appsv1.DaemonSet) []check.Workload {
	return workload("DaemonSet", of.ObjectMeta, &of.Spec.Template.Spec, of.Spec.Selector, of.Status.DesiredNumberScheduled, of.Status.NumberReady)
}

func fromPod(of *corev1.Pod) []check.Workload {
	if metav1.GetControllerOf(of) != nil && metav1.GetControllerOf(of).Kind != "Node" {
		return nil // it was counted as a pod of its workload
	}
	ready := int32(0)
	if slices.ContainsFunc(of.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		ready = 1
	}
	return workload("Pod", of.ObjectMeta, &of.Spec, nil, 1, ready)
}

// workload returns what runs a cloud controller manager, or nothing if the pods are none.
func workload(kind string, meta metav1.ObjectMeta, spec *corev1.PodSpec, selector *metav1.LabelSelector, wanted, ready int32) []check.Workload {
	container := managers.Container(spec)
	if container == nil {
		return nil
	}
	return []check.Workload{{
		Kind: kind, Namespace: meta.Namespace, Name: meta.Name, Selector: metav1.FormatLabelSelector(selector),
		Account: spec.ServiceAccountName, Image: container.Image, Flags: managers.FlagsOf(container), Wanted: wanted, Ready: ready,
	}}
}

// pods reads the pods of the observed manager's workloads.
func (o *Observer) pods(ctx context.Context, seen *check.Observation) (pods []corev1.Pod, err error) {
	for _, of := range seen.Own() {
		selector := of.Selector
		if of.Kind == "Pod" {
			selector = staticSelector
		}
		found, err := o.podsBy(ctx, of.Namespace, selector)
		if err != nil {
			return nil, err
		}
		for _, pod := range found {
			if !slices.ContainsFunc(pods, func(known corev1.Pod) bool { return known.UID == pod.UID }) {
				pods = append(pods, pod)
			}
		}
	}
	return pods, nil
}
