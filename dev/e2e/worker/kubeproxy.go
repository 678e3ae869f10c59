package worker

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
)

// The limits of connection tracking are those of the whole machine, and are left alone.
const kubeProxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: %[1]s
hostnameOverride: %[2]s
clientConnection: {kubeconfig: %[3]s}
clusterCIDR: %[4]q
healthzBindAddress: "%[5]s:10256"
metricsBindAddress: "127.0.0.1:10249"
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
nftables: {minSyncPeriod: 100ms}
iptables: {minSyncPeriod: 100ms}
`

// StartKubeProxy starts a kube-proxy on a host, in mode nftables or iptables. Its health is served on every address.
func StartKubeProxy(t *testing.T, cluster *localcluster.Cluster, host *sandbox.Host, name, mode, clusterCIDR, dir string) *Program {
	t.Helper()
	kubeconfig, err := cluster.UserKubeconfig("system:kube-proxy")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "kube-proxy.yaml")
	write(t, path, fmt.Sprintf(kubeProxyConfig, mode, name, kubeconfig, clusterCIDR, "[::]"))
	return Start(t, dir, "kube-proxy-"+name,
		append(host.Args(), localclustertest.Build(t, localcluster.Node).Program("kube-proxy"), "--config="+path, "--v=2")...)
}
