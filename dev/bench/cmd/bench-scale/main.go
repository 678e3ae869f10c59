// Command bench-scale measures what Mooring takes and costs in clusters that grow, each on a fresh control plane. The figures go to a
// JSON file, from which the command report writes the documentation.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/dev/bench/command"
	"github.com/mooring-ccm/mooring/dev/bench/environment"
	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/report"
	"github.com/mooring-ccm/mooring/dev/bench/runner"
	"github.com/mooring-ccm/mooring/dev/bench/scenario"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// flags are what the command line says.
type flags struct {
	size                  figures.Size
	mooringFlags          []string
	module, out, programs string
	part, logs, profiles  bool
}

func main() { os.Exit(command.Run(run)) }

func parse(args []string) (flags, error) {
	f := flags{size: runner.FullGrowth()}
	set := pflag.NewFlagSet("bench-scale", pflag.ContinueOnError)
	sizes := set.IntSlice("sizes", f.size.Growth, "The numbers of nodes of growing clusters, with the bulk plugin.")
	quotaSizes := set.IntSlice("quota-sizes", f.size.QuotaGrowth, "The numbers of nodes that join under a quota, with the plain plugin.")
	quick := set.Bool("quick", false, "Tiny sizes, to see that everything works. The figures mean nothing.")
	set.StringVar(&f.module, "module", ".", "The folder of this module.")
	set.StringVar(&f.out, "out", filepath.Join("..", "..", "out", "bench"), "The folder for the figures.")
	set.StringVar(&f.programs, "programs", "", "A folder with the manager, built already. Empty: it is built.")
	set.BoolVar(&f.logs, "logs", false, "Keep the logs of the managers beside the figures.")
	set.BoolVar(&f.profiles, "profiles", false, "Take profiles of the manager while nodes join and Services come, beside the figures.")
	set.StringArrayVar(&f.mooringFlags, "mooring-flag", nil, "A further flag of Mooring. May be given several times.")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	f.part = *quick || set.Changed("sizes") || set.Changed("quota-sizes") || f.profiles || len(f.mooringFlags) > 0
	if *quick {
		f.size = runner.QuickGrowth()
	}
	if !*quick || set.Changed("sizes") {
		f.size.Growth = slices.Compact(slices.Sorted(slices.Values(*sizes)))
	}
	if !*quick || set.Changed("quota-sizes") {
		f.size.QuotaGrowth = slices.Compact(slices.Sorted(slices.Values(*quotaSizes)))
	}
	return f, errors.Join(possible("sizes", f.size.Growth), possible("quota-sizes", f.size.QuotaGrowth))
}

// possible returns an error that names everything that is no number of nodes.
func possible(flag string, sizes []int) error {
	var errs []error
	for _, nodes := range sizes {
		if least, most := figures.NodesAService, figures.NodesAService*environment.MostServices; nodes < least || nodes > most {
			errs = append(errs, fmt.Errorf("--%s: %d is not between %d and %d", flag, nodes, least, most))
		}
	}
	return errors.Join(errs...)
}

func run(ctx context.Context, args []string) error {
	f, err := parse(args)
	if err != nil {
		return err
	}
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	options := runner.Options{
		Stages: scenario.Growth(f.size), Size: f.size, Variants: runner.GrownVariants(), Flags: f.mooringFlags,
		Display: progress.New(os.Stdout), Save: func(measured figures.Report) error { return runner.Save(f.file(), measured) },
	}
	if f.logs {
		options.Logs = filepath.Join(f.out, "logs")
	}
	if f.profiles {
		options.Profiles, options.ProfilePeriod = filepath.Join(f.out, "profiles"), runner.ProfilePeriod
	}
	if options.Programs, err = runner.Programs(ctx, f.module, f.out, f.programs, options.Variants, options.Display); err != nil {
		return err
	}
	if options.Binaries, err = localcluster.Build(ctx, localcluster.BuildOptions{Progress: os.Stdout}); err != nil {
		return err
	}
	measured, err := runner.Run(ctx, options)
	if len(measured.Results) > 0 {
		fmt.Printf("\n%s", report.GrowthTables(measured))
	}
	return err
}

// file is where the figures go. Those of other sizes or flags must not be taken for those of the documentation.
func (f flags) file() string {
	if f.part {
		return filepath.Join(f.out, "scale-part.json")
	}
	return filepath.Join(f.out, "scale.json")
}
