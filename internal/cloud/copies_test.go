package cloud

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// altering is a plugin that changes all that it is given, and keeps what it returns.
type altering struct {
	plugin
	routes   []*cloudprovider.Route
	status   v1.LoadBalancerStatus
	balancer []provider.LoadBalancer
}

func alter(nodes ...*v1.Node) {
	for _, node := range nodes {
		node.Labels["altered"] = "by the plugin"
	}
	slices.Reverse(nodes)
}

func (a *altering) InstancesV2() (cloudprovider.InstancesV2, bool) { return alteringInstances{}, true }
func (a *altering) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return alteringBalancers{a: a}, true
}
func (a *altering) Routes() (cloudprovider.Routes, bool) { return alteringRoutes{a}, true }
func (a *altering) Capabilities() provider.Capabilities {
	return provider.Capabilities{
		ListLoadBalancers: func(context.Context, string) ([]provider.LoadBalancer, error) { return a.balancer, nil },
		ChangeTargets: func(_ context.Context, _ string, _ *v1.Service, add, remove []*v1.Node) error {
			alter(add...)
			alter(remove...)
			return nil
		},
		ReplaceRoute: func(_ context.Context, _ string, old, replacement *cloudprovider.Route) error {
			old.TargetNode, replacement.TargetNodeAddresses[0].Address = "altered", "altered"
			return nil
		},
		ChangeRoutes: func(_ context.Context, _ string, changes []provider.RouteChange) ([]error, error) {
			changes[0].New.TargetNode = "altered"
			changes[0].Old = nil
			return make([]error, len(changes)), nil
		},
	}
}

type alteringInstances struct{}

func (alteringInstances) InstanceExists(_ context.Context, node *v1.Node) (bool, error) {
	alter(node)
	return true, nil
}

func (alteringInstances) InstanceShutdown(_ context.Context, node *v1.Node) (bool, error) {
	alter(node)
	return false, nil
}

func (alteringInstances) InstanceMetadata(_ context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	alter(node)
	return &cloudprovider.InstanceMetadata{}, nil
}

type alteringBalancers struct {
	cloudprovider.LoadBalancer
	a *altering
}

func (b alteringBalancers) EnsureLoadBalancer(_ context.Context, _ string, _ *v1.Service, nodes []*v1.Node) (*v1.LoadBalancerStatus, error) {
	alter(nodes...)
	return &b.a.status, nil
}

func (b alteringBalancers) UpdateLoadBalancer(_ context.Context, _ string, _ *v1.Service, nodes []*v1.Node) error {
	alter(nodes...)
	return nil
}

func (b alteringBalancers) GetLoadBalancer(context.Context, string, *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	return &b.a.status, true, nil
}

type alteringRoutes struct{ a *altering }

func (r alteringRoutes) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	return r.a.routes, nil
}
func (r alteringRoutes) CreateRoute(_ context.Context, _, _ string, route *cloudprovider.Route) error {
	route.TargetNodeAddresses[0].Address = "altered"
	return nil
}

func (r alteringRoutes) DeleteRoute(_ context.Context, _ string, route *cloudprovider.Route) error {
	route.TargetNode = "altered"
	return nil
}

// TestArgumentsAreNotShared: what a plugin does to its arguments is seen by no caller and no other call.
func TestArgumentsAreNotShared(t *testing.T) {
	ctx, behind := t.Context(), Decorate(&altering{}, Options{})
	instances, _ := behind.InstancesV2()
	balancers, _ := behind.LoadBalancer()
	routing, _ := behind.Routes()
	offered := provider.CapabilitiesOf(behind)
	for name, call := range map[string]func(nodes []*v1.Node, route *cloudprovider.Route) error{
		"InstanceExists": func(n []*v1.Node, _ *cloudprovider.Route) error {
			_, err := instances.InstanceExists(ctx, n[0])
			return err
		},
		"InstanceShutdown": func(n []*v1.Node, _ *cloudprovider.Route) error {
			_, err := instances.InstanceShutdown(ctx, n[0])
			return err
		},
		"InstanceMetadata": func(n []*v1.Node, _ *cloudprovider.Route) error {
			_, err := instances.InstanceMetadata(ctx, n[0])
			return err
		},
		"EnsureLoadBalancer": func(n []*v1.Node, _ *cloudprovider.Route) error {
			_, err := balancers.EnsureLoadBalancer(ctx, "c", serviceNamed("s"), n)
			return err
		},
		"UpdateLoadBalancer": func(n []*v1.Node, _ *cloudprovider.Route) error {
			return balancers.UpdateLoadBalancer(ctx, "c", serviceNamed("s"), n)
		},
		"ChangeTargets": func(n []*v1.Node, _ *cloudprovider.Route) error {
			return offered.ChangeTargets(ctx, "c", serviceNamed("s"), n, n)
		},
		"CreateRoute":  func(_ []*v1.Node, r *cloudprovider.Route) error { return routing.CreateRoute(ctx, "c", "", r) },
		"DeleteRoute":  func(_ []*v1.Node, r *cloudprovider.Route) error { return routing.DeleteRoute(ctx, "c", r) },
		"ReplaceRoute": func(_ []*v1.Node, r *cloudprovider.Route) error { return offered.ReplaceRoute(ctx, "c", r, r) },
		"ChangeRoutes": func(_ []*v1.Node, r *cloudprovider.Route) error {
			_, err := offered.ChangeRoutes(ctx, "c", []provider.RouteChange{{New: r}})
			return err
		},
	} {
		nodes := []*v1.Node{nodeNamed("a"), nodeNamed("b")}
		for _, node := range nodes {
			node.Labels = map[string]string{}
		}
		route := &cloudprovider.Route{TargetNode: "a", DestinationCIDR: "10.0.0.0/24", TargetNodeAddresses: []v1.NodeAddress{{Address: "192.0.2.1"}}}
		if err := call(nodes, route); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if nodes[0].Name != "a" || len(nodes[0].Labels)+len(nodes[1].Labels) > 0 {
			t.Errorf("%s: the caller's nodes are %s %v and %s %v", name, nodes[0].Name, nodes[0].Labels, nodes[1].Name, nodes[1].Labels)
		}
		if route.TargetNode != "a" || route.TargetNodeAddresses[0].Address != "192.0.2.1" {
			t.Errorf("%s: the caller's route is %+v", name, route)
		}
	}
}

