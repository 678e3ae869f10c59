// Simulate runs both managers on draws, and prints each kind of failure of Mooring with the first seed that shows it.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/go-logr/logr"

	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
	"github.com/mooring-ccm/mooring/dev/simulation/run"
)

// options are the arguments.
type options struct {
	seed, draws   uint64
	trace, repeat bool
	shrink        string
}

func parse(arguments []string, out io.Writer) (options, error) {
	var o options
	set := flag.NewFlagSet("simulate", flag.ContinueOnError)
	set.SetOutput(out)
	set.Uint64Var(&o.seed, "seed", 1, "the first seed; a campaign that was interrupted goes on with the next seed of its line of progress")
	set.Uint64Var(&o.draws, "draws", 100, "how many draws to run")
	set.BoolVar(&o.trace, "trace", false, "print what both managers did to each object in the draw of the seed, side by side")
	set.StringVar(&o.shrink, "shrink", "", "print the smallest scenario below the draw of the seed that still breaks this rule, such as 5-second")
	set.BoolVar(&o.repeat, "repeat", false, "run each draw twice, and count those with another outcome")
	if err := set.Parse(arguments); err != nil {
		return o, fmt.Errorf("arguments: %w", err)
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if o.draws == 0 {
		return o, fmt.Errorf("--draws=%d: at least one draw is needed", o.draws)
	}
	return o, nil
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	managers.Prepare(logr.Discard())
	// Virtual time exists within a test only. The arguments are not those of a test.
	testing.Init()
	must(flag.CommandLine.Parse(nil))
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "simulate", F: func(t *testing.T) {
		unknown, err := simulate(t, o)
		must(err)
		if unknown > 0 || t.Failed() {
			os.Exit(1)
		}
		os.Exit(0)
	}}}, nil, nil)
}

// must ends the program at an error.
func must(err error) {
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// simulate runs what the arguments ask for, and reports how many kinds of failures are not known.
func simulate(t *testing.T, o options) (int, error) {
	if o.trace {
		outcome, err := run.Draw(t, draw.New(o.seed))
		if err == nil {
			outcome.Trace(os.Stdout)
		}
		return 0, err
	}
	if o.shrink != "" {
		smallest, err := run.Shrink(t, draw.New(o.seed), o.shrink)
		if err == nil {
			_, err = fmt.Println(smallest)
		}
		return 0, err
	}
	campaign := run.Campaign{First: o.seed, Draws: o.draws, Repeat: o.repeat, Out: os.Stdout, Progress: os.Stderr}
	return campaign.Run(t)
}
