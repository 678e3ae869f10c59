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
	set.BoolVar(&o.repeat, "repeat", false, "run each draw in two processes, and report how many have the same outcome and the same traces of objects")
	set.BoolVar(&o.worker, "worker", false, "run the draws in this process and print their results as JSON; a campaign starts itself so")
	if err := set.Parse(arguments); err != nil {
		return o, fmt.Errorf("arguments: %w", err)
	}
	switch {
	case set.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", set.Arg(0))
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
	if o.trace || o.shrink != "" {
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
	switch {
	case o.trace:
		outcome, err := run.Draw(t, draw.New(o.seed))
		if err == nil {
			outcome.Trace(out)
		}
		return err
	case o.shrink == "":
		return work(t, o, out)
	}
	smallest, err := run.Shrink(t, draw.New(o.seed), o.shrink)
	if err == nil {
		_, err = fmt.Fprintln(out, smallest)
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
