package main

import (
	"github.com/mooring-ccm/mooring/tool"
	"github.com/spf13/cobra"
)

func newRoot() *cobra.Command {
	root := tool.NewRoot("mooring", "See Mooring at work",
		"mooring is the tool for people beside the daemon cloud-controller-manager.\n\n"+tool.ExitCodes)
	root.AddCommand(newDemo(), newSim(), tool.NewConformance(), newBuild())
	return root
}
