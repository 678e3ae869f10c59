package vendortool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/spf13/cobra"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/provider/conformance"
)

// The defaults for a real account, where a load balancer takes minutes.
const (
	accountPropagationTimeout = 5 * time.Minute
	accountRuleTimeout        = 15 * time.Minute
)

// conformanceFlags are the flags of conformance.
type conformanceFlags struct {
	options   conformance.Options
	skips     []string
	account   account
	junitFile string
	list      bool
}

// NewConformance returns the command that holds the providers of the program to the rules.
func NewConformance() *cobra.Command {
	f := &conformanceFlags{}
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Check a provider against a real account",
		Long: `conformance holds a provider to the rules of cloudprovider.Interface and of package provider, by calling it against the
account that its cloud config names. Each rule that is broken is shown with its source and with what was seen.

It makes load balancers and routes, at most four of each at a time, for a cluster of its own, and removes them after each
rule, also when it is interrupted. Routes go to 203.0.113.0/26 and 2001:db8:113::/64. It creates, stops and deletes no
instance: the rules that need that, or faults of the cloud, are reported as not run. A provider's own tests run them with
the package provider/conformance.

Without --rule it then finds out what the provider bears, such as reads at the same time, and prints the Go code that
declares it. A provider that is not safe for that may end the program: the report of the rules has been written by then.

` + cli.ExitCodes,
		Example: `  mooring conformance --list
  mooring conformance --cloud-provider=sim --cloud-config=cloud.yaml --junit=report.xml
  mooring conformance --cloud-provider=sim --cloud-config=cloud.yaml --node=node-001 --node=node-002 \
    --skip=balancer-families='the account has no IPv6'`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	addProvider(cmd, &f.account.provider)
	flags.StringVar(&f.account.config, "cloud-config", "", "`file` with the provider's configuration")
	flags.StringVar(&f.options.ClusterName, "cluster-name", conformance.DefaultClusterName,
		"`name` of the cluster that the provider is called with; not one that exists")
	flags.StringVar(&f.account.kubeconfig.File, "kubeconfig", "", "`file` with access to a cluster, for a provider that reads from it")
	flags.StringArrayVar(&f.account.nodes, "node", nil,
		"`name` of a node whose instance exists and runs; may be repeated. Without it, two that the provider lists")
	flags.StringVar(&f.account.otherConfig, "other-cloud-config", "",
		"`file` with a configuration for another cluster in that account")
	flags.StringVar(&f.account.otherCluster, "other-cluster-name", "mooring-conformance-other", "`name` of that other cluster")
	flags.DurationVar(&f.options.PropagationTimeout, "propagation-timeout", accountPropagationTimeout, "how long the cloud may take to show a change")
	flags.DurationVar(&f.options.RuleTimeout, "rule-timeout", accountRuleTimeout,
		"how long a rule may take, and again the removal of what it made")
	flags.StringArrayVar(&f.options.Rules, "rule", nil, "`ID` of a rule to try; may be repeated. Without it, all")
	flags.StringArrayVar(&f.skips, "skip", nil, "`ID=REASON` of a rule to leave out; may be repeated")
	flags.StringVar(&f.junitFile, "junit", "", "`file` to write the report to as JUnit XML")
	flags.BoolVar(&f.list, "list", false, "list the rules with their sources, and do nothing")
	return cmd
}

