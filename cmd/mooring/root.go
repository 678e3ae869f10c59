package main

import (
	"github.com/mooring-ccm/mooring/tool"
	"github.com/spf13/cobra"
)

func newRoot() *cobra.Command {
	root := tool.NewRoot("mooring", "See Mooring at work",
		"mooring is the tool for people beside the daemon cloud-controller-manager. Under the name kubectl-mooring it is a plugin\n"+
			"of kubectl.\n\n"+tool.ExitCodes)
	root.AddCommand(newPlan(), newStatus(), tool.NewLeaks(), newDemo(), newSim(), tool.NewConformance(), newBuild(), newReference())
	return root
}
