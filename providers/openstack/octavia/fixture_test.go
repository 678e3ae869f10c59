package octavia

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/openstack/octaviatest"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
)

const cluster, clusterUID = "kubernetes", types.UID("cluster-uid")

// fixture is load balancers on the simulated services.
type fixture struct {
	t         *testing.T
	cloud     others
	balancers *Balancers
	ctx       context.Context
}

// others is the cloud as others than the balancers change it. Some time passes before that is looked at, so no list is shared that began before.
type others struct {
	*octaviatest.Cloud
	later func()
}

// Set changes attributes of an object.
func (o others) Set(kind, id string, attributes octaviatest.Object) {
	o.Cloud.Set(kind, id, attributes)
	o.later()
}

// Put makes an object.
func (o others) Put(kind string, object octaviatest.Object) string {
	defer o.later()
	return o.Cloud.Put(kind, object)
}

// later makes every list from before too old.
func (f *fixture) later() {
	if f.balancers == nil || f.balancers.current.lists == nil {
		return
	}
	lists := f.balancers.current.lists
	lists.lock.Lock()
	defer lists.lock.Unlock()
	for _, list := range lists.balancers {
		list.outdate()
	}
	lists.floating.outdate()
	lists.groups.outdate()
	lists.external.outdate()
}

// outdate has no list count that began before.
func (s *shared[T]) outdate() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.last = nil
}

func newFixture(t *testing.T, pending int, options annotations.Options) *fixture {
	t.Helper()
	f := &fixture{t: t, ctx: provider.WithClusterUID(t.Context(), clusterUID)}
	f.cloud = others{octaviatest.New(t, pending), f.later}
	octavia, neutron := f.cloud.Clients()
	clients := func(context.Context) (*gophercloud.ServiceClient, *gophercloud.ServiceClient, error) {
		return octavia, neutron, nil
	}
	f.balancers = New(clients, func() annotations.Options { return options })
	return f
}

func web(annotated ...string) *v1.Service {
	service := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid", Annotations: map[string]string{}},
		Spec: v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer, Ports: []v1.ServicePort{
			{Name: "http", Protocol: v1.ProtocolTCP, Port: 80, NodePort: 30080},
			{Name: "https", Protocol: v1.ProtocolTCP, Port: 443, NodePort: 30443},
		}},
	}
	for i := 0; i+1 < len(annotated); i += 2 {
		service.Annotations[annotated[i]] = annotated[i+1]
	}
	return service
}

// nodes returns nodes with addresses of the simulated network.
func nodes(numbers ...int) []*v1.Node {
	var all []*v1.Node
	for _, number := range numbers {
		all = append(all, &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", number), Labels: map[string]string{"number": fmt.Sprint(number)}},
			Spec:       v1.NodeSpec{ProviderID: fmt.Sprintf("openstack:///server-%d", number)},
			Status: v1.NodeStatus{Addresses: []v1.NodeAddress{
				{Type: v1.NodeHostName, Address: "node"}, {Type: v1.NodeInternalIP, Address: fmt.Sprintf("10.0.0.%d", number)}}},
		})
	}
	return all
}

// putPorts makes the ports of nodes.
func (f *fixture) putPorts(numbers ...int) {
	for _, number := range numbers {
		f.cloud.Put(octaviatest.Ports, octaviatest.Object{"device_id": fmt.Sprintf("server-%d", number), "security_groups": []string{"default"},
			"revision_number": 1, "fixed_ips": []any{map[string]any{"ip_address": fmt.Sprintf("10.0.0.%d", number), "subnet_id": "nodes"}}})
	}
}

// ensure ensures until no answer is "come again", and returns the status and how many answers were.
func (f *fixture) ensure(service *v1.Service, of []*v1.Node) (*v1.LoadBalancerStatus, int) {
	f.t.Helper()
	for again := range 50 {
		status, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, service, of)
		if err == nil {
			return status, again
		}
		if !comesAgain(err) {
			f.t.Fatalf("ensure: %v", err)
		}
		f.later()
	}
	f.t.Fatal("ensure: 50 answers are to come again")
	return nil, 0
}

func (f *fixture) delete(service *v1.Service) {
	f.t.Helper()
	for range 50 {
		err := f.balancers.EnsureLoadBalancerDeleted(f.ctx, cluster, service)
		if err == nil {
			return
		}
		if !comesAgain(err) {
			f.t.Fatalf("delete: %v", err)
		}
		f.later()
	}
	f.t.Fatal("delete: 50 answers are to come again")
}

func comesAgain(err error) bool {
	var retry *cloudproviderapi.RetryError
	return errors.As(err, &retry) && retry.RetryAfter() == comeAgain
}

// wantCalls compares the calls since it was last asked.
func (f *fixture) wantCalls(when string, want ...string) {
	f.t.Helper()
	if got := f.cloud.Calls(); !slices.Equal(got, want) {
		f.t.Errorf("%s:\n got calls %q\nwant calls %q", when, got, want)
	}
}

// addresses returns what a status shows.
func addresses(status *v1.LoadBalancerStatus) string {
	text := ""
	for _, ingress := range status.Ingress {
		text += ingress.IP + ingress.Hostname
		if ingress.IPMode != nil {
			text += " " + string(*ingress.IPMode)
		}
	}
	return text
}

// values returns an attribute of all objects of a kind.
func (f *fixture) values(kind, attribute string) []string {
	var all []string
	for _, object := range f.cloud.All(kind) {
		all = append(all, fmt.Sprint(object[attribute]))
	}
	return all
}
