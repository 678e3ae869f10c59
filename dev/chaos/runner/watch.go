package runner

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/chaos/checker"
	"github.com/mooring-ccm/mooring/dev/chaos/model"
)

// watchPause is between two tries to watch.
const watchPause = 200 * time.Millisecond

// watcher feeds the checker from the API server.
type watcher struct {
	client  kubernetes.Interface
	checker *checker.Checker
	faults  *faults
	now     func() time.Duration
}

// follow watches one kind of objects until ctx ends. List begins a watch anew, and see takes one event.
func follow(ctx context.Context, list func() (version string, err error), open func(version string) (watch.Interface, error), see func(watch.Event)) {
	for ctx.Err() == nil {
		version, err := list()
		if err == nil {
			err = drain(ctx, version, open, see)
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(watchPause):
			}
		}
	}
}

func drain(ctx context.Context, version string, open func(string) (watch.Interface, error), see func(watch.Event)) error {
	events, err := open(version)
	if err != nil {
		return err
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, more := <-events.ResultChan():
			if !more || event.Type == watch.Error {
				return context.Canceled
			}
			see(event)
		}
	}
}

// nodes feeds the checker with nodes.
func (w *watcher) nodes(ctx context.Context) {
	known := map[string]model.Node{}
	forget := func(node model.Node) {
		delete(known, node.Name)
		w.checker.NodeDeleted(w.now(), node)
	}
	set := func(node model.Node) {
		if old, is := known[node.Name]; is && old.UID != node.UID {
			forget(old)
		}
		known[node.Name] = node
		w.checker.NodeSeen(w.now(), node)
	}
	list := func() (string, error) {
		found, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		there := map[string]bool{}
		for i := range found.Items {
			there[found.Items[i].Name] = true
			set(nodeOf(&found.Items[i]))
		}
		for name, node := range known {
			if !there[name] {
				forget(node)
			}
		}
		return found.ResourceVersion, nil
	}
	follow(ctx, list, func(version string) (watch.Interface, error) {
		return w.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	}, func(event watch.Event) {
		node := nodeOf(event.Object.(*corev1.Node))
		if event.Type == watch.Deleted {
			forget(node)
			return
		}
		set(node)
	})
}

// services feeds the checker with Services.
func (w *watcher) services(ctx context.Context) {
	known := map[string]bool{}
	forget := func(name string) {
		delete(known, name)
		w.checker.ServiceDeleted(name)
	}
	set := func(service *corev1.Service) {
		known[service.Name] = true
		w.faults.named(cloudprovider.DefaultLoadBalancerName(service), service.Name)
		w.checker.ServiceSeen(w.now(), serviceOf(service))
	}
	list := func() (string, error) {
		found, err := w.client.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		there := map[string]bool{}
		for i := range found.Items {
			there[found.Items[i].Name] = true
		}
		for name := range known {
			if !there[name] {
				forget(name)
			}
		}
		// Those first that give an address back, which another one may have.
		slices.SortFunc(found.Items, func(a, b corev1.Service) int {
			return cmp.Compare(rank(serviceOf(&a)), rank(serviceOf(&b)))
		})
		for i := range found.Items {
			set(&found.Items[i])
		}
		return found.ResourceVersion, nil
	}
	follow(ctx, list, func(version string) (watch.Interface, error) {
		return w.client.CoreV1().Services(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	}, func(event watch.Event) {
		service := event.Object.(*corev1.Service)
		if event.Type == watch.Deleted {
			forget(service.Name)
			return
		}
		set(service)
	})
}

func rank(service model.Service) int {
	if service.Wants() {
		return 1
	}
	return 0
}

func nodeOf(node *corev1.Node) model.Node {
	_, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]
	seen := model.Node{
		Name: node.Name, UID: string(node.UID), ProviderID: node.Spec.ProviderID, PodCIDR: node.Spec.PodCIDR,
		MachineType: node.Labels[corev1.LabelInstanceTypeStable], Ready: model.Silent, Excluded: excluded, Deleting: node.DeletionTimestamp != nil,
	}
	for _, taint := range node.Spec.Taints {
		seen.Uninitialized = seen.Uninitialized || taint.Key == cloudproviderapi.TaintExternalCloudProvider
		seen.Shutdown = seen.Shutdown || taint.Key == cloudproviderapi.TaintNodeShutdown
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP {
			seen.IPs = append(seen.IPs, address.Address)
		}
	}
	slices.Sort(seen.IPs)
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			seen.Ready = model.Readiness(condition.Status)
		}
	}
	return seen
}

func serviceOf(service *corev1.Service) model.Service {
	seen := model.Service{
		Name: service.Name, UID: string(service.UID), Deleting: service.DeletionTimestamp != nil,
		Balanced: service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.Spec.LoadBalancerClass == nil,
	}
	if len(service.Spec.Ports) > 0 {
		seen.Port = service.Spec.Ports[0].Port
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		seen.Addresses = append(seen.Addresses, ingress.IP+ingress.Hostname)
	}
	slices.Sort(seen.Addresses)
	return seen
}
