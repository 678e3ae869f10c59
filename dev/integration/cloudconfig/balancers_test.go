package cloudconfig_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	processes "github.com/mooring-ccm/mooring/dev/program"
)

// page is the guide for load balancers only.
const page = "../../../docs/how-to/load-balancers-only.md"

// quoted returns what a page quotes in a block of a language that holds a text.
func quoted(t *testing.T, page, language, text string) string {
	t.Helper()
	content, err := os.ReadFile(page)
	must.NoError(t, err)
	for block := range strings.SplitSeq(string(content), "\n```"+language+"\n") {
		if quote, _, ended := strings.Cut(block, "\n```"); ended && strings.Contains(quote, text) {
			return quote + "\n"
		}
	}
	t.Fatalf("%s has no block of %s with %q", page, language, text)
	return ""
}

// With pools and a router alone, and the rights of the guide, which cannot write a node: kubelets have no --cloud-provider=external, nodes
// no provider ID and no taint. Services get addresses that are announced, and nothing of the nodes changes.
func TestLoadBalancersOnly(t *testing.T) {
	must.NoError(t, cluster.Apply(t.Context(), []byte(quoted(t, page, "yaml", "kind: ClusterRole\n"))))
	r, port := newRouter(t), joinPlain(t, "plain-1")
	unchanged := untouched(t)
	file := filepath.Join(t.TempDir(), "cloud.yaml")
	must.NoError(t, os.WriteFile(file, []byte(configOf(r, port, "only 198.18.8.0/28")), 0o600))

	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", "mooring-load-balancers")
	must.NoError(t, err)
	path, err := program()
	must.NoError(t, err)
	dir := t.TempDir()
	localclustertest.StartProgram(t, processes.Options{Name: "manager", Path: path, Dir: dir, Args: []string{
		"--cloud-provider=metal", "--controllers=service-lb-controller", "--cloud-config=" + file, "--leader-elect-resource-name=mooring-load-balancers",
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
