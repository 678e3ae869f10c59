package metal_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam"
)

// assignedByOthers writes an address to a Service's status, as another implementation has done.
func assignedByOthers(t *testing.T, name, address string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"status": corev1.ServiceStatus{
		LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: address}}},
	}})
	must.NoError(t, err)
	_, err = admin.CoreV1().Services(namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	must.NoError(t, err)
}

// Services that come from another implementation keep every address: in a pool or in none, asked for in its words, and shared.
// One that comes later gets what is left.
func TestServicesOfOthersKeepTheirAddresses(t *testing.T) {
	joinNode(t)
	want := map[string]string{
		"kept": "192.0.2.11", "asked": "198.51.100.2", "stranded": "203.0.113.9", "shared": "198.51.100.1", "sharer": "198.51.100.1",
	}
	create(t, "kept")
	create(t, "asked", annotated("metallb.io/loadBalancerIPs", "198.51.100.2"))
	create(t, "stranded", annotated("metallb.universe.tf/address-pool", "old"))
	create(t, "shared", annotated("metallb.io/allow-shared-ip", "k"))
	create(t, "sharer", annotated("metallb.universe.tf/allow-shared-ip", "k"), func(s *corev1.Service) { s.Spec.Ports[0].Port = 443 })
	for name, address := range want {
		assignedByOthers(t, name, address)
	}
	create(t, "late")
	startManager(t, pools())
	for name, address := range want {
		shows(t, name, "True Provided "+address)
	}
	shows(t, "late", "True Provided 192.0.2.10")
	wantEvent(t, "stranded", ipam.EventStranded, "The Service keeps 203.0.113.9, which is no longer in a pool")
}
