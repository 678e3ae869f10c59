package kubelet_test

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// externalAddr is what all instances have outside, as behind one gateway.
const externalAddr = "192.0.2.1"

// instance is what the cloud knows of a machine: both internal addresses, whatever --node-ip says, and an external one.
func instance(m machine) api.InstanceSpec {
	return api.InstanceSpec{
		Name: m.name, Zone: cloudsim.DefaultZones()[0], MachineType: cloudsim.TypeSmall,
		Addresses: []api.Address{
			{Type: api.AddressInternalIP, Address: m.v4.Addr().String()},
			{Type: api.AddressInternalIP, Address: m.v6.Addr().String()},
			{Type: api.AddressExternalIP, Address: externalAddr},
		},
	}
}

// wantAddresses are those of an initialized node: the internal ones that --node-ip chose, or all without it, the external
// one, and the host name that the kubelet registered, because the cloud has none.
func wantAddresses(m machine) []corev1.NodeAddress {
	var want []corev1.NodeAddress
	for _, addr := range []string{m.v4.Addr().String(), m.v6.Addr().String()} {
		chosen := slices.ContainsFunc(m.nodeIPs, func(nodeIP netip.Addr) bool { return nodeIP.String() == addr })
		if chosen || len(m.nodeIPs) == 0 {
			want = append(want, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: addr})
		}
	}
	return append(want,
		corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: externalAddr},
		corev1.NodeAddress{Type: corev1.NodeHostName, Address: m.name},
	)
}

// managerKubeconfig applies the shipped rights and returns a kubeconfig of the service account that has them.
func managerKubeconfig(t *testing.T, cluster *localcluster.Cluster) string {
	t.Helper()
	if err := cluster.Apply(t.Context(), deploy.With(deploy.RBAC, deploy.ServingCertificateRBAC)); err != nil {
		t.Fatal(err)
	}
	path, err := cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", "cloud-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
