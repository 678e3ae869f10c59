package vendortool

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/internal/cli"
	"github.com/mooring-ccm/mooring/internal/version"
)

// NewVersion returns the command that says which version of Mooring the program is, and what else it was built from.
func NewVersion() *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show which version this is",
		Long: `version shows the version of Mooring, the commit that it was built from, the version of Kubernetes whose libraries are in it,
and the release of Go. It asks no manager: for the version of a manager that runs, see the metric mooring_build_info.

` + cli.ExitCodes,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := shownVersion(version.Get(), output)
			if err != nil {
				return cli.Usage(cmd, err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "`format`: text, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// shownVersion returns what is known of the program in one of the formats.
func shownVersion(info version.Info, format string) (string, error) {
	switch format {
	case "text":
		return info.String(), nil
	case "json":
		text, err := json.MarshalIndent(info, "", "  ")
		return string(text), err
	case "yaml":
		text, err := yaml.Marshal(info)
		return string(text[:max(len(text)-1, 0)]), err
	}
	return "", fmt.Errorf("--output: %q: must be text, json or yaml", format)
}
