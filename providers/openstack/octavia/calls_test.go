package octavia

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/openstack/octaviatest"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// numbered returns a Service with one port.
func numbered(number int) *v1.Service {
	service := web()
	service.Name, service.UID = fmt.Sprint("web-", number), types.UID(fmt.Sprint("uid-", number))
	service.Spec.Ports = service.Spec.Ports[:1]
	return service
}

// many returns so many nodes.
func many(count int) []*v1.Node {
	numbers := make([]int, count)
	for i := range numbers {
		numbers[i] = i + 1
	}
	return nodes(numbers...)
}

// newFixtureWithoutHaste has lists that stay young, however slow the machine is: what has to be newer is asked for by what was written.
func newFixtureWithoutHaste(t *testing.T) *fixture {
	f := newFixture(t, 1, annotations.Options{SubnetID: "nodes", FloatingNetworkID: "public"})
	if _, err := f.balancers.services(f.ctx); err != nil {
		t.Fatal(err)
	}
	f.balancers.current.lists.ages = ages{toChange: time.Hour, toAdd: time.Hour}
	return f
}

// atOnce has all Services do something at the same time, again after a while for as long as one is to come again.
func (f *fixture) atOnce(services []*v1.Service, do func(*v1.Service) error) {
	f.t.Helper()
	for range 10 {
		problems := make([]error, len(services))
		var done sync.WaitGroup
		for i, service := range services {
			done.Go(func() { problems[i] = do(service) })
		}
		done.Wait()
		var left []*v1.Service
		for i, err := range problems {
			if comesAgain(err) {
				left = append(left, services[i])
			} else if err != nil {
				f.t.Errorf("Service %s: %v", services[i].Name, err)
			}
		}
		if services = left; len(left) == 0 {
			return
		}
	}
	f.t.Fatalf("%d Services are to come again after 10 rounds", len(services))
}

// counts returns how often each call was made since it was last asked.
func (f *fixture) counts() string {
	calls := f.cloud.Calls()
	slices.Sort(calls)
	var text []string
	for len(calls) > 0 {
		same := len(slices.DeleteFunc(slices.Clone(calls), func(call string) bool { return call != calls[0] }))
		text = append(text, fmt.Sprintf("%d %s", same, calls[0]))
		calls = calls[same:]
	}
	return strings.Join(text, ", ")
}

// TestCalls counts what Services with 200 members cost, alone and twenty at once: creation, with one look while octavia works on it, another
// member, and deletion.
func TestCalls(t *testing.T) {
	for count, want := range map[int][3]string{
		1: {
			"1 GET floatingips, 3 GET loadbalancers, 1 POST floatingips, 1 POST loadbalancers",
			"1 GET loadbalancers, 1 PUT pools/members",
			"1 DELETE floatingips, 1 DELETE loadbalancers, 1 GET floatingips, 3 GET loadbalancers, 1 GET security-groups",
		},
		20: {
			"1 GET floatingips, 22 GET loadbalancers, 20 POST floatingips, 20 POST loadbalancers",
			"1 GET loadbalancers, 20 PUT pools/members",
			"20 DELETE floatingips, 20 DELETE loadbalancers, 1 GET floatingips, 3 GET loadbalancers, 1 GET security-groups",
		},
	} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			f := newFixtureWithoutHaste(t)
			var services []*v1.Service
			for number := range count {
				services = append(services, numbered(number))
			}
			check := func(phase, want string, do func(*v1.Service) error) {
				f.atOnce(services, do)
				if got := f.counts(); got != want {
					t.Errorf("%s:\n got %s\nwant %s", phase, got, want)
				}
				f.later()
			}
			check("creation", want[0], func(service *v1.Service) error {
				_, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, service, many(199))
				return err
			})
			check("one more", want[1], func(service *v1.Service) error {
				return f.balancers.UpdateLoadBalancer(f.ctx, cluster, service, many(200))
			})
			if got := len(f.cloud.All(octaviatest.Members)); got != count*200 {
				t.Errorf("there are %d members, want %d", got, count*200)
			}
			for _, lb := range f.values(octaviatest.LoadBalancers, "id") {
				f.cloud.Set(octaviatest.LoadBalancers, lb, octaviatest.Object{"provisioning_status": "ACTIVE", "reads": 0})
			}
			check("deletion", want[2], func(service *v1.Service) error {
				return f.balancers.EnsureLoadBalancerDeleted(f.ctx, cluster, service)
			})
			if left := len(f.cloud.All(octaviatest.LoadBalancers)) + len(f.cloud.All(octaviatest.FloatingIPs)); left > 0 {
				t.Errorf("%d load balancers and floating IPs are left", left)
			}
		})
	}
}

