package ipam

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// The metrics show how much of each pool is left.
func TestMetrics(t *testing.T) {
	api := newAPIServer()
	registry := prometheus.NewRegistry()
	l := newLeader(t, api, one)
	must.NoError(t, registry.Register(collector{l.Allocator}))
	for _, name := range []string{"a", "b", "c"} {
		api.create(name)
		l.finish(t, name)
	}
	want := `
# HELP mooring_metal_pool_addresses Addresses of each pool, by state (assigned, free). A pool that runs out refuses Services.
# TYPE mooring_metal_pool_addresses gauge
mooring_metal_pool_addresses{family="IPv4",pool="one",state="assigned"} 2
mooring_metal_pool_addresses{family="IPv4",pool="one",state="free"} 0
mooring_metal_pool_addresses{family="IPv6",pool="one",state="assigned"} 0
mooring_metal_pool_addresses{family="IPv6",pool="one",state="free"} 1
# HELP mooring_metal_services_without_address Services that were refused an address and wait for a change.
# TYPE mooring_metal_services_without_address gauge
mooring_metal_services_without_address 1
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"mooring_metal_pool_addresses", "mooring_metal_services_without_address")
	if err != nil {
		t.Error(err)
	}
}

// Everything that is missing is named.
func TestNewNamesWhatIsMissing(t *testing.T) {
	_, invalid := New([]config.Pool{{Name: "a", Addresses: []string{"x"}}}, nil)
	a, err := New(nil, nil)
	must.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := a.ListLoadBalancers(ctx, ""); !errors.Is(err, ErrNotLeading) {
		t.Errorf("before it leads: %v", err)
	}
	err = errors.Join(invalid, a.Lead(Sources{}))
	for _, part := range []string{"Client", "Services", "Recorder", `pool a: addresses "x"`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
}

// BenchmarkEnsure10000 has 10,000 Services ask for an address of each family, as after a loss of all their status.
func BenchmarkEnsure10000(b *testing.B) {
	api := newAPIServer()
	services := make([]*corev1.Service, 10_000)
	for i := range services {
		services[i] = &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("s%d", i), UID: types.UID(fmt.Sprint(i)),
		}}
		services[i].Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		services[i].Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}
	}
	for b.Loop() {
		l, err := lead(api, []config.Pool{{Name: "large", Addresses: []string{"10.0.0.0/16", "2001:db8::/64"}}}, 0, 0)
		if err != nil {
			b.Fatal(err)
		}
		for _, service := range services {
			if _, err := l.EnsureLoadBalancer(b.Context(), "", service, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
}