// TestTargetsAreCopiedOnce: calls with one list share the copies of what its nodes point to, and each gets nodes and a list of its own.
// Another list of that length is another one.
func TestTargetsAreCopiedOnce(t *testing.T) {
	var copied targets
	listOf := func(round int) []*v1.Node {
		nodes := make([]*v1.Node, 1000)
		for i := range nodes {
			nodes[i] = nodeNamed(fmt.Sprint(round, "-", i))
			nodes[i].Labels = map[string]string{"round": fmt.Sprint(round)}
		}
		return nodes
	}
	lists := [][]*v1.Node{listOf(0), listOf(1)}
	for round, nodes := range slices.Concat(lists, lists) {
		first := copied.copiesOf(nodes)
		slices.Reverse(first)
		first[0].Labels = map[string]string{"altered": "by the plugin"}
		second := copied.copiesOf(nodes)
		if round == 1 {
			runtime.GC()
		}
		if want, got := nodes[999], second[999]; want == got || want.Name != got.Name || !maps.Equal(want.Labels, got.Labels) {
			t.Fatalf("round %d: the second call got %s with %v, want a copy of %s", round, got.Name, got.Labels, want.Name)
		}
	}
	nodes := listOf(0)
	if allocated := testing.AllocsPerRun(100, func() { copied.copiesOf(nodes) }); allocated > 1000 {
		t.Errorf("%v allocations for each call with 1,000 nodes, want fewer than one for each node", allocated)
	}
	if copied.copiesOf(nil) != nil {
		t.Error("no list became one")
	}
}

// TestAnswersAreNotShared: a plugin may keep and change what it has returned.
func TestAnswersAreNotShared(t *testing.T) {
	ctx := t.Context()
	a := &altering{
		routes:   []*cloudprovider.Route{{TargetNode: "a"}},
		status:   v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: "192.0.2.1"}}},
		balancer: []provider.LoadBalancer{{Status: v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: "192.0.2.1"}}}, Ports: []v1.ServicePort{{Port: 1}}}},
	}
	behind := Decorate(a, Options{})
	balancers, _ := behind.LoadBalancer()
	routing, _ := behind.Routes()
	made, err := balancers.EnsureLoadBalancer(ctx, "c", serviceNamed("s"), nil)
	if err != nil {
		t.Fatal(err)
	}
	found, _, _ := balancers.GetLoadBalancer(ctx, "c", serviceNamed("s"))
	listed, _ := provider.CapabilitiesOf(behind).ListLoadBalancers(ctx, "c")
	routes, _ := routing.ListRoutes(ctx, "c")
	a.routes[0].TargetNode, a.status.Ingress[0].IP, a.balancer[0].Status.Ingress[0].IP, a.balancer[0].Ports[0].Port = "altered", "altered", "altered", 2
	for name, got := range map[string]string{
		"EnsureLoadBalancer": made.Ingress[0].IP, "GetLoadBalancer": found.Ingress[0].IP, "ListLoadBalancers": listed[0].Status.Ingress[0].IP,
	} {
		if got != "192.0.2.1" {
			t.Errorf("%s: the answer changed to %s", name, got)
		}
	}
	if routes[0].TargetNode != "a" || listed[0].Ports[0].Port != 1 {
		t.Errorf("answers changed to %+v and %+v", routes[0], listed[0])
	}
}
