package chart_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/dev/chart/render"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// podOf returns the template of the pods that values render.
func podOf(t *testing.T, values string) corev1.PodSpec {
	t.Helper()
	objects, err := render.Objects(load(t), parse(t, values))
	must.NoError(t, err)
	var workload appsv1.Deployment // a DaemonSet has its template in the same place
	must.NoError(t, yaml.Unmarshal([]byte(objects["workload.yaml"]), &workload))
	return workload.Spec.Template.Spec
}

// TestReplicasKnowTheirNode: the provider metal reads NODE_NAME. An operator who sets it by hand keeps that value, and the chart adds no second one.
func TestReplicasKnowTheirNode(t *testing.T) {
	for values, want := range map[string]string{
		"provider: {name: metal}":                                                     "spec.nodeName",
		"provider: {name: metal}\nextraEnv: [{name: A, value: b}]":                    "spec.nodeName",
		"provider: {name: metal}\napiServer: {host: 192.0.2.1, port: 6443}":           "spec.nodeName",
		"provider: {name: metal}\nextraEnv: [{name: NODE_NAME, value: other}]":        "other",
		"provider: {name: metal}\nkind: DaemonSet":                                    "spec.nodeName",
		"provider: {name: sim}":                                                       "",
		"provider: {name: sim}\nextraEnv: [{name: NODE_NAME, value: whatever it is}]": "whatever it is",
	} {
		var got []string
		for _, variable := range podOf(t, values).Containers[0].Env {
			if variable.Name != "NODE_NAME" {
				continue
			}
			text := variable.Value
			if variable.ValueFrom != nil {
				text += variable.ValueFrom.FieldRef.FieldPath
			}
			got = append(got, text)
		}
		if strings.Join(got, " and ") != want {
			t.Errorf("%s: NODE_NAME is %q, want %q", values, got, want)
		}
	}
}

// node returns a node as a distribution registers it before its cloud controller manager runs.
func node(labels map[string]string, taints ...corev1.Taint) *corev1.Node {
	taints = append(taints, corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule},
		corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute})
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: labels}, Spec: corev1.NodeSpec{Taints: taints}}
}

// TestWhereItMayRun asks the scheduler's own rules on which nodes the pods may run, and stay. The labels and taints of servers come from the
// documentation of the distributions.
func TestWhereItMayRun(t *testing.T) {
	const controlPlane, etcd, os = "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/etcd", "kubernetes.io/os"
	nodes := map[string]*corev1.Node{
		"kubeadm": node(map[string]string{controlPlane: "", os: "linux"}, corev1.Taint{Key: controlPlane, Effect: corev1.TaintEffectNoSchedule}),
		"k3s":     node(map[string]string{controlPlane: "true", os: "linux"}),
		"k3s dedicated": node(map[string]string{controlPlane: "true", os: "linux"},
			corev1.Taint{Key: "CriticalAddonsOnly", Value: "true", Effect: corev1.TaintEffectNoExecute}),
		"RKE2": node(map[string]string{controlPlane: "true", etcd: "true", os: "linux"},
			corev1.Taint{Key: controlPlane, Value: "true", Effect: corev1.TaintEffectNoSchedule},
			corev1.Taint{Key: etcd, Value: "true", Effect: corev1.TaintEffectNoExecute}),
		"evicting": node(map[string]string{controlPlane: "", os: "linux"}, corev1.Taint{Key: controlPlane, Effect: corev1.TaintEffectNoExecute}),
		// As Cluster API's bootstrap provider registers it, where the control plane is hosted elsewhere.
		"Cluster API": node(map[string]string{os: "linux"}, corev1.Taint{Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}),
		"worker":      node(map[string]string{os: "linux", "pool": "infra"}),
	}
	servers := []string{"kubeadm", "k3s", "k3s dedicated", "RKE2", "evicting"}
	for values, want := range map[string][]string{
		"":                servers,
		"kind: DaemonSet": servers,
		"nodeSelector: {kubernetes.io/os: linux}": append([]string{"worker", "Cluster API"}, servers...),
		"nodeSelector: {pool: infra}":             {"worker"},
		"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: Exists}]}]}}}": {"worker"},
		"affinity: {podAntiAffinity: {}}": servers,
		"tolerations: []":                 nil,
	} {
		t.Run(values, func(t *testing.T) {
			spec := podOf(t, values+"\nprovider: {name: sim}")
			wanted := map[string]bool{}
			for _, name := range want {
				wanted[name] = true
			}
			for name, node := range nodes {
				selected, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: spec}).Match(node)
				must.NoError(t, err)
				taint, refused := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, spec.Tolerations, nil, false)
				if may := selected && !refused; may != wanted[name] {
					t.Errorf("it may run on the node of %s: %v, want %v (selected %v, taint %v)", name, may, wanted[name], selected, taint)
				}
			}
			if spec.Affinity.PodAntiAffinity == nil {
				t.Error("two replicas may be on one node, where both want the same port")
			}
		})
	}
}

// TestOneNodeClusterDrains evicts the only replica that fits on a cluster of one node, as a drain does. The other one is pending.
func TestOneNodeClusterDrains(t *testing.T) {
	cluster := localclustertest.Start(t, localclustertest.WithControllerManager)
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	must.NoError(t, err)
	apply := func(values string) {
		t.Helper()
		objects, err := render.Objects(load(t), parse(t, values+"\nprovider: {name: sim}"))
		must.NoError(t, err)
		must.NoError(t, cluster.Apply(t.Context(), withoutOperator(objects)))
	}
	apply("podDisruptionBudget: {enabled: true}")
	running := place(t, client)
	poll.Until(t, "the budget is computed", func(ctx context.Context) error {
		budget, err := client.PolicyV1().PodDisruptionBudgets(render.Namespace).Get(ctx, render.Release, metav1.GetOptions{})
		if err == nil && budget.Status.CurrentHealthy != 1 {
			err = fmt.Errorf("healthy pods: %d", budget.Status.CurrentHealthy)
		}
		return err
	})
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: running, Namespace: render.Namespace}}
	if err := client.PolicyV1().Evictions(render.Namespace).Evict(t.Context(), eviction); !apierrors.IsTooManyRequests(err) {
		t.Fatalf("with a budget, the last replica is evicted: %v; this test looks in the wrong place", err)
	}
	must.NoError(t, client.PolicyV1().PodDisruptionBudgets(render.Namespace).Delete(t.Context(), render.Release, metav1.DeleteOptions{}))
	apply("replicas: 2")
	poll.Until(t, "the last replica is evicted", func(ctx context.Context) error {
		return client.PolicyV1().Evictions(render.Namespace).Evict(ctx, eviction)
	})
}

// place puts one of the Deployment's pods on a node and makes it ready, as scheduler and kubelet do, and returns its name.
func place(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	pods := client.CoreV1().Pods(render.Namespace)
	var name string
	poll.Until(t, "the Deployment has its pods", func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=mooring"})
		if err != nil {
			return err
		}
		if len(list.Items) != 2 {
			return fmt.Errorf("there are %d pods", len(list.Items))
		}
		name = list.Items[0].Name
		return nil
	})
	join(t, client, "only")
	must.NoError(t, pods.Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "only"},
	}, metav1.CreateOptions{}))
	ready := []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	_, err := pods.Patch(t.Context(), name, types.StrategicMergePatchType, ready, metav1.PatchOptions{}, "status")
	must.NoError(t, err)
	return name
}
