package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/check"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/check/observe"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/internal/tool/words"
)

// checkFlags are the flags of check.
type checkFlags struct {
	access  access
	lease   lease
	schemes []string
	output  cli.Output
}

func newCheck() *cobra.Command {
	f := &checkFlags{}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether a cluster is fit for a cloud controller manager",
		Long: `check reads a cluster and says what keeps a cloud controller manager from working in it, before one is installed and after. Each finding
says what was seen and what to do about it.

It changes nothing. What you may not read makes a check unknown, never fine; the documentation of check has a ClusterRole that
suffices. Whether credentials, names and rights in the cloud are right is for "mooring plan" and "mooring conformance" to say.

Exit codes:
  0    no check found an error; warnings do not count
  1    a check found an error
  2    the command line is wrong, or no check found an error but something could not be read
  130  interrupted by a signal before it was through`,
		Example: `  mooring check
  mooring check --output=wide
  mooring check --output=json | jq '.results[] | select(.state == "error") | .findings[].seen'`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.access.AddFlags(cmd)
	f.lease.addFlag(cmd.Flags())
	addSchemes(cmd.Flags(), &f.schemes)
	f.output.AddFlag(cmd)
	return cmd
}

func (f *checkFlags) run(cmd *cobra.Command) error {
	namespace, name, err := f.lease.parts()
	if err := errors.Join(f.access.validate(), f.output.Validate(), err); err != nil {
		return cli.Usage(cmd, err)
	}
	report, err := f.report(cmd, namespace, name)
	switch {
	case err != nil && cmd.Context().Err() != nil:
		return cli.Interrupted(fmt.Errorf("interrupted: %w", err))
	case err != nil:
		return cli.Unseen(err)
	}
	out := cmd.OutOrStdout()
	text, wide := f.output.ForPeople()
	if text {
		_, err = io.WriteString(out, report.Text(view.Style{Color: colored(out), All: wide}))
	} else {
		err = f.output.Print(out, &checkDocument{TypeMeta: cli.TypeMeta("CheckReport"), Report: report})
	}
	switch {
	case err != nil:
		return fmt.Errorf("writing what was found: %w", err)
	case report.State == check.Error && text:
		return cli.Said(cli.ExitFailed)
	case report.State == check.Error:
		return fmt.Errorf("%s found an error", words.Count(report.Count(check.Error), "check", "checks"))
	case report.Count(check.Unknown) > 0 && text:
		return cli.Said(cli.ExitUnseen)
	case report.Count(check.Unknown) > 0:
		return cli.Unseen(fmt.Errorf("%s not possible", words.Count(report.Count(check.Unknown), "check is", "checks are")))
	}
	return nil
}

// report reads the cluster and checks it.
func (f *checkFlags) report(cmd *cobra.Command, namespace, name string) (check.Report, error) {
	config, err := f.access.cluster()
	if err != nil {
		return check.Report{}, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return check.Report{}, fmt.Errorf("--kubeconfig: %w", err)
	}
	defer cli.Progress(cmd.ErrOrStderr(), "Reading the cluster")()
	observer := &observe.Observer{Client: client, Namespace: namespace, Lease: name, Schemes: f.schemes}
	seen, err := observer.Observe(cmd.Context())
	if err != nil {
		return check.Report{}, err
	}
	return check.Of(seen), nil
}
