// Simulate runs both managers on draws, and prints each kind of failure of Mooring with the first seed that shows it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
	"github.com/mooring-ccm/mooring/dev/simulation/run"
)

// options are the arguments.
type options struct {
	seed, draws   uint64
	processes     int
	timeout       time.Duration
	trace, repeat bool
	worker        bool
	shrink        string
	// save is a folder for the scenarios of new kinds, file the scenario that is run instead of the draw of the seed.
	save, file string
}

func parse(arguments []string, out io.Writer) (options, error) {
	var o options
	set := flag.NewFlagSet("simulate", flag.ContinueOnError)
	set.SetOutput(out)
	set.Uint64Var(&o.seed, "seed", 1, "the first seed; a campaign that was interrupted goes on with the seed that it names at its end")
	set.Uint64Var(&o.draws, "draws", 100, "how many draws to run")
	set.IntVar(&o.processes, "processes", runtime.GOMAXPROCS(0), "how many processes run draws at the same time, each on one core")
	set.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long a draw may take before it is reported as failed")
	set.BoolVar(&o.trace, "trace", false, "print what both managers did to each object in the draw of the seed, side by side")
	set.StringVar(&o.shrink, "shrink", "", "print the smallest scenario below the draw of the seed that still breaks this rule, such as 5-second")
	set.StringVar(&o.save, "save", "", "write the shrunk scenario of each new kind into this folder")
	set.BoolVar(&o.repeat, "repeat", false, "run each draw in two processes, and report how many have the same outcome and the same traces of objects")
	set.BoolVar(&o.worker, "worker", false, "run the draws in this process and print their results as JSON; a campaign starts itself so")
	if err := set.Parse(arguments); err != nil {
		return o, fmt.Errorf("arguments: %w", err)
	}
	o.file = set.Arg(0)
	switch {
	case set.NArg() > 1:
		return o, fmt.Errorf("unexpected argument %q", set.Arg(1))
	case o.file != "" && (o.repeat || o.save != ""):
		return o, fmt.Errorf("%q: a scenario is traced or shrunk, and no campaign", o.file)
	case o.draws == 0:
		return o, errors.New("--draws=0: at least one draw is needed")
	case o.seed+o.draws < o.seed:
		return o, fmt.Errorf("--seed=%d --draws=%d: there are no such seeds", o.seed, o.draws)
	case o.processes < 1:
		return o, fmt.Errorf("--processes=%d: at least one process is needed", o.processes)
	case o.timeout <= 0:
		return o, fmt.Errorf("--timeout=%s: a draw takes longer", o.timeout)
	case o.trace && o.shrink != "":
		return o, errors.New("--trace and --shrink exclude each other")
	case o.repeat && (o.trace || o.shrink != ""):
		return o, errors.New("--repeat runs a campaign, and --trace and --shrink a single draw")
	}
	return o, nil
}

func main() { os.Exit(simulate(os.Args[1:], os.Stdout, os.Stderr)) }

// simulate runs what the arguments ask for, and returns the exit code.
func simulate(arguments []string, out, messages io.Writer) int {
	o, err := parse(arguments, messages)
	if err != nil {
		_, _ = fmt.Fprintln(messages, err)
		return 2
	}
	if o.worker {
		return virtually(messages, func(t *testing.T) error { return single(t, o, out) })
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.trace || o.shrink != "" || o.file != "" {
		runtime.LockOSThread()
		command, err := worker(ctx, out, messages, arguments...)
		if err == nil {
			err = command.Wait()
		}
		if err != nil {
			_, _ = fmt.Fprintln(messages, err)
			return 1
		}
		return 0
	}
	failures, err := newCampaign(o, out, messages).run(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(messages, err)
		return 1
	}
	return min(failures, 1)
}

// single runs draws in this process.
func single(t *testing.T, o options, out io.Writer) error {
	if !o.trace && o.shrink == "" && o.file == "" {
		return work(t, o, out)
	}
	d := draw.New(o.seed)
	if o.file != "" {
		text, err := os.ReadFile(o.file)
		if err != nil {
			return fmt.Errorf("scenario: %w", err)
		}
		if d, err = draw.Parse(string(text)); err != nil {
			return fmt.Errorf("scenario %s: %w", o.file, err)
		}
	}
	if o.shrink != "" {
		smallest, err := run.Shrink(t, d, managers.Mooring, o.shrink)
		if err == nil {
			_, err = fmt.Fprint(out, smallest)
		}
		return err
	}
	outcome, err := run.Draw(t, d)
	if err == nil {
		outcome.Trace(out)
	}
	return err
}

// virtually runs a function as a test and ends the process, because virtual time exists within a test only. One core is used, because then goroutines
// take turns in nearly the same order each time.
func virtually(messages io.Writer, do func(t *testing.T) error) int {
	runtime.GOMAXPROCS(1)
	managers.Prepare(logr.Discard())
	testing.Init()
	if err := flag.CommandLine.Parse(nil); err != nil { // the arguments are not those of a test
		_, _ = fmt.Fprintln(messages, err)
		return 1
	}
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "simulate", F: func(t *testing.T) {
		if err := do(t); err != nil {
			_, _ = fmt.Fprintln(messages, err)
			os.Exit(1)
		}
		os.Exit(0)
	}}}, nil, nil)
	return 1
}
