package ipam

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam/pool"
)

// FuzzAnnotations has the author of a Service ask for anything. The Service gets addresses of the pools, and the ones that it asks for, or
// a refusal in a bounded line.
func FuzzAnnotations(f *testing.F) {
	for _, asked := range []string{
		"", "192.0.2.1", "192.0.2.1, 2001:db8::1", "192.0.2.1,192.0.2.2", "::ffff:192.0.2.1", "fe80::1%eth0", "x\x1b[2J", strings.Repeat("192.0.2.1,", 20_000),
		strings.Repeat("x", 200_000), "0.0.0.0", "192.0.2.1/32", ",", " ,192.0.2.1", "198.51.100.9",
	} {
		f.Add(asked, "", "", "")
		f.Add(asked, "public", "key", "192.0.2.1")
		f.Add("", asked, asked, asked)
	}
	pools, err := pool.New([]config.Pool{
		{Name: "public", Addresses: []string{"192.0.2.0/29", "2001:db8::/125"}}, {Name: "private", Addresses: []string{"198.51.100.0/30"}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, asked, poolName, sharing, loadBalancerIP string) {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", UID: "1", Annotations: map[string]string{
				AnnotationAddresses: asked, "metallb.io/address-pool": poolName, AnnotationSharing: sharing,
			}},
			Spec: corev1.ServiceSpec{
				LoadBalancerIP: loadBalancerIP, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, Ports: []corev1.ServicePort{{Port: 80}},
			},
		}
		request, err := requestOf(service, nil)
		var granted pool.Grant
		if err == nil {
			granted, err = pool.Allocate(pool.NewState(pools), request)
		}
		if err != nil {
			var refused *pool.RefusedError
			if text := err.Error(); !errors.As(err, &refused) || len(text) > 2000 || strings.ContainsAny(text, "\x1b\x00") {
				t.Errorf("%d bytes: %.300q", len(text), text)
			}
			return
		}
		for _, addr := range granted.Addresses {
			if in := pools.Of(addr); in == "" || request.Pool != "" && in != request.Pool {
				t.Errorf("%s is of the pool %q, and asked for is %q", addr, in, request.Pool)
			}
		}
		for _, addr := range request.Asked {
			if !strings.Contains(message.Line(strings.Join(addrs(granted), " "), 1000), addr.String()) {
				t.Errorf("%s was asked for, and %s given", addr, addrs(granted))
			}
		}
	})
}

func addrs(grant pool.Grant) []string {
	var texts []string
	for _, addr := range grant.Addresses {
		texts = append(texts, addr.String())
	}
	return texts
}
