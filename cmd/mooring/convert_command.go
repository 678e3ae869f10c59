package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/internal/tool/words"
	"github.com/mooring-ccm/mooring/providers/metal/config/convert"
)

// newConvert returns the command below which there is one for each format.
func newConvert() *cobra.Command {
	cmd := cli.NewGroup("convert", "Turn the configuration of another load balancer into a cloud config",
		"convert turns the configuration of other load balancers for bare metal into a cloud config of the provider metal.\n\n"+cli.ExitCodes)
	cmd.AddCommand(newConvertMetalLB())
	return cmd
}

// convertFlags are the flags of convert metallb.
type convertFlags struct {
	files            []string
	comments, strict bool
}

func newConvertMetalLB() *cobra.Command {
	f := &convertFlags{}
	cmd := &cobra.Command{
		Use:   "metallb",
		Short: "Turn resources of MetalLB into a cloud config",
		Long: `metallb reads resources of MetalLB as kubectl shows them, in YAML or JSON: of metallb.io/v1beta1, and BGPPeer of metallb.io/v1beta2. It
writes a cloud config of the provider metal to standard output, and needs no cluster.

What the config does not say is listed on standard error, by the object and the field:
  LOST    it has no counterpart, and is left out
  ACTION  a person has to do something besides, such as mounting a password
  NOTE    it is there, and means something a little different

A field that is not known is listed too, and so is a config that the provider would not take. Passwords are never shown.

Exit codes:
  0    the resources are converted; what is listed does not count, except with --strict
  1    something cannot be read, or nothing of it is to be converted
  2    the command line is wrong, or a file cannot be read
  130  interrupted by a signal before it was through`,
		Example: `  kubectl get ipaddresspools,bgppeers,bgpadvertisements,l2advertisements,bfdprofiles,communities -A -o yaml | mooring convert metallb
  mooring convert metallb -f metallb.yaml --comments > cloud.yaml
  mooring convert metallb -f metallb.yaml 2> notes.txt | mooring validate --cloud-config=-`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().StringArrayVarP(&f.files, "filename", "f", []string{standardInput}, "a `file` of resources; - is standard input; may be repeated")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	cmd.Flags().BoolVar(&f.comments, "comments", false, "write the list at the top of the cloud config too")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "exit with 1 if something has no counterpart; the cloud config is written all the same")
	return cmd
}

func (f *convertFlags) run(cmd *cobra.Command) error {
	var inputs []io.Reader
	var wrong []error
	for _, name := range f.files {
		data, err := readInput(cmd, name)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--filename: %w", err))
		}
		inputs = append(inputs, bytes.NewReader(data))
	}
	if err := errors.Join(wrong...); err != nil {
		return wrongInput(cmd, err)
	}
	result, err := convert.MetalLB(inputs...)
	if err != nil {
		return err
	}
	config, err := result.YAML()
	if err != nil {
		return err
	}
	var comments strings.Builder
	lost := int64(0)
	for _, note := range result.Notes {
		if note.Severity == convert.Lost {
			lost++
		}
		if _, err := fmt.Fprintln(cmd.ErrOrStderr(), note); err != nil {
			return fmt.Errorf("writing what is not converted: %w", err)
		}
		if f.comments {
			fmt.Fprintf(&comments, "# %s\n", strings.ReplaceAll(note.String(), "\n", " "))
		}
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), comments.String()+string(config)); err != nil {
		return fmt.Errorf("writing the cloud config: %w", err)
	}
	if f.strict && lost > 0 {
		return fmt.Errorf("%s without a counterpart", words.Count(lost, "thing", "things"))
	}
	return nil
}
