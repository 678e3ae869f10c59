package provider

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/openstack"
	"github.com/mooring-ccm/mooring/dev/openstack/faultproxy"
)

// join has twenty servers join one cluster and three of them the other, which costs no call for each.
func (w *project) join(t *testing.T) {
	var numbers []int
	for i := range nodeCount {
		numbers = append(numbers, i)
	}
	w.cloud.Faults().Reset()
	began := time.Now()
	w.harbor.register(t, numbers...)
	w.pier.register(t, numbers[:3]...)
	w.harbor.awaitInitialized(t, numbers...)
	w.pier.awaitInitialized(t, numbers[:3]...)
	must.NoError(t, w.cloud.Faults().Idle(t.Context()))
	counts, lists := faultproxy.Count(w.cloud.Faults().Calls()), 0
	for kind, count := range counts {
		switch {
		case kind.Template == "/v2.1/servers/detail":
			lists = count
		case kind.Service == "compute" && kind.Template != "/v2.1/": // the versions
			t.Errorf("%d calls %s while servers joined, want lists only", count, kind)
		}
	}
	// Each manager lists once or twice for joining nodes, and with every pass over the nodes.
	if limit := 2 * (2 + int(time.Since(began)/(2*time.Second))); lists > limit {
		t.Errorf("%d servers joined in %s by %d lists, want %d at the most:\n%s", nodeCount, time.Since(began), lists, limit, counts)
	}
}

// awaitInitialized waits until nodes have what nova and neutron say of their servers, and no taint.
func (s *site) awaitInitialized(t *testing.T, numbers ...int) {
	t.Helper()
	for _, number := range numbers {
		until(t, fmt.Sprintf("%s in %s is as nova says", serverName(number), s.name), func(ctx context.Context) error {
			node, err := s.cluster.Client.CoreV1().Nodes().Get(ctx, serverName(number), metav1.GetOptions{})
			if err != nil {
				return err
			}
			return differs(node, s.project.servers[number], s.project.cloud.Region())
		})
	}
}

// differs says in what a node is not as its server.
func differs(node *corev1.Node, server servers.Server, region string) error {
	var errs []error
	expect := func(what, got, want string) {
		if got != want {
			errs = append(errs, fmt.Errorf("%s is %q, want %q", what, got, want))
		}
	}
	waits := func(taint corev1.Taint) bool { return taint.Key == cloudproviderapi.TaintExternalCloudProvider }
	if slices.ContainsFunc(node.Spec.Taints, waits) {
		errs = append(errs, errors.New("it is not initialized"))
	}
	expect("provider ID", node.Spec.ProviderID, "openstack:///"+server.ID)
	expect("type", node.Labels[corev1.LabelInstanceTypeStable], openstack.FlavorSmall)
	expect("zone", node.Labels[corev1.LabelTopologyZone], server.AvailabilityZone)
	expect("region", node.Labels[corev1.LabelTopologyRegion], region)
	var internal []string
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			internal = append(internal, address.Address)
		}
	}
	expect("internal addresses", fmt.Sprint(internal), fmt.Sprint(addressesIn(server)))
	return errors.Join(errs...)
}

// addressesIn returns the addresses of a server as nova lists them, IPv4 first.
func addressesIn(server servers.Server) (addresses []string) {
	for _, network := range server.Addresses {
		entries, _ := network.([]any)
		for _, entry := range entries {
			fields, _ := entry.(map[string]any)
			address, _ := fields["addr"].(string)
			addresses = append(addresses, address)
		}
	}
	slices.SortFunc(addresses, func(a, b string) int { return netip.MustParseAddr(a).Compare(netip.MustParseAddr(b)) })
	return addresses
}

