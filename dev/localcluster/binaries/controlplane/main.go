// Command controlplane is etcd, kube-apiserver and kube-controller-manager in one file: the first argument, or the name
// by which it is called, says which of them it is. One file instead of three saves two links and 200 MB of disk.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kubecontrollermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/mooring-ccm/mooring/dev/localcluster/binaries/multicall"
)

func main() {
	multicall.Main(map[string]func() int{
		"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
		"kube-apiserver":          func() int { return cli.Run(kubeapiserver.NewAPIServerCommand()) },
		"kube-controller-manager": func() int { return cli.Run(kubecontrollermanager.NewControllerManagerCommand()) },
	})
}
