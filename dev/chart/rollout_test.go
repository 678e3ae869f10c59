package chart_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/dev/chart/render"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// replicas stands in for scheduler and kubelets: it puts pods on nodes that have none, makes them ready one after the other, and
// removes what the controller deletes.
type replicas struct {
	client kubernetes.Interface
	nodes  []string
	// waits is how long a pod has to be ready before another one may be deleted.
	waits time.Duration
	ready map[string]time.Time // by the names of pods
	// early are pods that were deleted while no other one had been ready for that long.
	early []string
}

// step does what is due, and returns how many pods are ready that have a label with this value.
func (r *replicas) step(ctx context.Context, label, value string) (int, error) {
	pods := r.client.CoreV1().Pods(render.Namespace)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=mooring"})
	if err != nil {
		return 0, err
	}
	free := slices.Clone(r.nodes)
	current, now := 0, time.Now()
	for i := range list.Items {
		if pod := &list.Items[i]; pod.DeletionTimestamp != nil {
			if since, was := r.ready[pod.Name]; was && !since.IsZero() {
				delete(r.ready, pod.Name)
				if !r.replaced(now) {
					r.early = append(r.early, pod.Name)
				}
			}
			if err := pods.Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0)); err != nil {
				return 0, err
			}
		}
		free = slices.DeleteFunc(free, func(node string) bool { return node == list.Items[i].Spec.NodeName })
	}
	for i := range list.Items {
		pod := &list.Items[i]
		switch _, ready := r.ready[pod.Name]; {
		case pod.DeletionTimestamp != nil:
		case pod.Spec.NodeName == "" && len(free) == 0: // it waits for a node
		case pod.Spec.NodeName == "":
			bound := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: free[0]}}
			if err := pods.Bind(ctx, bound, metav1.CreateOptions{}); err != nil {
				return 0, err
			}
			free = free[1:]
		case !ready:
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
			if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
				return 0, err
			}
			r.ready[pod.Name] = now
		case pod.Labels[label] == value:
			current++
		}
	}
	return current, nil
}

// replaced reports whether a pod has been ready for long enough. Times of Kubernetes are whole seconds.
func (r *replicas) replaced(now time.Time) bool {
	for _, since := range r.ready {
		if now.Sub(since) >= r.waits-time.Second {
			return true
		}
	}
	return false
}

// TestReplicasAreReplacedOneAfterTheOther updates the Deployment on two nodes, with the controllers of Kubernetes: no replica goes
// before another one has been ready for minReadySeconds, and the update comes to its end although there is no third node.
func TestReplicasAreReplacedOneAfterTheOther(t *testing.T) {
	cluster := localclustertest.Start(t, localclustertest.WithControllerManager)
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	must.NoError(t, err)
	update := func(version string) {
		t.Helper()
		objects, err := render.Objects(load(t), parse(t, "minReadySeconds: 3\nprovider: {name: metal}\npodLabels: {version: "+version+"}"))
		must.NoError(t, err)
		must.NoError(t, cluster.Apply(t.Context(), withoutOperator(objects)))
	}
	r := &replicas{client: client, nodes: []string{"cp1", "cp2"}, waits: 3 * time.Second, ready: map[string]time.Time{}}
	for _, node := range r.nodes {
		join(t, client, node)
	}
	for _, version := range []string{"one", "two"} {
		update(version)
		poll.Until(t, "both replicas are of version "+version, func(ctx context.Context) error {
			current, err := r.step(ctx, "version", version)
			if err == nil && current != 2 {
				err = fmt.Errorf("%d are", current)
			}
			return err
		})
		poll.Until(t, "they are available", func(ctx context.Context) error {
			deployment, err := client.AppsV1().Deployments(render.Namespace).Get(ctx, render.Release, metav1.GetOptions{})
			if err == nil && (deployment.Status.AvailableReplicas != 2 || deployment.Status.UpdatedReplicas != 2) {
				err = fmt.Errorf("the status is %+v", deployment.Status)
			}
			return err
		})
	}
	if len(r.early) > 0 {
		t.Errorf("%q went before another replica had been ready for %s", r.early, r.waits)
	}
}

// TestReplicasThatAnnounceAreKept reads how replicas are replaced, and what keeps one while nodes are drained.
func TestReplicasThatAnnounceAreKept(t *testing.T) {
	for values, want := range map[string]struct {
		seconds            int32
		surge, unavailable string
		budget             bool
		budgetMax          string
	}{
		"provider: {name: sim}":                                                           {0, "0", "1", false, ""},
		"provider: {name: metal}":                                                         {10, "0", "1", true, "1"},
		"provider: {name: metal}\nkind: DaemonSet":                                        {10, "", "1", false, ""},
		"provider: {name: metal}\nminReadySeconds: 0":                                     {0, "0", "1", true, "1"},
		"provider: {name: metal}\npodDisruptionBudget: {enabled: false}":                  {10, "0", "1", false, ""},
		"provider: {name: sim}\nminReadySeconds: 5\npodDisruptionBudget: {enabled: true}": {5, "0", "1", true, "1"},
		"provider: {name: metal}\nrollingUpdate: {maxSurge: 1, maxUnavailable: 0}":        {10, "1", "0", true, "1"},
	} {
		objects, err := render.Objects(load(t), parse(t, values))
		must.NoError(t, err)
		var budget policyv1.PodDisruptionBudget
		must.NoError(t, yaml.Unmarshal([]byte(objects["poddisruptionbudget.yaml"]), &budget))
		seconds, surge, unavailable := replacement(t, objects["workload.yaml"])
		if seconds != want.seconds || surge != want.surge || unavailable != want.unavailable {
			t.Errorf("%s: ready for %d s, surge %s, unavailable %s; want %+v", values, seconds, surge, unavailable, want)
		}
		if has := budget.Spec.MaxUnavailable != nil; has != want.budget || has && budget.Spec.MaxUnavailable.String() != want.budgetMax {
			t.Errorf("%s: the budget is %+v, want one: %v", values, budget.Spec, want.budget)
		}
	}
}

// replacement returns how a workload replaces its pods.
func replacement(t *testing.T, workload string) (seconds int32, surge, unavailable string) {
	t.Helper()
	if strings.Contains(workload, "kind: DaemonSet") {
		var set appsv1.DaemonSet
		must.NoError(t, yaml.UnmarshalStrict([]byte(workload), &set))
		return set.Spec.MinReadySeconds, "", set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.String()
	}
	var set appsv1.Deployment
	must.NoError(t, yaml.UnmarshalStrict([]byte(workload), &set))
	rolling := set.Spec.Strategy.RollingUpdate
	return set.Spec.MinReadySeconds, rolling.MaxSurge.String(), rolling.MaxUnavailable.String()
}
