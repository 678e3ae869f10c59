package tables

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/fake"
	"k8s.io/cloud-provider/names"

	"github.com/mooring-ccm/mooring/dev/reference/upstream"
	"github.com/mooring-ccm/mooring/dev/simulation/apiserver"
)

// builder makes the script of a case, anew for each manager. part counts the scripts of a test without a table, from zero.
type builder func(r *upstream.Reading, part int) (*Script, error)

// builders has one for each test function of the reference, by package and name.
var builders = map[string]builder{
	"node.Test_syncNode":                   instances(names.CloudNodeController),
	"node.Test_reconcileNodeLabels":        labelled,
	"node.TestNodeAddressesChangeDetected": addresses,
	"node.TestNodeAddressesNotUpdateV2":    instances(names.CloudNodeController),
	"node.TestNodeAddressesNotUpdate":      instances(names.CloudNodeController),
	"node.TestGetInstanceMetadata":         instances(names.CloudNodeController),
	"node.TestUpdateNodeStatus":            manyNodes,

	"nodelifecycle.Test_NodesDeleted":                   instances(names.CloudNodeLifecycleController),
	"nodelifecycle.Test_NodesShutdown":                  instances(names.CloudNodeLifecycleController),
	"nodelifecycle.Test_GetProviderID":                  instances(names.CloudNodeLifecycleController),
	"nodelifecycle.TestNewCloudNodeLifecycleController": workers,
	"nodelifecycle.TestMonitorNodesMetrics":             monitored,

	"route.TestIsResponsibleForRoute":                       responsible,
	"route.TestReconcile":                                   routes,
	"route.TestHandleNodeUpdate":                            nodeUpdate,
	"route.TestUpdateNetworkingCondition":                   networking,
	"route.TestUpdateNetworkingConditionWithCalicoScenario": networking,

	"service.TestSyncLoadBalancerIfNeeded":                    oneService("service"),
	"service.TestUpdateNodesInExternalLoadBalancer":           hostsOfServices,
	"service.TestNodeChangesForStableNodeSetEnabled":          nodeChanges,
	"service.TestNodeChangesInExternalLoadBalancer":           hostsOfServices,
	"service.TestNodesNotEqual":                               providerIDs,
	"service.TestProcessServiceCreateOrUpdate":                updatedService,
	"service.TestProcessServiceCreateOrUpdateK8sError":        statusError,
	"service.TestSyncService":                                 syncedService,
	"service.TestProcessServiceDeletion":                      deletedService,
	"service.TestNeedsCleanup":                                oneService("svc"),
	"service.TestSlowNodeSync":                                slowNodes,
	"service.TestNeedsUpdate":                                 changedService,
	"service.TestServiceCache":                                never("It tests the cache, a type of the package."),
	"service.TestAddFinalizer":                                oneService("svc"),
	"service.TestRemoveFinalizer":                             oneService("svc"),
	"service.TestPatchStatus":                                 statusOf,
	"service.Test_respectsPredicates":                         predicate,
	"service.TestListWithPredicate":                           never("Its predicate is one of its own, which no controller uses."),
	"service.Test_shouldSyncUpdatedNode_individualPredicates": changedNode,
	"service.Test_shouldSyncUpdatedNode_compoundedPredicates": changedNode,
	"service.TestServiceQueueDelay":                           failingCloud,
}

// partsOf are the scripts of a test without a table that is more than one case.
var partsOf = map[string]int{"node.TestNodeAddressesChangeDetected": 5}

// never is for tests that show nothing that an API server or a cloud could.
func never(reason string) builder {
	return func(*upstream.Reading, int) (*Script, error) { return nil, Unplayable(reason) }
}

// How long the controllers have: the node controller a status period, the others more than the pauses that the register names.
const (
	statusPeriod = 7 * time.Minute
	reaction     = 3 * time.Minute
)

// providerIDOf is the provider ID of a node to which a case gives none.
func providerIDOf(node string) string { return "fake://" + node }

// initialized makes the nodes of a script those of a cluster that works: a cloud has initialized them. Beside those of the
// lifecycle controller another one is there and reports. It is false for a script whose nodes are so already.
func (s *Script) initialized() bool {
	changed := false
	for _, node := range s.Nodes {
		tainted := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == cloudproviderapi.TaintExternalCloudProvider })
		if node.Spec.ProviderID == "" && !tainted {
			node.Spec.ProviderID, changed = providerIDOf(node.Name), true
		}
	}
	if s.Controller == names.CloudNodeLifecycleController && len(s.Nodes) > 0 {
		s.beside, changed = "beside", true
		s.Nodes = append(s.Nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: s.beside}, Spec: corev1.NodeSpec{ProviderID: providerIDOf(s.beside)},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}},
		})
	}
	return changed && s.Controller != names.ServiceLBController
}

