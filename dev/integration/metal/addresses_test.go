package metal_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/controller/service"
	"github.com/mooring-ccm/mooring/provider/conformance"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam"
)

// pools are small.
func pools() []config.Pool {
	no := false
	return []config.Pool{
		{Name: "rack", Addresses: []string{"192.0.2.10-192.0.2.11", "2001:db8::10/127"}},
		{Name: "manual", Addresses: []string{"198.51.100.0/30"}, AutoAssign: &no},
	}
}

func annotated(keysAndValues ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for pair := range slices.Chunk(keysAndValues, 2) {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, pair[0], pair[1])
		}
	}
}

// TestServicesGetAddressesAndKeepThem: Services get addresses of one family or two, and the addresses that they request. They share an address where
// they request that. A restarted manager changes no address and no byte of a Service.
func TestServicesGetAddressesAndKeepThem(t *testing.T) {
	joinNode(t)
	first, _ := startManager(t, pools())
	both := func(s *corev1.Service) {
		policy := corev1.IPFamilyPolicyRequireDualStack
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &policy, []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	}
	want := map[string]string{
		"dual": "True Provided 2001:db8::10 192.0.2.10", "asked": "True Provided 198.51.100.2", "field": "True Provided 192.0.2.11",
		"shared": "True Provided 198.51.100.3", "sharer": "True Provided 198.51.100.3",
	}
	create(t, "dual", both)
	shows(t, "dual", want["dual"])
	create(t, "asked", annotated(ipam.AnnotationAddresses, "198.51.100.2"))
	create(t, "field", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.11" })
	create(t, "shared", annotated(ipam.AnnotationAddresses, "198.51.100.3", ipam.AnnotationSharing, "k"))
	shows(t, "shared", want["shared"])
	create(t, "sharer", annotated(ipam.AnnotationPool, "manual", ipam.AnnotationSharing, "k"),
		func(s *corev1.Service) { s.Spec.Ports[0].Port = 443 })
	for name, what := range want {
		shows(t, name, what)
	}
	wantEvent(t, "dual", ipam.EventAssigned, "Assigned 192.0.2.10 from pool rack and 2001:db8::10 from pool rack")
	if assigned := first.Metric(t, "mooring_metal_pool_addresses", "pool", "manual", "state", "assigned"); assigned != 2 {
		t.Errorf("%v addresses of the manual pool are counted as assigned, want 2", assigned)
	}
	versions := versionsOf(t, want)
	first.Stop()

	second, _ := startManager(t, pools())
	poll.Until(t, "the new leader has looked at all", func(context.Context) error {
		if provided := second.Metric(t, "mooring_service_load_balancers", "state", "provided"); provided != float64(len(want)) {
			return fmt.Errorf("%v", provided)
		}
		return nil
	})
	if again := versionsOf(t, want); fmt.Sprint(again) != fmt.Sprint(versions) {
		t.Errorf("the new leader has written to Services: %v, then %v", versions, again)
	}
	if writes := second.Writes(t, "services"); len(writes) > 0 {
		t.Errorf("the new leader's writes: %v", writes)
	}
}

func versionsOf[V any](t *testing.T, names map[string]V) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for name := range names {
		found, err := admin.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
		must.NoError(t, err)
		versions[name] = found.ResourceVersion
	}
	return versions
}

// A Service that gets no address says why, in its condition and by an event, and gets one as soon as there is one: from a Service
// that goes, by its own change, or by a change of the pools. The next retry by time is an hour away.
func TestRefusedServicesAreExplainedAndRetried(t *testing.T) {
	joinNode(t)
	m, addresses := startManager(t, pools())
	for _, name := range []string{"a", "b"} {
		create(t, name)
		shows(t, name, "True Provided 192.0.2.1")
	}
	create(t, "c")
	shows(t, "c", "False Refused failed to ensure load balancer: Exhausted: no IPv4 address is free: all 2 of pool rack are taken")
	wantEvent(t, "c", service.EventSyncFailed, "Exhausted: no IPv4 address is free")
	remove(t, "a")
	shows(t, "c", "True Provided 192.0.2.1")

	create(t, "d", annotated(ipam.AnnotationAddresses, "203.0.113.7"))
	shows(t, "d", "False Refused failed to ensure load balancer: OutsidePools: 203.0.113.7 is in no pool")
	create(t, "e", annotated("metallb.io/address-pool", "rack"))
	shows(t, "e", "False Refused failed to ensure load balancer: Exhausted")
	if waiting := m.Metric(t, "mooring_metal_services_without_address"); waiting != 2 {
		t.Errorf("%v Services are counted as waiting, want 2", waiting)
	}
	must.NoError(t, addresses.SetPools([]config.Pool{
		{Name: "new", Addresses: []string{"203.0.113.0/24"}}, {Name: "rack", Addresses: []string{"192.0.2.12"}},
	}))
	shows(t, "d", "True Provided 203.0.113.7")
	shows(t, "e", "True Provided 192.0.2.12")
	wantEvent(t, "b", ipam.EventStranded, "which is no longer in a pool")
	shows(t, "b", "True Provided 192.0.2.1")
	change(t, "b", annotated(ipam.AnnotationAddresses, "203.0.113.8"))
	shows(t, "b", "True Provided 203.0.113.8")
}

// untried are the rules for load balancers that are about what addresses do not have.
var untried = map[string]string{
	"balancer-targets":                "the announcing replica chooses the next hops",
	"balancer-update-targets":         "the announcing replica chooses the next hops",
	"balancer-source-ranges":          "kube-proxy enforces source ranges",
	"balancer-health-check":           "the announcing replica checks the next hops",
	"balancer-other-cluster":          "the status of Services is the record",
	"balancer-failure-is-no-absence":  "the allocations are in memory: there is no cloud to fail",
	"balancer-failure-is-no-success":  "the allocations are in memory: there is no cloud to fail",
	"balancer-failure-is-no-deletion": "the allocations are in memory: there is no cloud to fail",
	"balancer-list-failure":           "the allocations are in memory: there is no cloud to fail",
	"balancer-deadline":               "there is no cloud that hangs; package ipam tests an API server that does not answer",
}

// The provider's addresses keep to the rules for load balancers, as far as they have what the rules are about.
func TestConformance(t *testing.T) {
	_, addresses := startManager(t, []config.Pool{{Name: "rack", Addresses: []string{"192.0.2.0/24", "2001:db8::/64"}}})
	factory := func(context.Context) (*conformance.Subject, error) {
		target := conformance.Instance{NodeName: "m1", ProviderID: "metal://m1"}
		return &conformance.Subject{Cloud: plugin{Allocator: addresses}, Instances: []conformance.Instance{target}}, nil
	}
	var rules []string
	for _, rule := range conformance.Rules() {
		if _, without := untried[rule.ID]; !without && slices.Contains(rule.Needs, conformance.NeedLoadBalancer) {
			rules = append(rules, rule.ID)
		}
	}
	conformance.Run(t, factory, conformance.Options{Rules: rules})
	listed, err := addresses.ListLoadBalancers(t.Context(), "")
	if err != nil || len(listed) > 0 {
		t.Errorf("afterwards there are %v, %v", listed, err)
	}
}
