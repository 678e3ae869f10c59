// Command mooring is the tool for people: it looks at clusters and their cloud controller managers, serves the simulated cloud, checks
// providers and builds managers.
package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mooring-ccm/mooring/internal/tool/cli"
	_ "github.com/mooring-ccm/mooring/providers/sim" // Registers the provider "sim".
)

func main() { os.Exit(run()) }

func run() int {
	root := newRoot()
	if filepath.Base(os.Args[0]) == "kubectl-mooring" {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl mooring"}
	}
	return cli.Run(root)
}
