package adversary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// TestATenantOfACloud makes the moves of one seed beside a whole manager with load balancers of a cloud, and holds other namespaces' Services, their
// load balancers, nodes and routes against what they were before. The calls that change something have a bound.
func TestATenantOfACloud(t *testing.T) {
	t.Logf("seed %d, %d moves", *seed, *moves)
	cloud := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(nodes)})
	startManager(t, deploy.RBAC, cloud.ConfigFile, "--cloud-provider=sim")
	a := &tenant{client: tenantClient(t), draw: mathrand.New(mathrand.NewPCG(*seed, 2)), nodes: startNodes(t)}
	t.Cleanup(func() { removeServices(t, tenantNamespace) })
	name := createService(t)
	for _, other := range []string{"shop", idle} {
		_, err := admin.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), loadBalancer(other, 443), metav1.CreateOptions{})
		must.NoError(t, err)
	}
	poll.Within(t, 2*time.Minute, "the cluster is whole", func(ctx context.Context) error { return whole(ctx, cloud, name) })
	poll.Within(t, time.Minute, "all Services have load balancers with targets, and show it", func(ctx context.Context) error {
		list, err := admin.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if s := &list.Items[i]; s.Spec.Type == corev1.ServiceTypeLoadBalancer && !published(s) {
				return fmt.Errorf("service %s has the conditions %v", s.Name, s.Status.Conditions)
			}
		}
		seen := observeForeign(t, cloud)
		if len(seen.Balancers) == 3 && seen.targets >= 3*(nodes-1) {
			return nil
		}
		return fmt.Errorf("load balancers are %v", seen.Balancers)
	})
	for address := range observeForeign(t, cloud).Balancers {
		a.victims = append(a.victims, address)
	}
	slices.Sort(a.victims)

	own := 0
	cloud.Service.ResetCounts()
	made := play(t, a.draw, slices.Concat(a.moves(), a.movesOfClouds()), func() any {
		seen := observeForeign(t, cloud)
		own = max(own, seen.own)
		return seen.foreignInCloud
	})
	if *moves >= 100 && own == 0 {
		t.Error("this tenant tries too little: it had no load balancer")
	}
	counts := cloud.Service.Counts()
	if calls := counts.Received(api.OpCreateLoadBalancer, api.OpUpdateLoadBalancer, api.OpDeleteLoadBalancer, api.OpChangeTargets); calls > int64(2**moves) {
		t.Errorf("%d calls that change load balancers for %d moves", calls, *moves)
	} else {
		t.Logf("%d calls that change load balancers", calls)
	}
	if calls := counts.Received(api.OpCreateInstance, api.OpUpdateInstance, api.OpDeleteInstance, api.OpCreateRoute, api.OpReplaceRoute, api.OpDeleteRoute,
		api.OpChangeRoutes); calls > 0 {
		t.Errorf("%d calls that change instances or routes", calls)
	}
	for _, never := range []string{"write the Service of another", "write the status of a Service", "write the slice of another"} {
		if made[never] > 0 {
			t.Errorf("%d times the API server let a tenant %s: this test does not stand on what it says", made[never], never)
		}
	}
}

// foreignInCloud is all that is not the tenant's.
type foreignInCloud struct {
	// Services are the resourceVersions of the victims, which no manager needs to write again.
	Services map[string]string
	// Balancers are the victims' load balancers, by address, whole: with targets, and a generation that grows with each write.
	Balancers map[string]string
	// Taken are the tenant's Services that show an address of a victim.
	Taken []string
	// Nodes are provider IDs, labels and taints of the nodes, and Routes where the routes lead.
	Nodes, Routes map[string]string
	Leader        string
}

// observed has, besides, how many targets the victims' load balancers have, and how many load balancers there are of the tenant.
type observed struct {
	foreignInCloud
	targets, own int
}

func observeForeign(t *testing.T, cloud *simtest.Cloud) observed {
	t.Helper()
	seen := observed{foreignInCloud: foreignInCloud{Services: map[string]string{}, Balancers: map[string]string{}, Nodes: map[string]string{}, Routes: map[string]string{}}}
	victims, err := admin.CoreV1().Services(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	must.NoError(t, err)
	owner := map[string]string{}
	for _, service := range victims.Items {
		seen.Services[service.Name] = service.ResourceVersion
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			owner[ingress.IP] = service.Name
		}
	}
	services, err := admin.CoreV1().Services(tenantNamespace).List(t.Context(), metav1.ListOptions{})
	must.NoError(t, err)
	for _, service := range services.Items {
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			if owner[ingress.IP] != "" {
				seen.Taken = append(seen.Taken, fmt.Sprintf("%s has %s of %s", service.Name, ingress.IP, owner[ingress.IP]))
			}
		}
	}
	must.NoError(t, cloud.Client.ListLoadBalancers(t.Context(), nil, func(page []api.LoadBalancer) error {
		for _, balancer := range page {
			at := slices.IndexFunc(balancer.Addresses, func(address string) bool { return owner[address] != "" })
			if at < 0 {
				seen.own++
				continue
			}
			text, err := json.Marshal(balancer)
			if err != nil {
				return err
			}
			seen.Balancers[balancer.Addresses[at]] += string(text)
			seen.targets += len(balancer.Targets)
		}
		return nil
	}))
	must.NoError(t, cloud.Client.ListRoutes(t.Context(), simtest.ClusterName, func(page []api.Route) error {
		for _, route := range page {
			seen.Routes[route.DestinationCIDR] = route.TargetName
		}
		return nil
	}))
	list, err := admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must.NoError(t, err)
	for _, node := range list.Items {
		text, err := json.Marshal([]any{node.UID, node.Spec, node.Labels, node.Annotations})
		must.NoError(t, err)
		seen.Nodes[node.Name] = string(text)
	}
	lease, err := admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), leaseName, metav1.GetOptions{})
	must.NoError(t, err)
	seen.Leader = *lease.Spec.HolderIdentity
	return seen
}

// movesOfClouds are the moves that mean something to a cloud only.
func (a *tenant) movesOfClouds() []move {
	return []move{
		{"change the options of the plugin", func(ctx context.Context) error {
			return a.change(ctx, func(s *corev1.Service) {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, one(a.draw, "sim.mooring.dev/addressing", "sim.mooring.dev/ip-mode"), one(a.draw, "hostname", "ip", "Proxy", "VIP", "pigeon"))
			})
		}},
		{"delete and make a Service of the same name", func(ctx context.Context) error {
			list, err := a.services(ctx)
			if err != nil || len(list) == 0 {
				return err
			}
			of := list[a.draw.IntN(len(list))].Name
			service := loadBalancer(of, one[int32](a.draw, 443, 80))
			err = a.client.CoreV1().Services(tenantNamespace).Delete(ctx, of, metav1.DeleteOptions{})
			_, again := a.client.CoreV1().Services(tenantNamespace).Create(ctx, service, metav1.CreateOptions{})
			return errors.Join(err, again)
		}},
		{"make a Service that is called like a victim", func(ctx context.Context) error {
			_, err := a.client.CoreV1().Services(tenantNamespace).Create(ctx, loadBalancer(one(a.draw, "web", "shop", idle), 443), metav1.CreateOptions{})
			return err
		}},
	}
}
