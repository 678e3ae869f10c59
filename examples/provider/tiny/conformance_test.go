package tiny

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider/conformance"

	"example.com/tiny-ccm/tinycloud"
)

func TestConformance(t *testing.T) {
	cloud := tinycloud.New()
	server := httptest.NewServer(cloud)
	defer server.Close()
	plugin, err := New(strings.NewReader(fmt.Sprintf(`{"endpoint": %q}`, server.URL)))
	if err != nil {
		t.Fatal(err)
	}
	conformance.Run(t, func(context.Context) (*conformance.Subject, error) {
		return &conformance.Subject{Cloud: plugin, Hooks: hooks(cloud, plugin)}, nil
	}, conformance.Options{Rules: tried(t)})
}

// TestWhatItBears says what the provider may declare: see its output with -v, and run it with -race.
func TestWhatItBears(t *testing.T) {
	cloud := tinycloud.New()
	server := httptest.NewServer(cloud)
	defer server.Close()
	plugin, err := New(strings.NewReader(fmt.Sprintf(`{"endpoint": %q}`, server.URL)))
	if err != nil {
		t.Fatal(err)
	}
	findings, err := conformance.Observe(t.Context(), func(context.Context) (*conformance.Subject, error) {
		return &conformance.Subject{Cloud: plugin, Hooks: hooks(cloud, plugin)}, nil
	}, conformance.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := conformance.WriteFindings(t.Output(), findings); err != nil {
		t.Error(err)
	}
}

// tried returns the rules about what this cloud has. There are no routes, no watch, no change of targets by a difference, no node
// groups and none of the older interfaces.
func tried(t *testing.T) []string {
	t.Helper()
	var ids []string
	for _, rule := range conformance.Rules() {
		if !slices.ContainsFunc(rule.Needs, func(need conformance.Need) bool {
			return need == conformance.NeedRoutes || need == conformance.NeedWatchInstances || need == conformance.NeedInstances ||
				need == conformance.NeedChangeTargets || need == conformance.NeedNodeGroups
		}) {
			ids = append(ids, rule.ID)
		}
	}
	return ids
}

// hooks do in the cloud what the suite asks for: a tester's access, as a console has it.
func hooks(cloud *tinycloud.Cloud, plugin *Cloud) conformance.Hooks {
	idOf := func(instance conformance.Instance) string {
		return strings.TrimPrefix(instance.ProviderID, ProviderName+"://")
	}
	return conformance.Hooks{
		CreateInstance: func(_ context.Context, name string) (conformance.Instance, error) {
			return conformance.Instance{NodeName: types.NodeName(name), ProviderID: providerID(cloud.Create(name).ID)}, nil
		},
		StopInstance:   func(_ context.Context, i conformance.Instance) error { cloud.Stop(idOf(i)); return nil },
		DeleteInstance: func(_ context.Context, i conformance.Instance) error { cloud.Delete(idOf(i)); return nil },
		InspectLoadBalancer: func(ctx context.Context, _ string, service *v1.Service) (*conformance.LoadBalancerView, error) {
			return inspect(cloud, balancers{plugin}.GetLoadBalancerName(ctx, "", service))
		},
		OtherCluster: func(context.Context) (cloudprovider.Interface, string, error) { return plugin, "another", nil },
		InjectFault: func(_ context.Context, fault conformance.Fault) (func(), error) {
			switch fault {
			case conformance.FaultHang:
				return cloud.Hang(), nil
			case conformance.FaultThrottle:
				cloud.Refuse(http.StatusTooManyRequests)
			default:
				cloud.Refuse(http.StatusServiceUnavailable)
			}
			return func() { cloud.Refuse(0) }, nil
		},
	}
}

// inspect looks at a load balancer past the provider.
func inspect(cloud *tinycloud.Cloud, name string) (*conformance.LoadBalancerView, error) {
	balancer, ok := cloud.Balancer(name)
	if !ok {
		return nil, fmt.Errorf("there is no load balancer %s", name)
	}
	view := &conformance.LoadBalancerView{
		Targets: []types.NodeName{}, SourceRanges: append([]string{}, balancer.SourceRanges...), HealthCheckPort: &balancer.HealthPort,
	}
	for _, id := range balancer.Targets {
		server, _ := cloud.Server(id)
		view.Targets = append(view.Targets, types.NodeName(server.Name))
	}
	for _, port := range balancer.Ports {
		view.Ports = append(view.Ports, v1.ServicePort{Protocol: v1.Protocol(port.Protocol), Port: port.Port, NodePort: port.NodePort})
	}
	return view, nil
}
