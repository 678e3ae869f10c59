package vendortool

import (
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/internal/version"
)

// NewVersion returns the command that says which version of Mooring the program is, and what else it was built from.
func NewVersion() *cobra.Command {
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show which version this is",
		Long: `version shows the version of Mooring, the commit that it was built from, the version of Kubernetes whose libraries are in it,
and the release of Go. It asks no manager: for the version of a manager that runs, see the metric mooring_build_info.

` + cli.ExitCodes,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Validate(); err != nil {
				return cli.Usage(cmd, err)
			}
			if text, _ := output.ForPeople(); !text {
				return output.Print(cmd.OutOrStdout(), &versionDocument{cli.TypeMeta("Version"), version.Get()})
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Get().String())
			return err
		},
	}
	output.AddFlag(cmd)
	return cmd
}

// versionDocument is what is known of the program as it is printed for programs.
type versionDocument struct {
	metav1.TypeMeta `json:",inline"`
	version.Info    `json:",inline"`
}

// Rows are none: custom columns are for lists.
func (d *versionDocument) Rows() []cli.RowsOf { return nil }

// DeepCopyObject returns a copy for printers, which change nothing.
func (d *versionDocument) DeepCopyObject() runtime.Object { shallow := *d; return &shallow }
