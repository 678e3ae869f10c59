package metal

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// TestEachHalfAlone has a config with machines alone, and one with load balancers alone. The other half then offers nothing, asks for no rights beyond
// reading nodes, and keeps no replica waiting.
func TestEachHalfAlone(t *testing.T) {
	const machines = "inventory:\n  machines:\n  - {name: m, systemUUID: 4c4c4544-0051-3510-8052-000000000001, addresses: [{address: 10.0.0.1}]}\n"
	const balancers = "pools: [{name: p, addresses: [198.18.0.0/24]}]\nbgp: {asn: 64512, peers: [{name: r, address: 10.0.0.2, asn: 64513}]}\n"
	type offers struct{ instances, balancers, routes, ready bool }
	for name, test := range map[string]struct {
		config string
		want   offers
		rights []string
	}{
		"machines": {machines, offers{instances: true, ready: true}, []string{"nodes get list patch watch"}},
		"load balancers": {balancers, offers{balancers: true, routes: true}, []string{
			"endpointslices list watch", "events create patch", "nodes list watch", "services list watch", "services/status patch"}},
	} {
		t.Run(name, func(t *testing.T) {
			source, err := config.Open(strings.NewReader(fmt.Sprintf("apiVersion: %s\nkind: %s\n%s", config.APIVersion, config.CloudConfigKind, test.config)))
			if err != nil {
				t.Fatal(err)
			}
			cloud, err := New(source)
			if err != nil {
				t.Fatal(err)
			}
			defer cloud.instances.Close()
			var got offers
			_, got.instances = cloud.InstancesV2()
			_, got.balancers = cloud.LoadBalancer()
			_, got.routes = cloud.Routes()
			got.ready = cloud.replicaReady() == nil // before anything is announced
			capabilities := cloud.Capabilities()
			if got != test.want || (capabilities.ListInstances != nil) != got.instances || (capabilities.ListLoadBalancers != nil) != got.balancers {
				t.Errorf("it offers %+v, want %+v", got, test.want)
			}
			verbs := map[string][]string{}
			for _, rule := range capabilities.Rules {
				for _, resource := range rule.Resources {
					verbs[resource] = append(verbs[resource], rule.Verbs...)
				}
			}
			var rights []string
			for resource, of := range verbs {
				slices.Sort(of)
				rights = append(rights, resource+" "+strings.Join(slices.Compact(of), " "))
			}
			slices.Sort(rights)
			if !slices.Equal(rights, test.rights) {
				t.Errorf("it asks for %q, want %q", rights, test.rights)
			}
		})
	}
}
