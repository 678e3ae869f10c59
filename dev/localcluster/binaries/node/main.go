// Command node is kubelet and kube-proxy in one file: the first argument, or the name by which it is called, says which
// of them it is.
package main

import (
	"context"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/mooring-ccm/mooring/dev/localcluster/binaries/multicall"
)

func main() {
	multicall.Main(map[string]func() int{
		"kube-proxy": func() int { return cli.Run(kubeproxy.NewProxyCommand()) },
		"kubelet":    func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	})
}
