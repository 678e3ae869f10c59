package octavia

import (
	"slices"
	"testing"

	"github.com/mooring-ccm/mooring/dev/openstack/octaviatest"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// TestMadeTwice has octavia finish a creation after its caller has given up and asked for another one.
func TestMadeTwice(t *testing.T) {
	for name, test := range map[string]struct {
		// late is when the second one was made, and shown says that the Service shows the address of the first one already.
		late  string
		shown bool
		tags  []string
		want  []string
	}{
		"the one that the Service shows stays":     {late: "2020-01-01T00:00:00", shown: true, want: []string{"loadbalancers-1"}},
		"else the one that was made first":         {late: "2020-01-01T00:00:00", want: []string{"late"}},
		"what another Service shares is not taken": {late: "2030-01-01T00:00:00", tags: []string{model.NamePrefix + "other"}, want: []string{"loadbalancers-1", "late"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 1, annotations.Options{SubnetID: "nodes"})
			service := web()
			status, _ := f.ensure(service, nodes(1))
			first := f.cloud.All(octaviatest.LoadBalancers)[0]
			f.cloud.Set(octaviatest.LoadBalancers, "loadbalancers-1", octaviatest.Object{"created_at": "2025-01-01T00:00:00"})
			if test.shown {
				service.Status.LoadBalancer = *status
			}
			tags := append(slices.Clone(first["tags"].([]any)), anys(test.tags)...)
			f.cloud.Put(octaviatest.LoadBalancers, octaviatest.Object{"id": "late", "name": first["name"], "tags": tags, "created_at": test.late,
				"provisioning_status": "ACTIVE", "vip_address": "10.0.0.99", "vip_port_id": "port-of-late", "vip_subnet_id": "nodes"})
			again, _ := f.ensure(service, nodes(1))
			if got := f.values(octaviatest.LoadBalancers, "id"); !slices.Equal(got, test.want) {
				t.Errorf("there are %q, want %q", got, test.want)
			}
			if test.shown && addresses(again) != addresses(status) {
				t.Errorf("the address was %s and is %s", addresses(status), addresses(again))
			}
			if floating := f.cloud.All(octaviatest.FloatingIPs); len(floating) != 1 {
				t.Errorf("there are the floating IPs %v, want one", floating)
			}
		})
	}
}

func anys(of []string) []any {
	var all []any
	for _, one := range of {
		all = append(all, one)
	}
	return all
}
