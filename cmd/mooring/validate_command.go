package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/cloudconfig"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// maxConfig bounds what is read of a file or of standard input: the API server takes no larger ConfigMap, and no inventory is as large.
const maxConfig = 64 << 20

// validateFlags are the flags of validate.
type validateFlags struct {
	file string
	// provider says whose the config is, empty if the file does.
	provider string
	// files says that the files have to be here which the config names.
	files, strict bool
	output        cli.Output
}

func newValidate() *cobra.Command {
	f := &validateFlags{}
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Say what is wrong with a cloud config, without a cluster",
		Long: `validate reads a cloud config and says all that is wrong with it at once, each with the path and line of its field. Then it warns of what is
valid and hardly meant. It needs neither a cluster nor a cloud. The kind in the file says whose it is: the providers metal and sim are known. A
file with the sections of a cloud.conf is the provider openstack's, if it has an option of that provider or --cloud-provider says so.

Lists of machines that inventory.paths names are a part of the config. Another file that cannot be read here, of a password or certificate, is a
warning, or with --need-files an error. Relative paths are relative to the folder of the file, or with - to the working directory.

What a running manager does not take of a valid config, because it would cost nodes, depends on the one before and is not said here.

Exit codes:
  0    the config is valid; warnings do not count, except with --strict
  1    the config is invalid
  2    the command line is wrong, or the file cannot be read
  130  interrupted by a signal before it was through`,
		Example: `  mooring validate --cloud-config=cloud.yaml
  mooring convert metallb -f metallb.yaml | mooring validate --cloud-config=-
  kubectl -n kube-system get configmap mooring -o jsonpath='{.data.cloud\.yaml}' | mooring validate --cloud-config=- --strict
  mooring validate --cloud-config=cloud.yaml --output=json | jq '.findings[] | select(.severity == "error") | .field'`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().StringVar(&f.file, "cloud-config", "", "the `file` of the cloud config; - is standard input (required)")
	_ = cmd.MarkFlagFilename("cloud-config", "yaml", "yml", "json", "conf")
	cmd.Flags().StringVar(&f.provider, "cloud-provider", "", "`name` of the provider whose config it is (default: as the file says)")
	_ = cmd.RegisterFlagCompletionFunc("cloud-provider", cobra.FixedCompletions([]string{"metal", "openstack", "sim"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVar(&f.files, "need-files", false, "count it as an error if a file that the config names cannot be read here")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "exit with 1 for warnings too")
	f.output.AddFlag(cmd)
	return cmd
}

func (f *validateFlags) run(cmd *cobra.Command) error {
	wrong := []error{f.output.Validate()}
	if f.file == "" {
		wrong = append(wrong, errors.New("--cloud-config: required"))
	}
	if err := errors.Join(wrong...); err != nil {
		return cli.Usage(cmd, err)
	}
	data, err := readInput(cmd, f.file)
	if err != nil {
		return wrongInput(cmd, fmt.Errorf("--cloud-config: %w", err))
	}
	name, dir := f.file, filepath.Dir(f.file)
	if f.file == standardInput {
		name, dir = "standard input", "."
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("finding the folder of %s: %w", f.file, err)
	}
	report, out := cloudconfig.Examine(data, dir, f.provider, f.files), cmd.OutOrStdout()
	text, _ := f.output.ForPeople()
	if text {
		_, err = io.WriteString(out, report.Text(name))
	} else {
		err = f.output.Print(out, &validationDocument{TypeMeta: cli.TypeMeta("ValidationReport"), Report: report})
	}
	switch {
	case err != nil:
		return fmt.Errorf("writing what was found: %w", err)
	case report.Valid && (!f.strict || len(report.Findings) == 0):
		return nil
	case text:
		return cli.Said(cli.ExitFailed)
	default:
		return fmt.Errorf("%s: %s", name, report.Summary())
	}
}

// standardInput is the name of a file that stands for standard input.
const standardInput = "-"

// readInput reads a file, or standard input, until a signal ends the command: what is typed may have no end.
func readInput(cmd *cobra.Command, name string) ([]byte, error) {
	from := cmd.InOrStdin()
	if name != standardInput {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	type content struct {
		data []byte
		err  error
	}
	read := make(chan content, 1)
	go func() { // it ends with the process if there is no end
		data, err := io.ReadAll(io.LimitReader(from, maxConfig+1))
		read <- content{data, err}
	}()
	select {
	case got := <-read:
		if got.err == nil && len(got.data) > maxConfig {
			got.err = fmt.Errorf("%s: larger than %d MiB", name, maxConfig>>20)
		}
		return got.data, got.err
	case <-cmd.Context().Done():
		return nil, context.Cause(cmd.Context())
	}
}

// wrongInput returns how a command ends that could not read its input.
func wrongInput(cmd *cobra.Command, err error) error {
	if cmd.Context().Err() != nil {
		return cli.Interrupted(fmt.Errorf("interrupted: %w", err))
	}
	return cli.Usage(cmd, err)
}
