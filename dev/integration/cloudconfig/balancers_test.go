package cloudconfig_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	processes "github.com/mooring-ccm/mooring/dev/program"
)

// account is the ServiceAccount of the manager of load balancers. The other managers of this cluster use another one. The Lease has the same name.
const account = "mooring-load-balancers"

// With pools and a router alone, as the quickstart has them, and the shipped rights, which cannot write a node: kubelets have no
// --cloud-provider=external, nodes no provider ID and no taint. Services get addresses that are announced, and nothing of the nodes changes.
func TestLoadBalancersOnly(t *testing.T) {
	must.NoError(t, cluster.Apply(t.Context(), bytes.ReplaceAll(deploy.LoadBalancersOnlyRBAC, []byte("cloud-controller-manager"), []byte(account))))
	r, port := newRouter(t), joinPlain(t, "plain-1")
	unchanged := untouched(t)
	file := filepath.Join(t.TempDir(), "cloud.yaml")
	must.NoError(t, os.WriteFile(file, []byte(configOf(r, port, "only 198.18.8.0/28")), 0o600))

	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", account)
	must.NoError(t, err)
	path, err := program()
	must.NoError(t, err)
	dir := t.TempDir()
	localclustertest.StartProgram(t, processes.Options{Name: "manager", Path: path, Dir: dir, Args: []string{
		"--cloud-provider=metal", "--controllers=service-lb-controller", "--cloud-config=" + file, "--leader-elect-resource-name=" + account,
		"--kubeconfig=" + kubeconfig, "--authentication-skip-lookup", "--bind-address=127.0.0.1", "--secure-port=" + localclustertest.FreePort(t), "--cert-dir=" + dir,
	}})
	serve(t, "only", "", "plain-1")
	kept := r.keeps(address(t, "only", "198.18.8."))

	must.NoError(t, os.WriteFile(file, []byte(configOf(r, port, "only 198.18.8.0/28", "more 198.18.9.0/28")), 0o600))
	serve(t, "more", "more", "plain-1")
	kept2 := r.keeps(address(t, "more", "198.18.9."))
	kept2()
	kept()
	unchanged()
}
