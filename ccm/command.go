package ccm

import (
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/term"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"

	"github.com/mooring-ccm/mooring/internal/embedded"
)

//go:generate go run ../dev/docgen/flagdoc/generate --file ../docs/reference/flags.md
//go:generate go run ../dev/docgen/metrics --root .. --file ../docs/reference/metrics.md
//go:generate go run ../dev/docgen/migration --metrics ../docs/reference/metrics.md --file ../docs/reference/migration-table.md

// Main is the whole program: it runs the command with the arguments of the process and exits. SIGTERM and SIGINT end it in
// order; a second one ends it at once. The exit code is 1 after any error, and the error is on standard error.
func Main(options ...Option) {
	command := NewCommand(options...)
	logs.InitLogs()
	ctx := signals.SetupSignalHandler()
	go freeMemory(ctx)
	err := command.ExecuteContext(ctx)
	logs.FlushLogs()
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

// NewCommand returns the command that Main runs, for programs that embed it. The command runs until its context ends, and
// returns its error instead of printing it.
func NewCommand(with ...Option) *cobra.Command {
	program := newProgram(with)
	command := &cobra.Command{
		Use: programName,
		Long: "Ties a Kubernetes cluster to the infrastructure it runs on. It looks up nodes in the cloud that --cloud-provider\n" +
			"names and keeps what Kubernetes knows of them up to date. It takes the flags of the reference cloud controller manager.",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	command.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	options, err := newOptions(program)
	if err == nil {
		err = addFlags(command, options)
	}
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err != nil {
			return err
		}
		return execute(command, options)
	}
	return command
}

// flagSection is the annotation of a flag with the heading under which --help shows it. The generator of the flag reference reads it.
const flagSection = "mooring.dev/section"

// addFlags gives the command all flags, and a help text that shows them by section.
func addFlags(command *cobra.Command, o *options) error {
	sections, err := o.flags()
	if err != nil {
		return err
	}
	o.program.showDefaults(sections)
	for _, section := range sections.Order {
		sections.FlagSets[section].VisitAll(func(original *pflag.Flag) {
			flag := *original // some belong to the whole process
			flag.Annotations = maps.Clone(original.Annotations)
			if flag.Annotations == nil {
				flag.Annotations = map[string][]string{}
			}
			flag.Annotations[flagSection] = []string{section}
			command.Flags().AddFlag(&flag)
		})
	}
	columns, _, _ := term.TerminalSize(command.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(command, sections, columns)
	return nil
}

// execute turns the flags into a configuration and runs it.
func execute(command *cobra.Command, o *options) error {
	if printed, err := printVersion(command.OutOrStdout(), command.Flags()); printed || err != nil {
		return err
	}
	if err := o.program.applyDefaults(command.Flags()); err != nil {
		return err
	}
	ctx := command.Context()
	if ctx == nil {
		return errors.New("the command has no context: call ExecuteContext")
	}
	settings := embedded.From(ctx)
	if settings.Logger == nil {
		if err := applyLogging(o); err != nil {
			return joined("invalid flags", err)
		}
	}
	cliflag.PrintFlags(command.Flags())
	o.set = func(flag string) bool { return command.Flags().Changed(flag) || o.program.defaults[flag] != "" }
	o.apiServer = settings.APIServer
	c, err := o.config()
	if err != nil {
		return err
	}
	return run(log.IntoContext(ctx, ptr.Deref(settings.Logger, klog.Background())), c)
}

// applyLogging sets up klog as the flags say, and has controller-runtime log through it.
func applyLogging(o *options) error {
	unbuffered(o.logs)
	if err := logsapi.ValidateAndApply(o.logs, utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	omitBodies()
	logZap()
	log.SetLogger(klog.Background())
	return nil
}
