// Command bench-metal measures Mooring beside MetalLB on bare metal, in network namespaces. The figures go to a JSON file, from which the
// flag --page writes the documentation. It needs root and a router, FRR or BIRD.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/dev/bench/command"
	"github.com/mooring-ccm/mooring/dev/bench/metal"
	"github.com/mooring-ccm/mooring/dev/bench/metal/rack"
	"github.com/mooring-ccm/mooring/dev/bench/runner"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/netlab"
)

// flags are what the command line says.
type flags struct {
	module, out, programs string
	page                  string
	quick                 bool
}

func main() { os.Exit(command.Run(run)) }

func run(ctx context.Context, args []string) error {
	var f flags
	set := pflag.NewFlagSet("bench-metal", pflag.ContinueOnError)
	set.StringVar(&f.module, "module", filepath.Join("metal", "programs"), "The folder of the module that requires MetalLB.")
	set.StringVar(&f.out, "out", filepath.Join("..", "..", "out", "bench-metal"), "The folder for the figures and logs.")
	set.StringVar(&f.programs, "programs", "", "The programs, as this command writes them for itself. Empty: they are built.")
	set.StringVar(&f.page, "page", "", "Measure nothing: write the figures of the latest whole run to this page.")
	set.BoolVar(&f.quick, "quick", false, "Small sizes, to see that everything works. The figures mean nothing.")
	if err := set.Parse(args); err != nil {
		return err
	}
	if f.page != "" {
		return writePage(f.page, f.file())
	}
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	if _, inside := netlab.Inside(); !inside {
		return enter(ctx, f, args)
	}
	return measure(ctx, f)
}

// file is where the figures go. Small sizes must not be taken for those of the documentation.
func (f flags) file() string {
	if f.quick {
		return filepath.Join(f.out, "quick.json")
	}
	return filepath.Join(f.out, "figures.json")
}

// enter builds everything while there is a network to do that with, and runs this program again in namespaces of its own.
func enter(ctx context.Context, f flags, args []string) error {
	if _, _, err := netlab.Check(""); err != nil {
		return err
	}
	if _, err := localcluster.Build(ctx, localcluster.BuildOptions{Progress: os.Stdout}); err != nil {
		return err
	}
	out, err := filepath.Abs(f.out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	programs, err := rack.Build(ctx, f.module, out, os.Stdout)
	if err != nil {
		return err
	}
	return netlab.Enter(ctx, slices.Concat(args, []string{"--programs=" + programs.Encode()}), os.Stdout)
}

// measure measures everything in a rack, and saves the figures whenever a system is through.
func measure(ctx context.Context, f flags) error {
	if err := netlab.Furnish(ctx); err != nil {
		return err
	}
	programs, err := rack.Decode(f.programs)
	if err != nil {
		return err
	}
	binaries, err := localcluster.Build(ctx, localcluster.BuildOptions{})
	if err != nil {
		return err
	}
	kind, _, err := netlab.Check("")
	if err != nil {
		return err
	}
	logs, err := filepath.Abs(filepath.Join(f.out, "logs", time.Now().Format("20060102-150405")))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	opened, err := rack.Open(ctx, rack.Options{Programs: programs, Binaries: binaries, Kind: kind, Dir: logs})
	if err != nil {
		return err
	}
	size := metal.FullSize()
	if f.quick {
		size = metal.QuickSize()
	}
	report := &metal.Report{
		Date: time.Now(), Machine: runner.ThisMachine(), Router: string(kind), Kubernetes: binaries.Version(), MetalLB: programs.Version, Services: size.Services,
	}
	measuring := metal.Runner{
		Rack: opened, Size: size, Report: report, Save: func() error { return runner.Save(f.file(), report) },
		Progress: func(what string) { fmt.Println(time.Now().Format(time.TimeOnly), what) },
	}
	err = errors.Join(measuring.Run(ctx), opened.Close(context.WithoutCancel(ctx)))
	fmt.Printf("\n%s\nThe figures are in %s, logs in %s.\n", metal.Table(report), f.file(), logs)
	return err
}

// writePage writes figures to a page of the documentation.
func writePage(page, figures string) error {
	text, err := os.ReadFile(figures)
	if err != nil {
		return fmt.Errorf("read the figures: %w", err)
	}
	var report metal.Report
	if err := json.Unmarshal(text, &report); err != nil {
		return fmt.Errorf("read the figures in %s: %w", figures, err)
	}
	before, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	after, err := metal.Page(string(before), &report)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(after), 0o644)
}