func (f *conformanceFlags) run(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	if f.list {
		return listRules(out)
	}
	if err := f.complete(); err != nil {
		return cli.Usage(cmd, err)
	}
	ctx := cmd.Context()
	stop := make(chan struct{})
	defer close(stop)
	subject, err := f.account.open(ctx, stop)
	if err != nil {
		return err
	}
	f.sayWithoutNode(cmd.ErrOrStderr(), subject)
	f.options.Progress = func(result conformance.Result) { _ = result.WriteText(out) }
	report, err := conformance.Check(ctx, subject.factory, f.options)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n", report.Summary())
	f.sayWithoutNode(cmd.ErrOrStderr(), subject)
	if err := f.writeJUnit(report); err != nil {
		return err
	}
	if ctx.Err() == nil && len(f.options.Rules) == 0 {
		if err := f.observe(ctx, out, subject); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return cli.Interrupted(fmt.Errorf("%s: interrupted", report.Summary()))
	case len(report.NotRemoved()) > 0:
		return fmt.Errorf("%s; left behind in the account: %s", report.Summary(), strings.Join(report.NotRemoved(), "; "))
	case report.Count(conformance.Passed)+report.Count(conformance.Failed)+report.Count(conformance.Broken) == 0:
		return errors.New("no rule was tried: the provider offers nothing that the chosen rules are about")
	case !report.OK():
		return fmt.Errorf("provider %s does not conform: %s", f.account.provider, report.Summary())
	}
	return nil
}

// sayWithoutNode says what is missing if there is no instance for the rules that need one: they are nearly all.
func (f *conformanceFlags) sayWithoutNode(out io.Writer, subject opened) {
	if len(subject.subject.Instances) == 0 {
		fmt.Fprintln(out, "most rules need an instance: give --node=NAME, a node whose instance runs; the provider lists none")
	}
}

// observe finds out what the provider bears, after the report: a provider that does not bear reads at once may end the process.
func (f *conformanceFlags) observe(ctx context.Context, out io.Writer, subject opened) error {
	findings, err := conformance.Observe(ctx, subject.factory, f.options, func(trait conformance.Trait) {
		if trait.Declares == "Limits" {
			fmt.Fprintf(out, "\ntrying %s: if this ends the program, the provider bears one read at a time, and has nothing to declare\n", trait.ID)
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out)
	return conformance.WriteFindings(out, findings)
}

// complete checks the flags, and returns everything that is wrong with them.
func (f *conformanceFlags) complete() error {
	wrong := f.account.validate()
	f.options.Skip = map[string]string{}
	for _, skip := range f.skips {
		id, reason, found := strings.Cut(skip, "=")
		if !found || strings.TrimSpace(reason) == "" {
			wrong = append(wrong, fmt.Errorf("--skip: %q: must be ID=REASON", skip))
			continue
		}
		f.options.Skip[id] = reason
	}
	return errors.Join(append(wrong, f.options.Validate())...)
}

func (f *conformanceFlags) writeJUnit(report *conformance.Report) error {
	if f.junitFile == "" {
		return nil
	}
	file, err := os.Create(f.junitFile)
	if err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	if err := errors.Join(report.WriteJUnit(file, f.account.provider), file.Close()); err != nil {
		return fmt.Errorf("--junit %s: %w", f.junitFile, err)
	}
	return nil
}

func listRules(out io.Writer) error {
	for _, rule := range conformance.Rules() {
		needs := make([]string, len(rule.Needs))
		for i, need := range rule.Needs {
			needs[i] = string(need)
		}
		if len(needs) == 0 {
			needs = []string{"nothing"}
		}
		_, err := fmt.Fprintf(out, "%s\n    %s\n    source: %s\n    needs: %s\n",
			rule.ID, rule.Text, rule.Source, strings.Join(needs, ", "))
		if err != nil {
			return err
		}
	}
	return nil
}

// known reports whether a provider of that name is a part of this program.
func known(name string) error {
	if cloudprovider.IsCloudProvider(name) {
		return nil
	}
	return fmt.Errorf("--cloud-provider: %q: not in this program, which has %s; mooring build --tool builds one with it, and a provider's own "+
		"test can run the rules", name, strings.Join(linked(), ", "))
}

// providers are the factories of the packages that are linked into this program. k8s.io/cloud-provider does not export them.
//
//go:linkname providers k8s.io/cloud-provider.providers
var providers map[string]cloudprovider.Factory

// linked returns their names.
func linked() []string { return slices.Sorted(maps.Keys(providers)) }

// addProvider adds the flag --cloud-provider.
func addProvider(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "cloud-provider", "", "`name` of the provider (required)")
	_ = cmd.RegisterFlagCompletionFunc("cloud-provider", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return linked(), cobra.ShellCompDirectiveNoFileComp
	})
}
