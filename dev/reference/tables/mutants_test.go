package tables_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/reference/tables"
	"github.com/mooring-ccm/mooring/dev/simulation/apiserver"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
)

// mutant is a mistake of a controller, which a test of the reference finds.
type mutant struct {
	controller, test, name string
	wrapper                managers.Wrapper
}

// TestMutants makes each controller of Mooring wrong. The reference's tables find each mistake: a case differs as no row of the register explains.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("plays hundreds of cases")
	}
	for _, one := range mutants {
		if raceDetector && one.controller == "service" {
			continue
		}
		t.Run(one.controller+" "+one.name, func(t *testing.T) {
			t.Parallel()
			wrong := managers.Mooring.Wrapped("mutant", one.wrapper)
			found := 0
			for _, played := range cases(t, one.controller) {
				if played.Test.Name != one.test {
					continue
				}
				result, err := played.Play(t, wrong)
				if reason := tables.Unplayable(""); errors.As(err, &reason) {
					continue
				}
				must.NoError(t, err)
				_, as := played.Explain(result.Differences, false)
				_, initialized := played.Explain(result.Initialized, true)
				if len(as)+len(initialized) > 0 {
					found++
				}
			}
			if found == 0 {
				t.Error("no case finds it")
			}
			t.Logf("%d cases find it", found)
		})
	}
}

var mutants = []mutant{
	{"node", "Test_syncNode", "writes one address only", answers(wrongPlugin{metadata: func(metadata *cloudprovider.InstanceMetadata) {
		metadata.NodeAddresses = metadata.NodeAddresses[:min(1, len(metadata.NodeAddresses))]
	}})},
	{"node", "Test_syncNode", "writes no zone", answers(wrongPlugin{metadata: func(metadata *cloudprovider.InstanceMetadata) { metadata.Zone = "" }})},
	{"node", "Test_syncNode", "leaves additional labels out", answers(wrongPlugin{metadata: func(metadata *cloudprovider.InstanceMetadata) { metadata.AdditionalLabels = nil }})},
	{"node", "TestGetInstanceMetadata", "does not initialize", refuses(http.MethodPatch, "/nodes/")},
	{"nodelifecycle", "Test_NodesDeleted", "takes an error for a denial", answers(wrongPlugin{exists: func(_ bool, err error) (bool, error) { return err == nil, nil }})},
	{"nodelifecycle", "Test_NodesDeleted", "never deletes", refuses(http.MethodDelete, "/nodes/")},
	{"nodelifecycle", "Test_NodesDeleted", "taints whatever the cloud says", answers(wrongPlugin{shutdown: func(bool, error) (bool, error) { return true, nil }})},
	{"route", "TestReconcile", "leaves a wrong route", answers(wrongPlugin{keepsRoutes: true})},
	{"route", "TestUpdateNetworkingCondition", "writes no condition", refuses(http.MethodPatch, "/status")},
	{"service", "TestNodeChangesForStableNodeSetEnabled", "leaves nodes out that are not ready", answers(wrongPlugin{hosts: func(nodes []*corev1.Node) []*corev1.Node {
		return slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool {
			return !slices.ContainsFunc(node.Status.Conditions, func(one corev1.NodeCondition) bool {
				return one.Type == corev1.NodeReady && one.Status == corev1.ConditionTrue
			})
		})
	}})},
	{"service", "TestSyncLoadBalancerIfNeeded", "writes no status", refuses(http.MethodPatch, "/services/")},
	{"service", "TestSyncLoadBalancerIfNeeded", "makes a load balancer twice", answers(wrongPlugin{ensuresTwice: true})},
}

// refuses has writes of a manager fail.
func refuses(method, path string) managers.Wrapper {
	return managers.Wrapper{Transport: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method == method && strings.Contains(request.URL.Path, path) {
				return apiserver.StatusOf(request, apierrors.NewInternalError(errors.New("a mistake"))), nil
			}
			return next.RoundTrip(request)
		})
	}}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// answers has a manager misunderstand its plugin, or call it wrongly.
func answers(wrong wrongPlugin) managers.Wrapper {
	return managers.Wrapper{Plugin: func(_ *managers.Incarnation, plugin cloudprovider.Interface) cloudprovider.Interface {
		wrong := wrong
		wrong.Interface = plugin
		return wrong
	}}
}

// wrongPlugin is a plugin with the mistakes whose fields are set.
type wrongPlugin struct {
	cloudprovider.Interface
	metadata     func(*cloudprovider.InstanceMetadata)
	exists       func(bool, error) (bool, error)
	shutdown     func(bool, error) (bool, error)
	hosts        func([]*corev1.Node) []*corev1.Node
	keepsRoutes  bool
	ensuresTwice bool
}

func (w wrongPlugin) InstancesV2() (cloudprovider.InstancesV2, bool) {
	instances, has := w.Interface.InstancesV2()
	return wrongInstances{instances, w}, has
}

func (w wrongPlugin) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	balancer, has := w.Interface.LoadBalancer()
	return wrongBalancer{balancer, w}, has
}

func (w wrongPlugin) Routes() (cloudprovider.Routes, bool) {
	routes, has := w.Interface.Routes()
	return wrongRoutes{routes, w}, has
}

type wrongInstances struct {
	cloudprovider.InstancesV2
	wrong wrongPlugin
}

func (i wrongInstances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	exists, err := i.InstancesV2.InstanceExists(ctx, node)
	if i.wrong.exists != nil {
		return i.wrong.exists(exists, err)
	}
	return exists, err
}

func (i wrongInstances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	shutdown, err := i.InstancesV2.InstanceShutdown(ctx, node)
	if i.wrong.shutdown != nil {
		return i.wrong.shutdown(shutdown, err)
	}
	return shutdown, err
}

func (i wrongInstances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	metadata, err := i.InstancesV2.InstanceMetadata(ctx, node)
	if metadata != nil && i.wrong.metadata != nil {
		i.wrong.metadata(metadata)
	}
	return metadata, err
}

type wrongBalancer struct {
	cloudprovider.LoadBalancer
	wrong wrongPlugin
}

func (b wrongBalancer) chosen(nodes []*corev1.Node) []*corev1.Node {
	if b.wrong.hosts != nil {
		return b.wrong.hosts(nodes)
	}
	return nodes
}

func (b wrongBalancer) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	if b.wrong.ensuresTwice {
		if _, err := b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service.DeepCopy(), b.chosen(nodes)); err != nil {
			return nil, err
		}
	}
	return b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, b.chosen(nodes))
}

func (b wrongBalancer) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	return b.LoadBalancer.UpdateLoadBalancer(ctx, cluster, service, b.chosen(nodes))
}

type wrongRoutes struct {
	cloudprovider.Routes
	wrong wrongPlugin
}

func (r wrongRoutes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	if r.wrong.keepsRoutes {
		return nil
	}
	return r.Routes.DeleteRoute(ctx, cluster, route)
}