// routes waits for a route to the pods of every node, which the ports of the servers let through.
func (w *project) routes(t *testing.T) {
	w.awaitRoutes(t)
	until(t, "the nodes say that the network is there", func(ctx context.Context) error {
		nodes, err := w.harbor.cluster.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, node := range nodes.Items {
			ready := func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
			}
			if !slices.ContainsFunc(node.Status.Conditions, ready) {
				return fmt.Errorf("%s does not", node.Name)
			}
		}
		return nil
	})
	until(t, "the ports of the servers let packets of pods through", func(ctx context.Context) error {
		pages, err := ports.List(w.environment.Clients().Network, ports.ListOpts{NetworkID: w.environment.Network}).AllPages(ctx)
		if err != nil {
			return err
		}
		found, err := ports.ExtractPorts(pages)
		if err != nil {
			return err
		}
		allowed := map[string][]ports.AddressPair{}
		for _, port := range found {
			allowed[port.DeviceID] = port.AllowedAddressPairs
		}
		for _, number := range w.harbor.members {
			open := func(pair ports.AddressPair) bool { return pair.IPAddress == podCIDR(number) }
			if !slices.ContainsFunc(allowed[w.servers[number].ID], open) {
				return fmt.Errorf("the port of %s has %v", serverName(number), allowed[w.servers[number].ID])
			}
		}
		return nil
	})
	for kind, count := range faultproxy.Count(w.cloud.Faults().Calls()) {
		if kind.Template == "/v2.0/routers/{id}/add_extraroutes" && count > nodeCount/2 {
			t.Errorf("%d calls add %d routes", count, nodeCount)
		}
	}
}

// awaitRoutes waits until the router has a route for every node, and no other.
func (w *project) awaitRoutes(t *testing.T) {
	t.Helper()
	var want []string
	for _, number := range w.harbor.members {
		want = append(want, podCIDR(number)+" by way of "+addressesIn(w.servers[number])[0])
	}
	slices.Sort(want)
	until(t, "the router has the routes of all nodes", func(ctx context.Context) error {
		router, err := routers.Get(ctx, w.environment.Clients().Network, w.environment.Router).Extract()
		if err != nil {
			return err
		}
		var got []string
		for _, route := range router.Routes {
			got = append(got, route.DestinationCIDR+" by way of "+route.NextHop)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("it has %q, want %q", got, want)
		}
		return nil
	})
}

// serversGo has one kubelet fall silent whose server was stopped, and another one whose server was deleted.
func (w *project) serversGo(t *testing.T) {
	s := w.harbor
	s.witness.concerns(serverName(stoppedServer))
	s.witness.concerns(serverName(deletedServer))
	stopped := w.servers[stoppedServer].ID
	must.NoError(t, servers.Stop(t.Context(), w.environment.Clients().Compute, stopped).ExtractErr())
	_, err := w.environment.AwaitServer(t.Context(), stopped, "SHUTOFF")
	must.NoError(t, err)
	must.NoError(t, w.environment.DeleteServers(t.Context(), w.servers[deletedServer].ID))
	s.report(t, stoppedServer, corev1.ConditionUnknown)
	s.report(t, deletedServer, corev1.ConditionUnknown)
	s.awaitShutdown(t, stoppedServer, true)
	until(t, "the node of the deleted server is gone", func(ctx context.Context) error {
		_, err := s.cluster.Client.CoreV1().Nodes().Get(ctx, serverName(deletedServer), metav1.GetOptions{})
		if err == nil {
			return errors.New("it is there")
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	s.members = slices.DeleteFunc(s.members, func(number int) bool { return number == deletedServer })
	w.awaitRoutes(t)
	// Back before members are looked at: a node that is not ready is none.
	must.NoError(t, servers.Start(t.Context(), w.environment.Clients().Compute, stopped).ExtractErr())
	_, err = w.environment.AwaitServer(t.Context(), stopped, "ACTIVE")
	must.NoError(t, err)
	s.report(t, stoppedServer, corev1.ConditionTrue)
	s.awaitShutdown(t, stoppedServer, false)
	s.awaitServed(t, "web")
}

// awaitShutdown waits until a node has the shutdown taint, or no longer has it.
func (s *site) awaitShutdown(t *testing.T, number int, want bool) {
	t.Helper()
	until(t, fmt.Sprintf("%s is tainted as shut down: %t", serverName(number), want), func(ctx context.Context) error {
		node, err := s.cluster.Client.CoreV1().Nodes().Get(ctx, serverName(number), metav1.GetOptions{})
		if err == nil && slices.ContainsFunc(node.Spec.Taints, isShutdown) != want {
			err = fmt.Errorf("its taints are %v", node.Spec.Taints)
		}
		return err
	})
}
