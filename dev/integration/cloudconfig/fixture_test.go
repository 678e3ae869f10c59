package cloudconfig_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	managers "github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/harness/harnesstest"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	processes "github.com/mooring-ccm/mooring/dev/program"
)

const namespace = "default"

// daemon starts the manager as it is shipped, under the shipped rights. It is killed when the test ends, and its log is shown if that failed.
func daemon(t *testing.T, args ...string) *processes.Program {
	t.Helper()
	path, err := program()
	must.NoError(t, err)
	return harnesstest.Start(t, harnesstest.Of(t, cluster), managers.Manager{Name: "manager", Path: path, Identity: managers.Mooring, Flags: append([]string{
		"--cloud-provider=metal", "--graceful-shutdown-timeout=5s",
		// A busy machine must not cost the lease, and the next test takes it over when this one's daemon was killed.
		"--leader-elect-lease-duration=15s",
	}, args...)})
}

// hostAddress is an address of this machine that a route may lead to.
func hostAddress(t *testing.T) netip.Addr {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	must.NoError(t, err)
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && prefix.Addr().Is4() && prefix.Addr().IsGlobalUnicast() {
			return prefix.Addr()
		}
	}
	t.Fatal("this machine has no IPv4 address but those of its loopback interface")
	return netip.Addr{}
}

// joinPlain creates a node as a kubelet without --cloud-provider=external does: without a taint, without a provider ID. What answers for
// its kube-proxy is this process, at the port that is returned.
func joinPlain(t *testing.T, name string) (port int) {
	t.Helper()
	address := hostAddress(t)
	listener, err := net.Listen("tcp", net.JoinHostPort(address.String(), "0"))
	must.NoError(t, err)
	proxy := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = proxy.Serve(listener) })
	t.Cleanup(func() {
		_ = proxy.Close()
		serving.Wait()
	})
	node, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must.NoError(t, err)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.String()}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
	_, err = admin.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	must.NoError(t, err)
	t.Cleanup(func() {
		must.NoError(t, admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}))
	})
	return listener.Addr().(*net.TCPAddr).Port
}

// untouched returns a function that fails the test if anything of the nodes has changed meanwhile.
func untouched(t *testing.T) func() {
	t.Helper()
	versions := func() []string {
		nodes, err := admin.CoreV1().Nodes().List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
		must.NoError(t, err)
		var all []string
		for _, node := range nodes.Items {
			all = append(all, fmt.Sprintf("%s at %s with taints %v, provider ID %q and conditions %d", node.Name, node.ResourceVersion, node.Spec.Taints,
				node.Spec.ProviderID, len(node.Status.Conditions)))
		}
		return all
	}
	before := versions()
	return func() {
		t.Helper()
		if after := versions(); !slices.Equal(before, after) {
			t.Errorf("the nodes were %q and are %q", before, after)
		}
	}
}

// serve creates a Service of type LoadBalancer with an endpoint on a node. The pool is the one that it asks for; empty is any.
func serve(t *testing.T, name, pool, node string) {
	t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{}}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}},
	}}
	if pool != "" {
		service.Annotations["metallb.io/address-pool"] = pool
	}
	_, err := admin.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{})
	must.NoError(t, err)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](80)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.9"}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}
	_, err = admin.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), slice, metav1.CreateOptions{})
	must.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = admin.DiscoveryV1().EndpointSlices(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		_ = admin.CoreV1().Services(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		_, _ = admin.CoreV1().Services(namespace).Patch(ctx, name, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
}

// address waits until a Service shows an address that begins so, and returns it.
func address(t *testing.T, name, prefix string) (addr netip.Addr) {
	t.Helper()
	poll.Until(t, "service "+name+" has an address", func(ctx context.Context) error {
		service, err := admin.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			if strings.HasPrefix(ingress.IP, prefix) {
				addr = netip.MustParseAddr(ingress.IP)
				return nil
			}
		}
		return fmt.Errorf("its status is %+v", service.Status)
	})
	return addr
}

// router is a BGP router in this process, which takes what the daemon announces.
type router struct {
	t      *testing.T
	server *server.BgpServer
	port   string
}

func newRouter(t *testing.T) *router {
	t.Helper()
	r := &router{t: t, server: server.NewBgpServer(), port: localclustertest.FreePort(t)}
	go r.server.Serve()
	port, err := strconv.ParseInt(r.port, 10, 32)
	must.NoError(t, err)
	must.NoError(t, r.server.StartBgp(t.Context(), &api.StartBgpRequest{Global: &api.Global{
		Asn: 64512, RouterId: "192.0.2.254", ListenPort: int32(port), ListenAddresses: []string{"127.0.0.1"},
	}}))
	must.NoError(t, r.server.AddPeer(t.Context(), &api.AddPeerRequest{Peer: &api.Peer{
		Conf:      &api.PeerConf{NeighborAddress: "127.0.0.1", PeerAsn: 64512},
		Transport: &api.Transport{PassiveMode: true},
	}}))
	t.Cleanup(func() { must.NoError(t, r.server.StopBgp(context.WithoutCancel(t.Context()), &api.StopBgpRequest{})) })
	return r
}

// has returns an error unless the router has a route to an address.
func (r *router) has(addr netip.Addr) error {
	found := false
	err := r.server.ListPath(apiutil.ListPathRequest{TableType: global, Family: bgp.RF_IPv4_UC}, func(prefix bgp.NLRI, paths []*apiutil.Path) {
		found = found || prefix.String() == addr.String()+"/32" && len(paths) > 0
	})
	if err == nil && !found {
		err = fmt.Errorf("the router has no route to %s", addr)
	}
	return err
}

// keeps watches that the router has a route to an address all the time, until the function is called that it returns.
func (r *router) keeps(addr netip.Addr) (until func()) {
	r.t.Helper()
	poll.Until(r.t, "a route to "+addr.String(), func(context.Context) error { return r.has(addr) })
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		var lost error
		for {
			select {
			case <-stop:
				done <- lost
				return
			case <-tick.C:
				lost = errors.Join(lost, r.has(addr))
			}
		}
	}()
	return func() {
		r.t.Helper()
		close(stop)
		if err := <-done; err != nil {
			r.t.Errorf("the route was withdrawn: %.200v", err)
		}
	}
}

// ends waits until a daemon has ended with an error, and its log holds a text.
func ends(t *testing.T, ended *processes.Program, text string) {
	t.Helper()
	code := localclustertest.AwaitEnd(t, ended)
	log, err := os.ReadFile(ended.LogPath())
	must.NoError(t, err)
	if code == 0 || !strings.Contains(string(log), text) {
		t.Errorf("exit code %d, want another one; the log does not hold %q:\n%s", code, text, log)
	}
}
