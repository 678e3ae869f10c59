package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider/conformance"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSimulatedCloud holds the provider of the simulated cloud to every rule, by InstancesV2 and by the older interfaces.
func TestSimulatedCloud(t *testing.T) {
	simulated := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	cloud := newSim(t, simulated, "")
	factory := func(context.Context) (*conformance.Subject, error) { return subjectOf(t, simulated, cloud), nil }
	conformance.Run(t, factory, conformance.Options{})

	if left := leftIn(t, simulated); left != "3 instances, 0 load balancers, 0 routes" {
		t.Errorf("afterwards the cloud holds %s", left)
	}
}

// newSim builds the provider of a simulated cloud for a cluster; without a name its callers say which.
func newSim(t *testing.T, simulated *simtest.Cloud, clusterName string) *sim.Cloud {
	t.Helper()
	cloud, err := sim.New(sim.Config{
		APIVersion: sim.ConfigAPIVersion, Kind: sim.ConfigKind, Endpoint: simulated.URL, TokenFile: simulated.TokenFile,
		Region: cloudsim.DefaultRegion, ClusterName: clusterName, Watch: true, RouteBatch: 3, ChangeTargets: true,
		RequestTimeout: metav1.Duration{Duration: time.Minute}, NodeGroups: nodeGroupsOf(clusterName),
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	cloud.Initialize(nil, stop)
	t.Cleanup(func() { close(stop) })
	return cloud
}

// group is the node group that the rules may change.
const group = "conformance"

func nodeGroupsOf(clusterName string) []sim.NodeGroup {
	if clusterName != "" {
		return nil
	}
	return []sim.NodeGroup{{
		Name: group, MaxSize: 3, Zone: cloudsim.DefaultZones()[0], MachineType: cloudsim.TypeSmall, Network: "10.77.0.0/24",
	}}
}

// subjectOf is a provider of a simulated cloud, with all hooks.
func subjectOf(t *testing.T, simulated *simtest.Cloud, cloud cloudprovider.Interface) *conformance.Subject {
	client := simulated.Client
	return &conformance.Subject{
		Cloud:     cloud,
		NodeGroup: group,
		Hooks: conformance.Hooks{
			CreateInstance: func(ctx context.Context, name string) (conformance.Instance, error) {
				spec := cloudsim.DefaultInstance(100)
				spec.Name = name
				created, err := client.CreateInstance(ctx, spec)
				if err != nil {
					return conformance.Instance{}, err
				}
				return conformance.Instance{NodeName: types.NodeName(name), ProviderID: sim.ProviderID(created.ID)}, nil
			},
			StopInstance: func(ctx context.Context, instance conformance.Instance) error {
				found, err := client.GetInstanceByName(ctx, string(instance.NodeName))
				if err != nil {
					return err
				}
				found.Power = api.PowerOff
				_, err = client.UpdateInstance(ctx, found.ID, found.InstanceSpec, found.Generation)
				return err
			},
			DeleteInstance: func(ctx context.Context, instance conformance.Instance) error {
				id, err := sim.ParseProviderID(instance.ProviderID)
				if err != nil {
					return err
				}
				return client.DeleteInstance(ctx, id, 0)
			},
			InspectLoadBalancer: func(ctx context.Context, _ string, service *v1.Service) (*conformance.LoadBalancerView, error) {
				return inspect(ctx, client, service)
			},
			OtherCluster: func(context.Context) (cloudprovider.Interface, string, error) {
				return newSim(t, simulated, "other"), "other", nil
			},
			InjectFault: func(_ context.Context, fault conformance.Fault) (func(), error) {
				return simulated.Service.ClearFaults, simulated.Service.AddFault(faultOf(fault))
			},
		},
	}
}

func faultOf(fault conformance.Fault) api.Fault {
	const always = math.MaxInt32
	switch fault {
	case conformance.FaultHang:
		return api.Fault{Operation: api.AnyOperation, Mode: api.FaultHang, Count: always}
	case conformance.FaultThrottle:
		return api.Fault{
			Operation: api.AnyOperation, Mode: api.FaultStatus, Status: http.StatusTooManyRequests, Count: always,
			RetryAfter: metav1.Duration{Duration: time.Second},
		}
	default:
		return api.Fault{Operation: api.AnyOperation, Mode: api.FaultStatus, Status: http.StatusServiceUnavailable, Count: always}
	}
}

// inspect looks at a load balancer past the provider.
func inspect(ctx context.Context, client *api.Client, service *v1.Service) (*conformance.LoadBalancerView, error) {
	balancer, err := client.GetLoadBalancer(ctx, cloudprovider.DefaultLoadBalancerName(service))
	if err != nil {
		return nil, err
	}
	view := &conformance.LoadBalancerView{
		Targets: []types.NodeName{}, Ports: []v1.ServicePort{}, SourceRanges: append([]string{}, balancer.SourceRanges...),
		HealthCheckPort: &balancer.Listeners[0].TargetPort,
	}
	if balancer.HealthCheck != nil {
		view.HealthCheckPort = &balancer.HealthCheck.Port
	}
	for _, listener := range balancer.Listeners {
		view.Ports = append(view.Ports, v1.ServicePort{
			Protocol: v1.Protocol(listener.Protocol), Port: listener.Port, NodePort: listener.TargetPort,
		})
	}
	for _, id := range balancer.Targets {
		target, err := client.GetInstance(ctx, id)
		if err != nil {
			return nil, err
		}
		view.Targets = append(view.Targets, types.NodeName(target.Name))
	}
	return view, nil
}

// leftIn says what a simulated cloud holds.
func leftIn(t *testing.T, simulated *simtest.Cloud) string {
	t.Helper()
	instances, balancers, routes := 0, 0, 0
	ctx, client := t.Context(), simulated.Client
	err := errors.Join(
		client.ListInstances(ctx, func(page []api.Instance) error { instances += len(page); return nil }),
		client.ListLoadBalancers(ctx, nil, func(page []api.LoadBalancer) error { balancers += len(page); return nil }),
		client.ListRoutes(ctx, "", func(page []api.Route) error { routes += len(page); return nil }),
	)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d instances, %d load balancers, %d routes", instances, balancers, routes)
}
