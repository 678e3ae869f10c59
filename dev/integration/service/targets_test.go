package service_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/controller/service"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// Who is a target: initialized, not foreign, not excluded, not announced to go. Ready or not makes no difference.
func TestTargets(t *testing.T) {
	running, plugin := simulate(t, 8, api.Knobs{})
	member := func(number int, edits ...func(*corev1.Node)) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(number)}, Spec: corev1.NodeSpec{ProviderID: "sim://" + instanceID(number)}}
		for _, edit := range edits {
			edit(node)
		}
		createNode(t, node)
	}
	taint := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	member(1)
	member(2, func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	})
	member(3, taint(cloudproviderapi.TaintExternalCloudProvider))
	member(4, func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""} })
	member(5, taint("ToBeDeletedByClusterAutoscaler"))
	member(6, func(n *corev1.Node) { n.Annotations = map[string]string{ownership.AnnotationIgnore: "true"} })
	member(7, func(n *corev1.Node) { n.Spec.ProviderID = "aws:///z/i-7" })
	member(8, func(n *corev1.Node) { n.Spec.ProviderID = "" }) // initialized by others: nothing says that it is foreign
	startManager(t, cluster, plugin)
	const name = "targets"
	createService(t, name)
	waitReady(t, name, "True Provided")
	waitTargets(t, running, name, 1, 2, 8)

	changeNode(t, nodeName(3), func(n *corev1.Node) { n.Spec.Taints = nil }) // initialized
	waitTargets(t, running, name, 1, 2, 3, 8)
	changeNode(t, nodeName(4), func(n *corev1.Node) { n.Labels = nil })
	waitTargets(t, running, name, 1, 2, 3, 4, 8)
	changeNode(t, nodeName(1), func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: "true"} })
	waitTargets(t, running, name, 2, 3, 4, 8)
	changeNode(t, nodeName(5), func(n *corev1.Node) { n.Spec.Taints = nil }) // the autoscaler has changed its mind
	waitTargets(t, running, name, 2, 3, 4, 5, 8)
	changeNode(t, nodeName(6), func(n *corev1.Node) { n.Annotations = nil })
	waitTargets(t, running, name, 2, 3, 4, 5, 6, 8)
	// The taint alone changes nothing; the next change takes the node out.
	changeNode(t, nodeName(5), taint("ToBeDeletedByClusterAutoscaler"))
	deleteNode(t, nodeName(6))
	waitTargets(t, running, name, 2, 3, 4, 8)
	if n := running.Service.Counts().Received(api.OpUpdateLoadBalancer); n != 6 {
		t.Errorf("%d updates, want one for each of the six changes", n)
	}
	waitEvents(t, name, "Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer", "Normal UpdatedLoadBalancer")
}

// Without any node that may be a target there is a load balancer, and a Service that says what it lacks.
func TestNoTargets(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{})
	startManager(t, cluster, plugin)
	const name = "no-targets"
	createService(t, name)
	found := waitReady(t, name, "False NoTargets")
	if len(found.Status.LoadBalancer.Ingress) != 1 {
		t.Errorf("status %+v", found.Status)
	}
	waitEvents(t, name, "Normal EnsuringLoadBalancer", "Warning UnAvailableLoadBalancer", "Normal EnsuredLoadBalancer")
	joinNodes(t, 1)
	waitReady(t, name, "True Provided")
	waitTargets(t, running, name, 1)
	deleteNode(t, nodeName(1))
	waitReady(t, name, "False NoTargets")
	waitTargets(t, running, name)
}

