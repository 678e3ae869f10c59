package provider

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/must"
)

// witness sees every change of a cluster's nodes and Services, and notes what no fault may lead to: a node that is deleted, shut down or another
// server's, and a Service without the address that it had.
type witness struct {
	mu sync.Mutex
	// concerned are the nodes that something is done to.
	concerned map[string]bool
	wrong     []string
}

// watch starts a witness, which looks until the test ends.
func watch(t *testing.T, client kubernetes.Interface) *witness {
	t.Helper()
	w := &witness{concerned: map[string]bool{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes, services := factory.Core().V1().Nodes().Informer(), factory.Core().V1().Services().Informer()
	_, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) { w.node(before.(*corev1.Node), after.(*corev1.Node)) },
		DeleteFunc: w.nodeGone,
	})
	must.NoError(t, err)
	_, err = services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) { w.service(before.(*corev1.Service), after.(*corev1.Service)) },
	})
	must.NoError(t, err)
	stop := make(chan struct{})
	factory.Start(stop)
	t.Cleanup(func() { close(stop); factory.Shutdown() })
	cache.WaitForCacheSync(stop, nodes.HasSynced, services.HasSynced)
	return w
}

// concerns says that something is about to be done to a node.
func (w *witness) concerns(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.concerned[node] = true
}

// note notes what is wrong, unless it is with a node that something is done to.
func (w *witness) note(node, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.concerned[node] {
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	}
}

func (w *witness) node(before, after *corev1.Node) {
	if slices.ContainsFunc(after.Spec.Taints, isShutdown) {
		w.note(after.Name, "node %s is tainted as shut down", after.Name)
	}
	if before.Spec.ProviderID != "" && before.Spec.ProviderID != after.Spec.ProviderID {
		w.note("", "node %s was %s and is %s", after.Name, before.Spec.ProviderID, after.Spec.ProviderID)
	}
}

func isShutdown(taint corev1.Taint) bool { return taint.Key == cloudproviderapi.TaintNodeShutdown }

func (w *witness) nodeGone(object any) {
	if last, unseen := object.(cache.DeletedFinalStateUnknown); unseen {
		object = last.Obj
	}
	if node, ok := object.(*corev1.Node); ok {
		w.note(node.Name, "node %s is deleted", node.Name)
	}
}

func (w *witness) service(before, after *corev1.Service) {
	had, has := addressesOf(before), addressesOf(after)
	if len(had) > 0 && !slices.Equal(had, has) && after.DeletionTimestamp == nil {
		w.note("", "Service %s had %q and has %q", after.Name, had, has)
	}
}

// addressesOf returns what a Service shows.
func addressesOf(service *corev1.Service) (addresses []string) {
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		addresses = append(addresses, ingress.IP)
	}
	return addresses
}

// report fails the test for what was noted, and reports whether nothing was.
func (w *witness) report(t *testing.T) bool {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, what := range w.wrong {
		t.Errorf("it should not have suffered: %s", what)
	}
	return len(w.wrong) == 0
}