// instances plays a node and the cloud's answers about it.
func instances(controller string) builder {
	return func(r *upstream.Reading, _ int) (*Script, error) {
		cloud, err := upstream.Value[*fake.Cloud](r, "fakeCloud")
		node, second := upstream.Value[*corev1.Node](r, "existingNode")
		script := &Script{Controller: controller, Cloud: cloud, Nodes: []*corev1.Node{node}, Lasts: statusPeriod}
		if controller == names.CloudNodeLifecycleController {
			script.Lasts = reaction
		} else {
			script.Steps = []Step{func(ctx context.Context, w *World) error { return w.Report(ctx) }}
		}
		return script, errors.Join(err, second)
	}
}

// labelled plays an initialized node that has labels.
func labelled(r *upstream.Reading, _ int) (*Script, error) {
	labels, err := upstream.Value[map[string]string](r, "labels")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node01", Labels: labels}, Spec: corev1.NodeSpec{ProviderID: providerIDOf("node01")}}
	return &Script{Controller: names.CloudNodeController, Cloud: &fake.Cloud{}, Nodes: []*corev1.Node{node}, Lasts: statusPeriod}, err
}

// addresses plays a node that has the first set of addresses while the cloud says the second one.
func addresses(r *upstream.Reading, part int) (*Script, error) {
	calls := r.Calls("nodeAddressesChangeDetected")
	if len(calls) != partsOf["node.TestNodeAddressesChangeDetected"] {
		return nil, fmt.Errorf("the test compares %d pairs of addresses", len(calls))
	}
	has, is := calls[part][1].([]corev1.NodeAddress)
	gets, second := calls[part][2].([]corev1.NodeAddress)
	if !is || !second {
		return nil, errors.New("the test compares no addresses")
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node0"}, Spec: corev1.NodeSpec{ProviderID: providerIDOf("node0")}, Status: corev1.NodeStatus{Addresses: has},
	}
	return &Script{Controller: names.CloudNodeController, Cloud: &fake.Cloud{Addresses: gets}, Nodes: []*corev1.Node{node}, Lasts: statusPeriod}, nil
}

// manyNodes plays a status pass over many nodes, which are initialized as those of a cluster are.
func manyNodes(r *upstream.Reading, _ int) (*Script, error) {
	workers, err := upstream.Value[int32](r, "workers")
	count, second := upstream.Value[int](r, "nodes")
	cloud, third := upstream.Local[*fake.Cloud](r, "fakeCloud")
	script := &Script{
		Controller: names.CloudNodeController, Cloud: cloud, Lasts: statusPeriod,
		Flags: []string{fmt.Sprintf("--concurrent-node-syncs=%d", workers), fmt.Sprintf("--concurrent-node-status-updates=%d", workers)},
	}
	for i := range count {
		name := fmt.Sprintf("node0%d", i)
		script.Nodes = append(script.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerIDOf(name)}})
	}
	return script, errors.Join(err, second, third)
}

// workers plays the number of questions at the same time as a flag.
func workers(r *upstream.Reading, _ int) (*Script, error) {
	count, err := upstream.Value[int](r, "workers")
	return &Script{
		Controller: names.CloudNodeLifecycleController, Cloud: &fake.Cloud{}, Lasts: reaction,
		Flags: []string{fmt.Sprintf("--concurrent-node-lifecycle-syncs=%d", count)},
	}, err
}

// monitored plays nodes of which one is not ready.
func monitored(r *upstream.Reading, _ int) (*Script, error) {
	script := &Script{Controller: names.CloudNodeLifecycleController, Cloud: &fake.Cloud{Exists: true, ExistsByProviderID: true}, Lasts: reaction}
	for _, name := range []string{"node0", "node1", "node2"} {
		node, err := upstream.Value[*corev1.Node](r, name)
		if err != nil {
			return nil, err
		}
		script.Nodes = append(script.Nodes, node)
	}
	return script, nil
}

