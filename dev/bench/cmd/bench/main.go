// Command bench runs the reference cloud controller manager and Mooring against the same simulated cloud and fresh control
// planes, in turn, and measures what they take and cost. The figures go to a JSON file, from which the command report writes
// the documentation.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/dev/bench/command"
	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/report"
	"github.com/mooring-ccm/mooring/dev/bench/runner"
	"github.com/mooring-ccm/mooring/dev/bench/scenario"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// flags are what the command line says.
type flags struct {
	scenarios, variants []string
	mooringFlags        []string
	module, out         string
	programs            string
	quick, logs         bool
	profiles            bool
}

func main() { os.Exit(command.Run(run)) }

func parse(args []string) (flags, error) {
	var f flags
	set := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	set.StringSliceVar(&f.scenarios, "scenarios", nil,
		"The scenarios to run. Scenarios that must happen before them run too. Empty: all of "+strings.Join(scenario.Names(scenario.Stages()), ", ")+".")
	set.StringSliceVar(&f.variants, "variants", nil,
		"Who takes part. Empty: all of "+strings.Join(runner.Names(runner.Variants()), ", ")+".")
	set.BoolVar(&f.quick, "quick", false, "Small sizes, to see that everything works. The figures mean nothing.")
	set.StringVar(&f.module, "module", ".", "The folder of this module.")
	set.StringVar(&f.out, "out", filepath.Join("..", "..", "out", "bench"), "The folder for the figures.")
	set.StringVar(&f.programs, "programs", "", "A folder with both managers, built already. Empty: they are built.")
	set.BoolVar(&f.logs, "logs", false, "Keep the logs of the managers beside the figures.")
	set.BoolVar(&f.profiles, "profiles", false, "Take profiles of the managers in each scenario: processor time and allocations, beside the figures.")
	set.StringArrayVar(&f.mooringFlags, "mooring-flag", nil, "A further flag of Mooring. May be given several times.")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	return f, errors.Join(
		known("scenarios", f.scenarios, scenario.Names(scenario.Stages())),
		known("variants", f.variants, runner.Names(runner.Variants())))
}

// known returns an error that names everything that is not among what there is.
func known(flag string, given, all []string) error {
	var unknown []string
	for _, name := range given {
		if !slices.Contains(all, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("--%s: there is no %s; there are %s", flag, strings.Join(unknown, ", "), strings.Join(all, ", "))
}

func run(ctx context.Context, args []string) error {
	f, err := parse(args)
	if err != nil {
		return err
	}
	began := time.Now()
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	display := progress.New(os.Stdout)
	programs, err := runner.Programs(ctx, f.module, f.out, f.programs, runner.Variants(), display)
	if err != nil {
		return err
	}
	binaries, err := localcluster.Build(ctx, localcluster.BuildOptions{Progress: os.Stdout})
	if err != nil {
		return err
	}
	measured, err := runner.Run(ctx, options(f, programs, binaries, display))
	if f.profiles {
		fmt.Printf("\nProfiles for \"go tool pprof\", with the programs in %s, are in %s.\n", programs, filepath.Join(f.out, "profiles"))
	}
	if len(measured.Results) > 0 {
		fmt.Printf("\n%s\n%s", report.Table(measured), report.Summary(measured, time.Since(began)))
	}
	if f.quick {
		fmt.Println("Small sizes: neither these figures nor what they miss mean anything.")
	}
	return err
}

func options(f flags, programs string, binaries localcluster.Binaries, display *progress.Display) runner.Options {
	options := runner.Options{
		Stages: scenario.Stages(), Size: runner.FullSize(), Scenarios: f.scenarios, Programs: programs, Binaries: binaries, Flags: f.mooringFlags,
		Display: display, Save: func(measured figures.Report) error { return runner.Save(f.file(), measured) },
	}
	if f.quick {
		options.Size = runner.QuickSize()
	}
	if f.logs {
		options.Logs = filepath.Join(f.out, "logs")
	}
	if f.profiles {
		options.Profiles, options.ProfilePeriod = filepath.Join(f.out, "profiles"), runner.ProfilePeriod
	}
	for _, variant := range runner.Variants() {
		if len(f.variants) == 0 || slices.Contains(f.variants, variant.Name) {
			options.Variants = append(options.Variants, variant)
		}
	}
	return options
}

// file is where the figures go. Those of a part or of small sizes must not be taken for those of the documentation.
func (f flags) file() string {
	if f.quick || f.profiles || len(f.scenarios) > 0 || len(f.variants) > 0 || len(f.mooringFlags) > 0 {
		return filepath.Join(f.out, "part.json")
	}
	return filepath.Join(f.out, "figures.json")
}
