package main

import (
	"github.com/spf13/cobra"

	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/vendortool"
)

//go:generate go test . -run TestReferenceIsCurrent -update

func newRoot() *cobra.Command {
	root := cli.NewRoot("mooring", "Look at cloud controller managers, and build them",
		"mooring is the tool for people beside the daemon cloud-controller-manager. Under the name kubectl-mooring it is a plugin\n"+
			"of kubectl.\n\n"+cli.ExitCodes)
	root.AddCommand(newCheck(), newPlan(), newStatus(), newValidate(), newConvert(), vendortool.NewOrphans(), newSim(),
		vendortool.NewConformance(), newBuild(), vendortool.NewVersion())
	return root
}
