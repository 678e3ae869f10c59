package service_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	ctrl "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/service"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

const (
	// namespace is where the Services of the tests are.
	namespace = "default"
	// never is a period that no test lives to see the end of.
	never = -1
	// ours is the load balancer class of the manager under test where it has one.
	ours = "mooring.dev/lb"
)

// manager is a cloud controller manager that runs nothing but the service controller.
type manager struct{ *harness.Manager }

// startManager runs the service controller until the test ends, with the rights that ship and nothing else. Unless the edits
// say otherwise it retries soon, follows nodes soon, and never compares load balancers with the cloud.
func startManager(t *testing.T, in *localcluster.Cluster, plugin cloudprovider.Interface, edits ...func(*service.Options)) manager {
	t.Helper()
	return manager{harness.Start(t, harness.Options{Cluster: in, Component: service.Name, Build: builder(plugin, edits...)})}
}

// builder returns what makes the controller.
func builder(plugin cloudprovider.Interface, edits ...func(*service.Options)) func(harness.Parts) (ctrl.Runnable, error) {
	return func(parts harness.Parts) (ctrl.Runnable, error) {
		decorated := cloud.Decorate(plugin, cloud.Options{Registerer: parts.Registry})
		rules := ownership.Rules{ProviderName: plugin.ProviderName(), Schemes: provider.CapabilitiesOf(plugin).ProviderIDSchemes}
		options := service.Options{
			Client: parts.GetClient(), LiveReader: parts.GetAPIReader(), Cache: parts.GetCache(), Recorder: parts.Recorder,
			Cloud: decorated, ClusterName: "kubernetes", Owners: rules,
			Classes: service.Classes{Default: true}, Registerer: parts.Registry, Logger: parts.Logger,
			TargetQuiet: 300 * time.Millisecond, TargetDelay: 20 * time.Second,
			FirstRetry: 50 * time.Millisecond, LongestRetry: time.Second, DriftCheckPeriod: never,
		}
		for _, edit := range edits {
			edit(&options)
		}
		return service.New(options)
	}
}

// simulate starts the simulated cloud, with as many instances as nodes are needed, and returns it with its provider.
func simulate(t *testing.T, instances int, knobs api.Knobs) (*simtest.Cloud, *sim.Cloud) {
	t.Helper()
	return harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(instances), Knobs: knobs})
}

// nodeName and instanceID are those of the simulated cloud's instances, counted from one.
func nodeName(number int) string   { return fmt.Sprintf("node-%03d", number) }
func instanceID(number int) string { return fmt.Sprintf("i-%08d", number) }

// joinNodes creates initialized nodes for instances, and deletes them when the test ends.
func joinNodes(t *testing.T, numbers ...int) {
	t.Helper()
	for _, number := range numbers {
		createNode(t, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName(number)}, Spec: corev1.NodeSpec{ProviderID: "sim://" + instanceID(number)},
		})
	}
}

func createNode(t *testing.T, node *corev1.Node) {
	t.Helper()
	_, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	must.NoError(t, err)
	t.Cleanup(func() { deleteNode(t, node.Name) })
}

func deleteNode(t *testing.T, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), poll.Deadline)
	defer cancel()
	if err := admin.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func changeNode(t *testing.T, name string, edit func(*corev1.Node)) {
	t.Helper()
	harness.ChangeNode(t, admin, name, edit)
}

// serviceUIDs are the UIDs of the Services that tests have made last, by name, existing or made up.
var serviceUIDs = map[string]types.UID{}

// createService creates a Service of type LoadBalancer, and sees to it that it is gone when the test ends.
func createService(t *testing.T, name string, edits ...func(*corev1.Service)) *corev1.Service {
	t.Helper()
	wanted := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	for _, edit := range edits {
		edit(wanted)
	}
	created, err := admin.CoreV1().Services(namespace).Create(t.Context(), wanted, metav1.CreateOptions{})
	must.NoError(t, err)
	serviceUIDs[name] = created.UID
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("events of %s: %q", name, eventsOf(t, name))
		}
		strip(t, name)
	})
	return created
}

// strip deletes what a test has left of a Service, whatever holds it.
func strip(t *testing.T, name string) {
	t.Helper()
	harness.StripService(t, admin, namespace, name)
}

func deleteService(t testing.TB, name string) {
	t.Helper()
	must.NoError(t, admin.CoreV1().Services(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

func changeService(t testing.TB, name string, edit func(*corev1.Service)) {
	t.Helper()
	harness.ChangeService(t, admin, namespace, name, edit)
}

func getService(t testing.TB, name string) *corev1.Service {
	t.Helper()
	found, err := admin.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
	must.NoError(t, err)
	return found
}