// TestAnswerWithoutWhatIsBelow looks at what octavia made where its answer does not tell.
func TestAnswerWithoutWhatIsBelow(t *testing.T) {
	for _, without := range [][]string{{"listeners", "pools"}, {"pools"}, {"members"}, {"tags"}} {
		f := newFixture(t, 0, annotations.Options{SubnetID: "nodes", FloatingNetworkID: "public"})
		f.cloud.Brief(without...)
		f.ensure(web(), nodes(1))
		f.wantCalls(fmt.Sprint("without ", without), "GET loadbalancers", "POST loadbalancers", "GET loadbalancers", "GET listeners", "GET pools",
			"GET loadbalancers/status", "GET floatingips", "POST floatingips")
	}
}

// TestAnotherLogin has the credentials become those of another project, where nothing is that was known.
func TestAnotherLogin(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
	f.ensure(web(), nodes(1))
	f.cloud.Cloud = octaviatest.New(t, 0)
	octavia, neutron := f.cloud.Clients()
	f.balancers.clients = func(context.Context) (*gophercloud.ServiceClient, *gophercloud.ServiceClient, error) {
		return octavia, neutron, nil
	}
	f.ensure(web(), nodes(1))
	if made := len(f.cloud.All(octaviatest.LoadBalancers)); made != 1 {
		t.Errorf("there are %d load balancers in the other project", made)
	}
}

// TestGroupMadeAfterTheList looks that a security group goes which is younger than the list of groups that Services share.
func TestGroupMadeAfterTheList(t *testing.T) {
	options := annotations.Options{SubnetID: "nodes"}
	f := newFixtureWithoutHaste(t)
	f.balancers.options = func() annotations.Options { return options.Defaulted() }
	f.putPorts(1)
	f.ensure(web(), nodes(1))
	if err := f.balancers.EnsureLoadBalancerDeleted(f.ctx, cluster, numbered(1)); err != nil { // lists groups
		t.Fatal(err)
	}
	options.ManageSecurityGroups = true
	for _, do := range []func() error{
		func() error { _, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, web(), nodes(1)); return err },
		func() error { return f.balancers.EnsureLoadBalancerDeleted(f.ctx, cluster, web()) },
	} {
		f.atOnce([]*v1.Service{web()}, func(*v1.Service) error { return do() })
	}
	if left := f.cloud.All(octaviatest.Groups); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestChangedAfterItsCreation has another client change a load balancer between its creation and the first look. Ensure notices a deleted
// part at once. The next Ensure notices a part that is only different.
func TestChangedAfterItsCreation(t *testing.T) {
	for name, test := range map[string]struct {
		change        func(*fixture)
		first, second []string // writes of the two Ensures after the creation
	}{
		"a listener is deleted": {func(f *fixture) {
			f.cloud.Delete(octaviatest.Listeners, f.values(octaviatest.Listeners, "id")[0])
		}, []string{"POST listeners", "POST pools", "PUT pools/members", "POST floatingips"}, nil},
		"a member is another": {func(f *fixture) {
			f.cloud.Set(octaviatest.Members, f.values(octaviatest.Members, "id")[0], octaviatest.Object{"address": "10.0.9.9"})
		}, []string{"POST floatingips"}, []string{"PUT pools/members"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
			if _, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, web(), nodes(1)); !comesAgain(err) {
				t.Fatal(err)
			}
			test.change(f)
			f.cloud.Calls()
			for _, want := range [][]string{test.first, test.second, nil} {
				f.ensure(web(), nodes(1))
				if got := f.writes(); !slices.Equal(got, want) {
					t.Errorf("writes %q, want %q", got, want)
				}
			}
		})
	}
}

