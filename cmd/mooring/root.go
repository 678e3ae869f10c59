package main

import (
	"github.com/spf13/cobra"

	"github.com/mooring-ccm/mooring/internal/cli"
	"github.com/mooring-ccm/mooring/vendortool"
)

func newRoot() *cobra.Command {
	root := cli.NewRoot("mooring", "See Mooring at work",
		"mooring is the tool for people beside the daemon cloud-controller-manager. Under the name kubectl-mooring it is a plugin\n"+
			"of kubectl.\n\n"+cli.ExitCodes)
	root.AddCommand(newCheck(), newPlan(), newStatus(), newValidate(), newConvert(), vendortool.NewOrphans(), newDemo(), newSim(),
		vendortool.NewConformance(), newBuild(), vendortool.NewVersion(), newReference())
	return root
}
