// Command client is kubectl: what people and documentation talk to a cluster with.
package main

import (
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	"github.com/mooring-ccm/mooring/dev/localcluster/binaries/multicall"
)

func main() {
	multicall.Main(map[string]func() int{"kubectl": kubectl})
}

// kubectl runs what the arguments say. It prints errors itself, and ends the process with an exit code of its own for them.
func kubectl() int {
	util.CheckErr(cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()))
	return 0
}