// A burst of 200 nodes is one update for each of 200 load balancers, however their writes are spread over the cloud.
func TestBurst(t *testing.T) {
	const services, nodes = 200, 200
	running, plugin := simulate(t, nodes, api.Knobs{PageSize: 500})
	// Nodes that a busy machine creates with pauses are still one burst.
	m := startManager(t, cluster, plugin, func(o *service.Options) {
		o.TargetQuiet, o.TargetDelay, o.Writes = 10*time.Second, time.Minute, 8
	})
	createServices(t, services)
	provided := func(context.Context) error {
		if got := m.Metric(t, "mooring_service_load_balancers", "state", "provided"); got != services {
			return fmt.Errorf("%v are provided", got)
		}
		return nil
	}
	poll.Until(t, "200 Services have their load balancers", provided)
	if n := running.Service.Counts().Received(writeOps...); n != services {
		t.Errorf("%d writes for %d Services", n, services)
	}
	eachOf(t, nodes, func(i int) { newNode(t, i+1) })
	t.Cleanup(func() { eachOf(t, nodes, func(i int) { deleteNode(t, nodeName(i+1)) }) })
	poll.Until(t, "all load balancers have all nodes", func(context.Context) error {
		for name, balancer := range balancers(t, running) {
			if len(balancer.Targets) != nodes {
				return fmt.Errorf("%s has %d", name, len(balancer.Targets))
			}
		}
		return nil
	})
	poll.Until(t, "the change of nodes is through", func(context.Context) error {
		if m.Metric(t, "service_controller_nodesync_latency_seconds") != 1 {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	if n := running.Service.Counts().Received(api.OpUpdateLoadBalancer); n != services {
		t.Errorf("%d updates for %d load balancers", n, services)
	}
	if got := m.Metric(t, "service_controller_loadbalancer_sync_total"); got != services {
		t.Errorf("%v changes of targets were counted, want %d", got, services)
	}
	m.Stop()
	// Two to make each, and one when it got its first target.
	if writes := m.writesOf(t, ""); len(writes) != 3*services {
		t.Errorf("%d writes to %d Services, want three to each", len(writes), services)
	}
}

// TestABurstOfFailures: failing nodes stay targets as long as they exist. The controller removes deleted nodes from a load balancer together: a burst
// costs one update of each load balancer, at most two. Heartbeats cause no update.
func TestABurstOfFailures(t *testing.T) {
	const services, nodes, failing, gone = 30, 60, 30, 15
	running, plugin := simulate(t, nodes, api.Knobs{PageSize: 500})
	t.Cleanup(func() { eachOf(t, nodes, func(i int) { deleteNode(t, nodeName(i+1)) }) })
	eachOf(t, nodes, func(i int) { newNode(t, i+1) })
	m := startManager(t, cluster, plugin)
	createServices(t, services)
	poll.Until(t, "all Services have their load balancers", func(context.Context) error {
		if got := m.Metric(t, "mooring_service_load_balancers", "state", "provided"); got != services {
			return fmt.Errorf("%v are provided", got)
		}
		return nil
	})
	eachOf(t, nodes, func(i int) {
		status := corev1.ConditionTrue
		if i < failing {
			status = corev1.ConditionUnknown
		}
		beat(t, i+1, status)
	})
	eachOf(t, gone, func(i int) { deleteNode(t, nodeName(i+1)) })
	poll.Until(t, "all load balancers have the nodes that are left", func(context.Context) error {
		for name, balancer := range balancers(t, running) {
			if len(balancer.Targets) != nodes-gone {
				return fmt.Errorf("%s has %d targets", name, len(balancer.Targets))
			}
		}
		return nil
	})
	// A further change has reached the cloud, which shows that no other update was pending.
	deleteNode(t, nodeName(nodes))
	poll.Until(t, "the last change is through", func(context.Context) error {
		for name, balancer := range balancers(t, running) {
			if len(balancer.Targets) != nodes-gone-1 {
				return fmt.Errorf("%s has %d targets", name, len(balancer.Targets))
			}
		}
		return nil
	})
	if n := running.Service.Counts().Received(api.OpUpdateLoadBalancer); n > (2+1)*services {
		t.Errorf("%d updates for %d load balancers, want at most two for the burst and one for the last change", n, services)
	}
	m.Stop()
	if writes := m.writesOf(t, ""); len(writes) != 2*services {
		t.Errorf("%d writes to %d Services, want the two that made each", len(writes), services)
	}
}

// newNode creates the initialized node of an instance.
func newNode(t *testing.T, number int) {
	_, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(number)}, Spec: corev1.NodeSpec{ProviderID: "sim://" + instanceID(number)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Error(err)
	}
}

// beat writes the condition Ready of a node, like its kubelet, or like the controller that misses heartbeats.
func beat(t *testing.T, number int, ready corev1.ConditionStatus) {
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"lastHeartbeatTime":%q}]}}`, ready, time.Now().Format(time.RFC3339))
	_, err := admin.CoreV1().Nodes().PatchStatus(t.Context(), nodeName(number), []byte(patch))
	if err != nil {
		t.Error(err)
	}
}

// createServices creates Services named many-N, and sees to it that they are gone when the test ends.
func createServices(t *testing.T, count int) {
	t.Helper()
	eachOf(t, count, func(i int) {
		_, err := admin.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("many-%d", i)},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { eachOf(t, count, func(i int) { strip(t, fmt.Sprintf("many-%d", i)) }) })
}

// eachOf does something for each of the numbers below count, several at once.
func eachOf(t *testing.T, count int, do func(int)) {
	t.Helper()
	places := make(chan struct{}, 16)
	var wait sync.WaitGroup
	for i := range count {
		places <- struct{}{}
		wait.Go(func() {
			defer func() { <-places }()
			do(i)
		})
	}
	wait.Wait()
}

// An update that fails is reported and counted, and made good: by an Ensure or, if that fails too, by another update.
func TestAFailedUpdateIsMadeGood(t *testing.T) {
	running, plugin := simulate(t, 2, api.Knobs{})
	joinNodes(t, 1)
	m := startManager(t, cluster, plugin)
	const name = "failed-update"
	createService(t, name)
	waitReady(t, name, "True Provided")
	must.NoError(t, running.Service.AddFault(api.Fault{Operation: api.OpUpdateLoadBalancer, Mode: api.FaultStatus, Status: 500, Count: 2}))
	joinNodes(t, 2)
	waitTargets(t, running, name, 1, 2)
	waitReady(t, name, "True Provided")
	waitEvents(t, name, "Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer", "Warning UpdateLoadBalancerFailed",
		"Normal UpdatedLoadBalancer")
	if got := m.Metric(t, "service_controller_nodesync_error_total"); got != 1 {
		t.Errorf("%v errors were counted, want 1", got)
	}
}

// A load balancer that is not found when its targets are to be changed is not made anew for that: a second one has another address. When the cloud
// finds it again, its targets follow.
func TestAnUpdateOfWhatIsNotFoundMakesNoSecond(t *testing.T) {
	running, plugin := simulate(t, 2, api.Knobs{})
	joinNodes(t, 1)
	startManager(t, cluster, plugin)
	const name = "gone-update"
	createService(t, name)
	waitReady(t, name, "True Provided")
	must.NoError(t, running.Client.DeleteLoadBalancer(t.Context(), balancers(t, running)[name].Name, 0))
	joinNodes(t, 2)
	waitReady(t, name, "False NotFound")
	if n := running.Service.Counts().Received(api.OpCreateLoadBalancer); n != 1 {
		t.Errorf("%d load balancers were created", n)
	}
}