// routing is a script of the route controller with routes in the cloud.
func routing(cluster, network string, routes ...*cloudprovider.Route) *Script {
	cloud := &fake.Cloud{RouteMap: map[string]*fake.Route{}}
	for _, route := range routes {
		cloud.RouteMap[route.Name] = &fake.Route{ClusterName: cluster, Route: *route}
	}
	return &Script{
		Controller: names.NodeRouteController, Cloud: cloud, Lasts: reaction,
		Flags: []string{"--allocate-node-cidrs=true", "--cluster-name=" + cluster, "--cluster-cidr=" + network},
	}
}

// responsible plays a route of a node that does not exist.
func responsible(r *upstream.Reading, _ int) (*Script, error) {
	network, err := upstream.Value[string](r, "clusterCIDR")
	name, second := upstream.Value[string](r, "routeName")
	destination, third := upstream.Value[string](r, "routeCIDR")
	_, parsed, fourth := net.ParseCIDR(network)
	if err := errors.Join(err, second, third, fourth); err != nil {
		return nil, err
	}
	return routing("my-awesome-cluster", parsed.String(), &cloudprovider.Route{Name: name, TargetNode: "doesnt-matter-for-this-test", DestinationCIDR: destination}), nil
}

// routes plays nodes with routes.
func routes(r *upstream.Reading, _ int) (*Script, error) {
	nodes, err := upstream.Value[[]*corev1.Node](r, "nodes")
	existing, second := upstream.Value[[]*cloudprovider.Route](r, "initialRoutes")
	dualStack, third := upstream.Value[bool](r, "dualStack")
	network := "10.120.0.0/16"
	if dualStack {
		network += ",a00::/8"
	}
	script := routing("my-k8s", network, existing...)
	script.Nodes = nodes
	return script, errors.Join(err, second, third)
}

// nodeUpdate plays a node with its route that changes.
func nodeUpdate(r *upstream.Reading, _ int) (*Script, error) {
	before, err := upstream.Value[corev1.Node](r, "node")
	after, second := upstream.Value[corev1.Node](r, "updatedNode")
	script := routing("my-k8s", "10.120.0.0/15")
	script.Nodes = []*corev1.Node{&before}
	script.Steps = []Step{func(ctx context.Context, w *World) error {
		after.Spec.ProviderID = before.Spec.ProviderID // as initialized has made it
		return w.Node(ctx, &after)
	}}
	return script, errors.Join(err, second)
}

// networking plays a node with a condition whose route is made or not.
func networking(r *upstream.Reading, _ int) (*Script, error) {
	script := routing("test-cluster", "10.244.0.0/16")
	if node, err := upstream.Value[*corev1.Node](r, "node"); err == nil && node != nil {
		script.Nodes = []*corev1.Node{node}
		return script, nil
	}
	created, err := upstream.Value[bool](r, "routesCreated")
	condition, second := upstream.Value[*corev1.NodeCondition](r, "existingCondition")
	node, third := upstream.Local[*corev1.Node](r, "node")
	if err := errors.Join(err, second, third); err != nil {
		return nil, err
	}
	if condition != nil {
		node.Status.Conditions = []corev1.NodeCondition{*condition}
	}
	script.Nodes, script.WithoutRoutes = []*corev1.Node{node}, !created
	return script, nil
}

// serving is a script of the service controller. The address is one that an API server takes.
func serving(services ...*corev1.Service) *Script {
	return &Script{
		Controller: names.ServiceLBController, Lasts: reaction, Services: slices.DeleteFunc(services, func(service *corev1.Service) bool { return service == nil }),
		Cloud: &fake.Cloud{Zone: cloudprovider.Zone{Region: "us-central"}, ExternalIP: net.ParseIP("192.0.2.10")},
	}
}

// oneService plays a Service.
func oneService(field string) builder {
	return func(r *upstream.Reading, _ int) (*Script, error) {
		service, err := upstream.Value[*corev1.Service](r, field)
		exists, second := upstream.Value[bool](r, "lbExists")
		if err := errors.Join(err, second); err != nil {
			return nil, err
		}
		script := serving(service)
		script.Cloud.Exists = exists
		return script, nil
	}
}

