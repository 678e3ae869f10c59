package vendortool

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// Main is the whole program of a tool with the providers that it imports: it runs the command with the arguments of the process
// and exits. A signal ends it in order, a second one at once.
func Main() { os.Exit(cli.Run(New())) }

// New returns the command that Main runs.
func New() *cobra.Command {
	root := cli.NewRoot(filepath.Base(os.Args[0]), "Try the providers that are linked into this program",
		"This is the tool of Mooring with the providers that were linked into it.\n\n"+cli.ExitCodes)
	root.AddCommand(NewConformance(), NewOrphans(), NewVersion())
	return root
}
