package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mooring-ccm/mooring/ccm/plan"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/managers"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// planFlags are the flags of plan.
type planFlags struct {
	access        access
	output        cli.Output
	namespace     string
	all, exitCode bool
}

func newPlan() *cobra.Command {
	f := &planFlags{}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what a manager under --dry-run would do",
		Long: `plan asks a manager that runs with --dry-run what it would do to the cluster and to the cloud, and shows it by object:
what, why, and which fields would differ. The signs are + for a creation, ~ for a change, - for a deletion, and ! for nodes whose deletion is
held back. Values of Secrets are never shown.

The manager is reached at its secure port, with the credentials of the kubeconfig. They need "get" on the URL /plan. With --port-forward
it is a pod under --dry-run, reached through the API server. That pod gets a token of its own account, which then needs that right, and none
of your credentials.

` + cli.ExitCodes + `
  3    with --exit-code: there is something to do`,
		Example: `  mooring plan --port-forward
  mooring plan --server=https://192.0.2.10:10258 --certificate-authority=ca.pem --all
  mooring plan --output=json | jq '.intents[] | select(.effect == "delete")'`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.access.addFlags(cmd, defaultServer)
	f.output.AddFlag(cmd)
	flags.StringVarP(&f.namespace, "namespace", "n", managers.DefaultNamespace, "`namespace` of the pod, with --port-forward")
	flags.BoolVar(&f.all, "all", false, "show all fields, and long values whole; the same as --output=wide")
	flags.BoolVar(&f.exitCode, "exit-code", false, "end with exit code 3 if there is something to do")
	return cmd
}

func (f *planFlags) run(cmd *cobra.Command) error {
	if f.access.forwarding && !cmd.Flags().Changed("server") {
		f.access.server = ""
	}
	wrong := []error{f.access.validate(), f.output.Validate()}
	if f.access.server == "" && !f.access.forwarding {
		wrong = append(wrong, errors.New("--server: required"))
	}
	if err := errors.Join(wrong...); err != nil {
		return cli.Usage(cmd, err)
	}
	plan, err := f.ask(cmd.Context(), cmd.ErrOrStderr())
	if err != nil && cmd.Context().Err() != nil {
		return cli.Interrupted(fmt.Errorf("interrupted: %w", err))
	}
	if err != nil {
		return err
	}
	if err := f.write(cmd.OutOrStdout(), plan); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	if f.exitCode && len(plan.Intents) > 0 {
		return cli.Said(cli.ExitDiffers)
	}
	return nil
}

// ask gets the plan from the manager.
func (f *planFlags) ask(ctx context.Context, progress io.Writer) (planned view.Plan, err error) {
	cluster, err := f.access.cluster()
	if err != nil {
		return planned, err
	}
	if f.access.forwarding {
		stop, err := f.forward(ctx, cluster)
		if err != nil {
			return planned, err
		}
		defer stop()
	}
	client, err := f.access.manager(cluster)
	if err != nil {
		return planned, err
	}
	defer cli.Progress(progress, "Asking the manager for its plan")()
	body, err := f.access.ask(ctx, client, plan.Path)
	if errors.Is(err, errNoSuchPath) {
		return planned, fmt.Errorf("the manager at %s has no plan: it does not run with --dry-run (404)", f.access.server)
	}
	if err != nil {
		return planned, err
	}
	if err := json.Unmarshal(body, &planned); err != nil {
		return planned, fmt.Errorf("reading the plan of the manager at %s: %w", f.access.server, err)
	}
	return planned.WithoutSecrets(), nil
}

// forward makes a manager under --dry-run reachable through the API server.
func (f *planFlags) forward(ctx context.Context, cluster *rest.Config) (stop func(), err error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	pod, err := dryRunPod(ctx, client, f.namespace)
	if err != nil {
		return nil, err
	}
	return f.access.forward(ctx, cluster, client, pod, "")
}

func (f *planFlags) write(out io.Writer, plan view.Plan) error {
	text, wide := f.output.ForPeople()
	if !text {
		return f.output.Print(out, &planDocument{TypeMeta: cli.TypeMeta("Plan"), Plan: plan})
	}
	_, err := io.WriteString(out, plan.Text(time.Now(), view.Style{Color: colored(out), All: f.all || wide}))
	return err
}

// colored reports whether an output is a terminal that shows colors, and the user has not turned them off.
func colored(out io.Writer) bool {
	return onTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// onTerminal reports whether an output is a terminal.
func onTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
