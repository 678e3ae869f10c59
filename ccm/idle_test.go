package ccm_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// passes are the counters of the passes of all controllers, by the beginning of their line in /metrics.
var passes = []string{
	"mooring_node_refresh_duration_seconds_count ",
	"mooring_node_lifecycle_pass_duration_seconds_count ",
	`route_controller_route_sync_total{outcome="noop",trigger="periodic"} `,
	`mooring_service_drift_checks_total{result="success"} `,
}

const strategic = types.StrategicMergePatchType

// idlePeriods make each controller compare everything with the cloud every second.
var idlePeriods = []string{
	"--node-status-update-frequency=1s", "--node-monitor-period=1s", "--route-reconciliation-period=1s",
	"--load-balancer-drift-check-period=1s", "--load-balancer-target-delay=1s",
}

// TestNothingIsLoggedWhileNothingChanges runs all controllers over a cluster that is as it should be, with a node that is not
// ready, and counts lines over some passes of each.
func TestNothingIsLoggedWhileNothingChanges(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	port := localclustertest.FreePort(t)
	cloud, args := simulated(t, kubeconfig)
	cloud.Create(t, cloudsim.DefaultInstance(2))
	args = append(args, idlePeriods...)
	p := start(t, append(args, "--v=0", "--cluster-cidr=10.244.0.0/16", "--allocate-node-cidrs", "--secure-port="+port,
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)...)
	secure := newEndpoint(t, port)
	secure.await(t, "/readyz", http.StatusOK)
	token, _ := tokens(t, client)

	for i, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
		node := join(t, client, fmt.Sprintf("node-%03d", i+1))
		awaitInitialized(t, client, node.Name)
		sayReady(t, client, node.Name, status)
		patch := fmt.Sprintf(`{"spec":{"podCIDR":"10.244.%[1]d.0/24","podCIDRs":["10.244.%[1]d.0/24"]}}`, i+1)
		if _, err := client.CoreV1().Nodes().Patch(t.Context(), node.Name, strategic, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitRouted(t, client, node.Name)
	}
	balance(t, client, "idle")

	counted := func() []float64 { return countersOf(t, secure, token) }
	poll.Until(t, "two passes of each controller are silent", func(context.Context) error {
		return linesOver(t, p, 2, counted)
	})
	if err := linesOver(t, p, 5, counted); err != nil {
		t.Error(err)
	}
}

// linesOver waits for a number of passes of each controller, and returns an error if the process has logged meanwhile.
func linesOver(t *testing.T, p program, count float64, counted func() []float64) error {
	t.Helper()
	before, said := counted(), p.Output()
	poll.Until(t, fmt.Sprintf("each controller makes %v passes", count), func(context.Context) error {
		for i, now := range counted() {
			if now < before[i]+count {
				return fmt.Errorf("%s went from %v to %v", passes[i], before[i], now)
			}
		}
		return nil
	})
	if lines := strings.TrimPrefix(p.Output(), said); lines != "" {
		return fmt.Errorf("over %v passes in which nothing changed it logged:\n%s", count, lines)
	}
	return nil
}

// countersOf reads the counters of passes.
func countersOf(t *testing.T, secure endpoint, token string) []float64 {
	t.Helper()
	status, body, err := secure.get(t, "/metrics", token)
	if err != nil || status != http.StatusOK {
		t.Fatalf("/metrics is answered with %d, %v", status, err)
	}
	counters := make([]float64, len(passes))
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		for i, name := range passes {
			if value, found := strings.CutPrefix(lines.Text(), name); found {
				if counters[i], err = strconv.ParseFloat(value, 64); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return counters
}

// awaitRouted waits until a node's condition says that there is a route to it.
func awaitRouted(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	poll.Until(t, "there is a route to node "+name, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeNetworkUnavailable && condition.Status == corev1.ConditionFalse {
				return nil
			}
		}
		return errors.New("its condition does not say so")
	})
}

// balance makes a Service with a load balancer and waits for its address. It is gone, balancer and all, when the test ends.
func balance(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	services := client.CoreV1().Services("default")
	_, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The manager has ended by then: no other process takes the finalizer off.
		ctx := cleanUp(t)
		if _, err := services.Patch(ctx, name, strategic, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Errorf("taking the finalizer off Service %s: %v", name, err)
		}
		if err := services.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting Service %s: %v", name, err)
		}
	})
	poll.Until(t, "Service "+name+" has an address", func(ctx context.Context) error {
		found, err := services.Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(found.Status.LoadBalancer.Ingress) == 0 {
			err = errors.New("it has none")
		}
		return err
	})
}