// TestListsThatFail has a list which Services share fail, or hang: each Service then asks for itself, and none waits for the list again.
func TestListsThatFail(t *testing.T) {
	for _, call := range []string{"GET loadbalancers?tags", "GET floatingips?limit", "GET security-groups?limit"} {
		for _, hangs := range []bool{false, true} {
			t.Run(fmt.Sprint(call, " hangs ", hangs), func(t *testing.T) {
				f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
				f.ensure(numbered(0), nodes(1))
				f.later()
				lists := f.balancers.current.lists
				lists.of(cluster).patience, lists.floating.patience, lists.groups.patience = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
				if hangs {
					t.Cleanup(f.cloud.Hold(call))
				} else {
					f.cloud.Fail(call, 1000, http.StatusInternalServerError, "broken")
				}
				services := []*v1.Service{numbered(0), numbered(1), numbered(2)}
				f.atOnce(services, func(service *v1.Service) error {
					_, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, service, nodes(1))
					return err
				})
				f.atOnce(services, func(service *v1.Service) error {
					return f.balancers.UpdateLoadBalancer(f.ctx, cluster, service, nodes(2))
				})
				if got := f.values(octaviatest.Members, "name"); !slices.Equal(got, []string{"node-2", "node-2", "node-2"}) {
					t.Errorf("members %q", got)
				}
				f.atOnce(services, func(service *v1.Service) error {
					return f.balancers.EnsureLoadBalancerDeleted(f.ctx, cluster, service)
				})
				if left := len(f.cloud.All(octaviatest.LoadBalancers)) + len(f.cloud.All(octaviatest.FloatingIPs)); left > 0 {
					t.Errorf("%d load balancers and floating IPs are left", left)
				}
			})
		}
	}
}

// TestOneLoadBalancer looks that a Service has one load balancer and one floating IP, whatever the lists that it shares with others leave out.
func TestOneLoadBalancer(t *testing.T) {
	for name, meanwhile := range map[string]func(*fixture){
		"the tags are lost": func(f *fixture) {
			f.cloud.Set(octaviatest.LoadBalancers, f.values(octaviatest.LoadBalancers, "id")[0], octaviatest.Object{"tags": nil})
		},
		"the login is another": func(f *fixture) {
			octavia, _ := f.cloud.Clients()
			f.balancers.current.of(octavia, octavia)
		},
		"the floating IP was attached by a person just now": func(f *fixture) {
			if err := f.attachAddress(); err != nil {
				f.t.Error(err)
			}
		},
		"its deletion was taken, and it is wanted again": func(f *fixture) {
			if err := f.balancers.EnsureLoadBalancerDeleted(f.ctx, cluster, web()); !comesAgain(err) {
				f.t.Error(err)
			}
		},
		"a list from before its creation is the last": func(f *fixture) {
			shared := f.balancers.current.lists.of(cluster)
			shared.last = &sharedCall[loadbalancers.LoadBalancer]{began: time.Now().Add(-time.Second)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
			f.ensure(numbered(0), nodes(1)) // has the lists made
			if _, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, web(), nodes(1)); !comesAgain(err) {
				t.Fatal(err)
			}
			meanwhile(f)
			for range 3 {
				for range 3 { // without a pause
					if _, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, web(), nodes(1)); err != nil && !comesAgain(err) {
						t.Log(err)
					}
				}
				f.later()
			}
			status, _ := f.ensure(web(), nodes(1))
			own := slices.DeleteFunc(f.cloud.All(octaviatest.LoadBalancers), func(lb octaviatest.Object) bool {
				return lb["name"] != model.Name(cluster, request{service: web()}.key())
			})
			if len(own) != 1 || len(f.cloud.All(octaviatest.FloatingIPs)) != 2 || len(status.Ingress) != 1 {
				t.Errorf("there are %d load balancers, floating IPs at %q and the status %v", len(own), f.values(octaviatest.FloatingIPs, "port_id"), status)
			}
		})
	}
}

// attachAddress attaches a floating IP to the load balancer that was made last, and no list shows it yet.
func (f *fixture) attachAddress() error {
	all := f.cloud.All(octaviatest.LoadBalancers)
	port, isText := all[len(all)-1]["vip_port_id"].(string)
	if !isText {
		return errors.New("there is no port")
	}
	f.cloud.Cloud.Put(octaviatest.FloatingIPs, octaviatest.Object{"floating_ip_address": "203.0.113.99", "port_id": port})
	return nil
}

// TestDeletedAndWantedAgain has octavia finish a late creation after a deletion: Ensure creates nothing before it has made a list of its
// own.
func TestDeletedAndWantedAgain(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
	f.ensure(web(), nodes(1))
	late := f.cloud.All(octaviatest.LoadBalancers)[0]
	if err := f.balancers.EnsureLoadBalancerDeleted(f.ctx, cluster, web()); !comesAgain(err) {
		t.Fatal(err)
	}
	s, err := f.balancers.services(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.lists.of(cluster).get(f.ctx, time.Now())
	late["id"] = "late"
	f.cloud.Cloud.Put(octaviatest.LoadBalancers, late)
	f.cloud.Calls()
	f.ensure(web(), nodes(1))
	if got := f.writes(); slices.Contains(got, "POST loadbalancers") {
		t.Errorf("a second load balancer is made: %q", got)
	}
}
