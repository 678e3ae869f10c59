package rights_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	certutil "k8s.io/client-go/util/cert"

	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// autoscalerRights are those of a manager that serves the Cluster Autoscaler and does nothing else. Where the other controllers run, these rights are
// among theirs.
const autoscalerRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: autoscaler}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch, patch]}
- {apiGroups: [""], resources: [services], verbs: [list, watch]}
- {apiGroups: [""], resources: [events], verbs: [create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: autoscaler}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: autoscaler}
subjects: [{kind: ServiceAccount, namespace: kube-system, name: cloud-controller-manager}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: autoscaler, namespace: kube-system}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [cloud-controller-manager], verbs: [get, list, watch, update]}
- {apiGroups: [""], resources: [pods], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: autoscaler, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: autoscaler}
subjects: [{kind: ServiceAccount, namespace: kube-system, name: cloud-controller-manager}]
`

// TestEachMissingRightOfTheAutoscalerIsNamed is TestEachMissingRightIsNamed for a manager that only serves the autoscaler.
func TestEachMissingRightOfTheAutoscalerIsNamed(t *testing.T) {
	eachMissingRightIsNamed(t, []byte(autoscalerRights), func(g grant) bool { return g.namespace == "" }, autoscalerArgs(t)...)
}

// autoscalerArgs are what the controller that serves the autoscaler is started with, but for the node groups. The port is open on the leader only.
func autoscalerArgs(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	must.NoError(t, err)
	certificateFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	must.NoError(t, os.WriteFile(certificateFile, certificate, 0o600))
	must.NoError(t, os.WriteFile(keyFile, key, 0o600))
	return []string{
		"--controllers=cluster-autoscaler-provider", "--autoscaler-bind-address=127.0.0.1", "--autoscaler-port=" + localclustertest.FreePort(t),
		"--autoscaler-tls-cert-file=" + certificateFile, "--autoscaler-tls-private-key-file=" + keyFile, "--autoscaler-client-ca-file=" + certificateFile,
	}
}

// offerNodeGroup adds a node group to the config of the cloud.
func (s *scenario) offerNodeGroup(t *testing.T) {
	t.Helper()
	content, err := os.ReadFile(s.cloud.ConfigFile)
	must.NoError(t, err)
	seed := cloudsim.DefaultSeed(initialInstances)
	must.NoError(t, os.WriteFile(s.cloud.ConfigFile, fmt.Appendf(content, "nodeGroups: [{name: workers, maxSize: 2, zone: %s, machineType: %s, network: 10.77.0.0/24}]\n",
		seed.Zones[0].Name, seed.MachineTypes[0].Name), 0o600))
}