// hostsOfServices plays nodes that join Services, and another Service afterwards.
func hostsOfServices(r *upstream.Reading, _ int) (*Script, error) {
	if failure, err := upstream.Value[error](r, "nodeListerErr"); err != nil || failure != nil {
		return nil, errors.Join(err, Unplayable("A lister that fails is no cluster: the lister of an informer never does."))
	}
	services, err := upstream.Value[[]*corev1.Service](r, "services")
	nodes, second := upstream.Value[[]*corev1.Node](r, "nodes")
	workers, third := upstream.Value[int](r, "workers")
	if workers == 0 {
		workers, third = upstream.Value[int](r, "worker")
	}
	if err := errors.Join(err, second, third); err != nil {
		return nil, err
	}
	script := serving(services...)
	script.Cloud.Balancers = map[string]fake.Balancer{}
	script.Flags = []string{fmt.Sprintf("--concurrent-service-syncs=%d", workers)}
	script.Steps = []Step{to(nil, nodes)}
	return script, nil
}

// to is the step from one set of nodes to another.
func to(from, nodes []*corev1.Node) Step {
	return func(ctx context.Context, w *World) error {
		for _, node := range nodes {
			if err := w.Node(ctx, node); err != nil {
				return err
			}
		}
		for _, node := range from {
			if !slices.ContainsFunc(nodes, func(one *corev1.Node) bool { return one.Name == node.Name }) {
				if err := w.DeleteNode(ctx, node.Name); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// nodeChanges plays sets of nodes one after the other, in which calls may fail.
func nodeChanges(r *upstream.Reading, _ int) (*Script, error) {
	services, err := upstream.Value[[]*corev1.Service](r, "services")
	initial, second := upstream.Value[[]*corev1.Node](r, "initialState")
	changes, third := upstream.Structs(r, "stateChanges")
	if err := errors.Join(err, second, third); err != nil {
		return nil, err
	}
	script := serving(services...)
	script.Nodes = initial
	before := initial
	for _, change := range changes {
		nodes, is := change["nodes"].([]*corev1.Node)
		if !is {
			return nil, errors.New("a change has no nodes")
		}
		var failure error
		if fails, _ := change["syncCallErr"].(bool); fails {
			failure = errors.New("error please")
		}
		step := to(before, nodes)
		script.Steps = append(script.Steps, func(ctx context.Context, w *World) error {
			w.Cloud.Err = failure
			return step(ctx, w)
		})
		before = nodes
	}
	return script, nil
}

// providerIDs plays a set of nodes that is exchanged.
func providerIDs(r *upstream.Reading, _ int) (*Script, error) {
	services, err := upstream.Value[[]*corev1.Service](r, "services")
	before, second := upstream.Value[[]*corev1.Node](r, "lastSyncNodes")
	after, third := upstream.Value[[]*corev1.Node](r, "newNodes")
	if err := errors.Join(err, second, third); err != nil {
		return nil, err
	}
	script := serving(services...)
	script.Nodes, script.Steps = before, []Step{to(before, after)}
	return script, nil
}

// updatedService plays a Service and what the test's function makes of it.
func updatedService(r *upstream.Reading, _ int) (*Script, error) {
	before, err := upstream.Value[*corev1.Service](r, "svc")
	if err != nil {
		return nil, err
	}
	after, err := upstream.Call[*corev1.Service](r, "updateFn", before)
	if err != nil || len(after) != 1 {
		return nil, errors.Join(err, fmt.Errorf("%d Services", len(after)))
	}
	script := serving(before)
	script.Steps = []Step{func(ctx context.Context, w *World) error { return w.ChangeService(ctx, before, after[0]) }}
	return script, nil
}

// statusError plays an API server that refuses the status of a Service.
func statusError(r *upstream.Reading, _ int) (*Script, error) {
	failure, err := upstream.Value[error](r, "k8sErr")
	name, second := upstream.Value[string](r, "svcName")
	if err := errors.Join(err, second); err != nil {
		return nil, err
	}
	script := serving(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	})
	script.Intercept = func(request *http.Request, about apiserver.Attributes) (*http.Response, error) {
		if about.Verb == "patch" && about.Resource == "services" && about.Subresource == "status" {
			return apiserver.StatusOf(request, failure), nil
		}
		return nil, nil
	}
	return script, nil
}

// served returns the Service that a function of a test hands to its controller.
func served(r *upstream.Reading, arg any) (*corev1.Service, error) {
	if _, err := upstream.Call[any](r, "updateFn", arg); err != nil {
		return nil, err
	}
	for _, call := range append(r.Calls("state"), r.Calls("enqueueService")...) {
		if service, is := call[1].(*corev1.Service); is {
			return service, nil
		}
	}
	return nil, nil
}

// syncedService plays the Service that a controller gets.
func syncedService(r *upstream.Reading, _ int) (*Script, error) {
	if key, _ := upstream.Value[string](r, "key"); strings.Count(key, "/") > 1 {
		return nil, Unplayable("No object has such a key.")
	}
	service, err := served(r, upstream.Opaque())
	return serving(service), err
}

// deletedService plays the deletion of the Service that a controller gets.
func deletedService(r *upstream.Reading, _ int) (*Script, error) {
	cloud := &fake.Cloud{}
	r.Define("cloud", cloud)
	service, err := served(r, upstream.Opaque())
	if err != nil {
		return nil, err
	}
	script := serving(service)
	if service != nil {
		script.Steps = []Step{func(ctx context.Context, w *World) error {
			w.Cloud.Err = cloud.Err
			return w.DeleteService(ctx, service)
		}}
	}
	return script, nil
}

// slowNodes plays a node that joins while the calls for another one take long.
func slowNodes(r *upstream.Reading, _ int) (*Script, error) {
	var nodes []*corev1.Node
	var services []*corev1.Service
	for _, name := range []string{"node1", "node2", "node3"} {
		node, err := upstream.Value[*corev1.Node](r, name)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	for _, name := range []string{"service1", "service2"} {
		service, err := upstream.Value[*corev1.Service](r, name)
		if err != nil {
			return nil, err
		}
		services = append(services, service)
	}
	script := serving(services...)
	script.Nodes, script.anyOrder = nodes[:1], true
	script.Steps = []Step{func(ctx context.Context, w *World) error {
		w.Cloud.RequestDelay = 30 * time.Second
		if err := w.Node(ctx, nodes[1]); err != nil {
			return err
		}
		time.Sleep(20 * time.Second) // the first of two calls is under way
		return w.Node(ctx, nodes[2])
	}}
	script.Lasts = 2 * reaction
	return script, nil
}

// changedService plays a Service that changes.
func changedService(r *upstream.Reading, _ int) (*Script, error) {
	pair, err := upstream.Call[*corev1.Service](r, "updateFn")
	if err != nil || len(pair) != 2 {
		return nil, errors.Join(err, fmt.Errorf("%d Services", len(pair)))
	}
	for _, service := range pair {
		for i, address := range service.Spec.ExternalIPs { // an API server takes addresses only
			service.Spec.ExternalIPs[i] = strings.NewReplacer("old.IP.", "192.0.2.10", "new.IP.", "192.0.2.20").Replace(address)
		}
		if service.Spec.HealthCheckNodePort > 0 {
			return nil, Unplayable("The API server lets no user change the health check's port.")
		}
	}
	script := serving(pair[0])
	script.Steps = []Step{func(ctx context.Context, w *World) error { return w.ChangeService(ctx, pair[0], pair[1]) }}
	return script, nil
}

// statusOf plays a Service with a status and the status that the cloud answers.
func statusOf(r *upstream.Reading, _ int) (*Script, error) {
	service, err := upstream.Value[*corev1.Service](r, "svc")
	status, second := upstream.Value[*corev1.LoadBalancerStatus](r, "newStatus")
	if err := errors.Join(err, second); err != nil {
		return nil, err
	}
	service.Spec.Type = corev1.ServiceTypeLoadBalancer
	script := serving(service)
	script.Status = status
	return script, nil
}

// predicate plays a node beside a Service.
func predicate(r *upstream.Reading, _ int) (*Script, error) {
	node, err := upstream.Value[*corev1.Node](r, "input")
	if err != nil {
		return nil, err
	}
	node.Name = "node"
	script := serving(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "service"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}})
	script.Nodes = []*corev1.Node{node}
	return script, nil
}

// changedNode plays a node that changes beside a Service.
func changedNode(r *upstream.Reading, _ int) (*Script, error) {
	before, err := upstream.Value[*corev1.Node](r, "oldNode")
	after, second := upstream.Value[*corev1.Node](r, "newNode")
	if err := errors.Join(err, second); err != nil {
		return nil, err
	}
	script := serving(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "service"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}})
	script.Nodes = []*corev1.Node{before}
	script.Steps = []Step{func(ctx context.Context, w *World) error { return w.Node(ctx, after) }}
	return script, nil
}

// failingCloud plays a cloud that answers an error to everything.
func failingCloud(r *upstream.Reading, _ int) (*Script, error) {
	failure, err := upstream.Value[error](r, "lbCloudErr")
	script := serving(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "external-balancer"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}})
	script.Cloud.Err = failure
	return script, err
}
