package upstream_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// startCloud starts the simulated cloud with an instance for each node. It has no packets: the router does until the test ends as it says.
func (l *fixture) startCloud(t *testing.T) {
	t.Helper()
	l.cloud = simtest.Start(t, cloudsim.Options{})
	for i, m := range l.machines {
		l.cloud.Create(t, api.InstanceSpec{Name: m.Name, Zone: cloudsim.DefaultZones()[i], MachineType: cloudsim.TypeSmall, Addresses: []api.Address{
			{Type: api.AddressInternalIP, Address: m.Addr4().Addr().String()}, {Type: api.AddressInternalIP, Address: m.Addr6().Addr().String()},
		}})
	}
	r := roads{cloud: l.cloud, router: l.router.Host, machines: slices.Clone(l.machines), done: map[netip.Prefix]string{}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wait.UntilWithContext(ctx, r.follow, 300*time.Millisecond)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
}

// roads are the routes of the router that carry out the simulated cloud's routes and load balancers.
type roads struct {
	cloud    *simtest.Cloud
	router   *sandbox.Host
	machines []*machine
	done     map[netip.Prefix]string // how each destination is reached now
}

// follow makes the router's routes what the cloud says. A call that fails, of the cloud or the router, is made again the next time.
func (r *roads) follow(ctx context.Context) {
	want, err := r.want(ctx)
	if err != nil {
		return
	}
	for to, how := range r.done {
		// The kernel replaces one next hop of several, not all of them, with IPv6.
		if (want[to] == "" || to.Addr().Is6() && want[to] != how) && r.route(ctx, "del", to) == nil {
			delete(r.done, to)
		}
	}
	for to, how := range want {
		if r.done[to] != how && r.route(ctx, "replace", to, strings.Fields(how)...) == nil {
			r.done[to] = how
		}
	}
}

// want is how each destination is to be reached: a route's by its target, a load balancer's by all healthy targets.
func (r *roads) want(ctx context.Context) (map[netip.Prefix]string, error) {
	want, hops := map[netip.Prefix]string{}, map[string]*machine{}
	err := r.cloud.Client.ListInstances(ctx, func(instances []api.Instance) error {
		for _, instance := range instances {
			if i := slices.IndexFunc(r.machines, func(m *machine) bool { return m.Name == instance.Name }); i >= 0 {
				hops[instance.ID] = r.machines[i]
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = r.cloud.Client.ListRoutes(ctx, simtest.ClusterName, func(routes []api.Route) error {
		for _, route := range routes {
			to, err := netip.ParsePrefix(route.DestinationCIDR)
			if m := hops[route.TargetInstance]; m != nil && err == nil {
				want[to] = "via " + m.addr(to.Addr()).String()
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return want, r.cloud.Client.ListLoadBalancers(ctx, nil, func(balancers []api.LoadBalancer) error {
		for _, balancer := range balancers {
			if balancer.State != api.LoadBalancerActive {
				continue
			}
			healthy := map[*machine]bool{}
			for _, id := range balancer.Targets {
				if m := hops[id]; m != nil && well(ctx, m, balancer.HealthCheck) {
					healthy[m] = true
				}
			}
			for _, text := range balancer.Addresses {
				addr, err := netip.ParseAddr(text)
				if err != nil {
					return err
				}
				var how strings.Builder
				for _, m := range r.machines {
					if healthy[m] {
						fmt.Fprintf(&how, " nexthop via %s", m.addr(addr))
					}
				}
				if how.Len() > 0 {
					want[netip.PrefixFrom(addr, addr.BitLen())] = how.String()
				}
			}
		}
		return nil
	})
}

// addr is the machine's address of the same family.
func (m *machine) addr(like netip.Addr) netip.Addr {
	if like.Is4() {
		return m.Addr4().Addr()
	}
	return m.Addr6().Addr()
}

// well is what a load balancer's health check finds of a machine.
func well(ctx context.Context, m *machine, check *api.HealthCheck) bool {
	if check == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+netip.AddrPortFrom(m.Addr4().Addr(), uint16(check.Port)).String()+path.Join("/", check.Path), nil)
	if err != nil {
		return false
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// route changes a route of the router.
func (r *roads) route(ctx context.Context, verb string, to netip.Prefix, how ...string) error {
	family := map[bool]string{true: "-4", false: "-6"}[to.Addr().Is4()]
	args := slices.Concat(r.router.Args(), []string{"ip", family, "route", verb, to.String()}, how)
	return exec.CommandContext(ctx, args[0], args[1:]...).Run()
}
