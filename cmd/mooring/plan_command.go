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

	"github.com/mooring-ccm/mooring/ccm/plan"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/demo/render"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
	"github.com/mooring-ccm/mooring/vendortool"
)

// planFlags are the flags of plan.
type planFlags struct {
	access        access
	output        output
	all, exitCode bool
}

func newPlan() *cobra.Command {
	f := &planFlags{}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what a manager under --dry-run would do",
		Long: `plan asks a manager that runs with --dry-run what it would do to the cluster and to the cloud, and shows it by object:
what, why, and which fields would differ. The signs are + for what would be created, ~ for what would be changed, - for what would
be deleted, and ! for nodes whose deletion is held back. Values of Secrets are never shown.

The manager is reached at its secure port, with the credentials of the kubeconfig. They need "get" on the URL /plan.

` + vendortool.ExitCodes + `
  3    with --exit-code: there is something to do`,
		Example: `  kubectl --namespace kube-system port-forward deployment/mooring-dry-run 10258 &
  mooring plan --insecure-skip-tls-verify
  mooring plan --server=https://192.0.2.10:10258 --certificate-authority=ca.pem --all
  mooring plan --output=json | jq '.intents[] | select(.effect == "delete")'
  mooring plan --output=custom-columns=EFFECT:.effect,KIND:.kind,NAME:.name`,
		Args: vendortool.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.access.addFlags(flags, defaultServer)
	f.output.addFlag(cmd)
	flags.BoolVar(&f.all, "all", false, "show all fields, and long values whole; the same as --output=wide")
	flags.BoolVar(&f.exitCode, "exit-code", false, "end with exit code 3 if there is something to do")
	return cmd
}

func (f *planFlags) run(cmd *cobra.Command) error {
	wrong := []error{f.access.validate(), f.output.validate()}
	if f.access.server == "" {
		wrong = append(wrong, errors.New("--server: required"))
	}
	if err := errors.Join(wrong...); err != nil {
		return vendortool.Usage(cmd, err)
	}
	plan, err := f.ask(cmd.Context(), cmd.ErrOrStderr())
	if err != nil && cmd.Context().Err() != nil {
		return vendortool.Interrupted(fmt.Errorf("interrupted: %w", err))
	}
	if err != nil {
		return err
	}
	if err := f.write(cmd.OutOrStdout(), plan); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	if f.exitCode && len(plan.Intents) > 0 {
		return vendortool.Differs()
	}
	return nil
}

// ask gets the plan from the manager.
func (f *planFlags) ask(ctx context.Context, progress io.Writer) (planned view.Plan, err error) {
	cluster, err := f.access.cluster()
	if err != nil {
		return planned, err
	}
	client, err := f.access.manager(cluster)
	if err != nil {
		return planned, err
	}
	defer vendortool.Progress(progress, "Asking the manager for its plan")()
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

func (f *planFlags) write(out io.Writer, plan view.Plan) error {
	text, wide := f.output.forPeople()
	if !text {
		return f.output.print(out, &planDocument{TypeMeta: typeMeta("Plan"), Plan: plan})
	}
	_, err := io.WriteString(out, plan.Text(time.Now(), view.Style{Color: colored(out), All: f.all || wide}))
	return err
}

// colored reports whether an output is a terminal that shows colors, and nobody has asked for none.
func colored(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && !render.NoColor() && os.Getenv("TERM") != "dumb"
}
