package ipam

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Annotations by which other implementations are asked are named. What is understood, or what others write, is not.
func TestForeignAnnotationsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"kube-vip.io/loadbalancerIPs lbipam.cilium.io/ips":                                                                  "kube-vip.io/loadbalancerIPs, lbipam.cilium.io/ips; addresses are asked for by metal.mooring.dev/load-balancer-ips",
		"metallb.io/of-tomorrow metallb.io/address-pool":                                                                    "no effect: metallb.io/of-tomorrow; ",
		"metallb.universe.tf/loadBalancerIPs kube-vip.io/vipHost metallb.io/ip-allocated-from-pool example.com/kube-vip.io": "",
	} {
		service := &corev1.Service{}
		service.Annotations = map[string]string{}
		for name := range strings.FieldsSeq(text) {
			service.Annotations[name] = "192.0.2.1"
		}
		if got := ignoredOf(service); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
