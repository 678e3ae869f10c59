package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mooring-ccm/mooring/dev/chaos/clock"
	"github.com/mooring-ccm/mooring/dev/chaos/report"
	"github.com/mooring-ccm/mooring/dev/chaos/runner"
	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
	"github.com/mooring-ccm/mooring/dev/localcluster"
)

// settings are the flags of commands that run schedules.
type settings struct {
	seed     uint64
	duration time.Duration
	file     string
	out      string
	binary   string
	short    bool
	ahead    time.Duration
}

func (s *settings) flags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.Uint64Var(&s.seed, "seed", 1, "what the schedule is made from, and by which the managers list, watch, or ask for one object after the other")
	flags.DurationVar(&s.duration, "duration", 10*time.Minute, "how long the schedule is")
	flags.StringVar(&s.file, "file", "", "a schedule to run in place of one from a seed")
	flags.StringVar(&s.out, "out", "out/chaos", "where schedules, logs and reports go")
	flags.StringVar(&s.binary, "binary", "", "the manager to run, built from dev/chaos/daemon; empty builds it")
	flags.BoolVar(&s.short, "short", false, "the sizes of the test in make test")
	return flags
}

// clockFlag adds the flag of commands that can run a replica with another clock.
func (s *settings) clockFlag(flags *flag.FlagSet) {
	flags.DurationVar(&s.ahead, "clock-ahead", 0,
		"how far the clock of one replica is ahead, a minute or more; its first use compiles Go's library and Kubernetes' anew")
}

// schedule returns what is to be run.
func (s *settings) schedule() (schedule.Schedule, error) {
	if s.file == "" {
		size := schedule.Usual()
		if s.short {
			size = schedule.Short()
		}
		return schedule.Generate(s.seed, s.duration, size), nil
	}
	file, err := os.Open(s.file)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return schedule.Parse(file)
}

// prepare builds what a run needs and returns the directory of its files.
func (s *settings) prepare(ctx context.Context) (runner.Options, error) {
	if s.ahead != 0 && (s.ahead < aheadAtLeast || s.ahead%time.Second != 0) {
		return runner.Options{}, fmt.Errorf("--clock-ahead=%s: must be whole seconds, %s or more", s.ahead, aheadAtLeast)
	}
	o := runner.Options{
		Lease: 15 * time.Second, Bound: 3 * time.Minute, Patience: 10 * time.Minute, Binary: s.binary, Progress: os.Stdout, Watch: s.seed%2 == 1, Singly: s.seed%4 == 2,
	}
	dir, err := filepath.Abs(s.out)
	if err != nil {
		return o, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return o, err
	}
	if o.Dir, err = os.MkdirTemp(dir, fmt.Sprintf("seed-%d-", s.seed)); err != nil {
		return o, err
	}
	if o.Binary == "" {
		o.Binary = filepath.Join(dir, "daemon")
		if err := runner.Build(ctx, o.Binary, ""); err != nil {
			return o, err
		}
	}
	if s.ahead != 0 {
		o.Ahead, o.AheadBinary = s.ahead, filepath.Join(dir, "daemon-clock-ahead")
		if err := s.buildAhead(ctx, o.Dir, o.AheadBinary); err != nil {
			return o, err
		}
	}
	o.ControlPlane, err = localcluster.Build(ctx, localcluster.BuildOptions{Parts: []localcluster.Part{localcluster.ControlPlane}, Progress: os.Stderr})
	return o, err
}

// aheadAtLeast is the least that a clock can be ahead by: less is not told from a slow write of the lease.
const aheadAtLeast = time.Minute

// buildAhead builds the manager with a clock that can be ahead.
func (s *settings) buildAhead(ctx context.Context, dir, path string) error {
	changes, err := clock.Overlay(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Println("Building the manager with a clock that is ahead. The first time that takes minutes.")
	return runner.Build(ctx, path, changes)
}

func run(ctx context.Context, args []string) error {
	var s settings
	flags := s.flags("chaos run")
	s.clockFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	planned, err := s.schedule()
	if err != nil {
		return err
	}
	o, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.Dir, "schedule.txt"), []byte(planned.String()), 0o644); err != nil {
		return err
	}
	found, err := runner.Run(ctx, planned, o)
	if s.file == "" {
		found.Seed = s.seed
	}
	err = errors.Join(err, publish(found, o.Dir))
	if len(found.Violations) > 0 {
		fmt.Printf("\nThe shortest part of the schedule that still fails is found by\n\n    %s\n\n", s.shrinkCommand(o.Dir))
	}
	return err
}

// shrinkCommand is the command line that runs parts of the schedule with managers like those of this run.
func (s *settings) shrinkCommand(dir string) string {
	line := fmt.Sprintf("bin/chaos shrink --seed=%d --file=%s", s.seed, filepath.Join(dir, "schedule.txt"))
	if s.ahead != 0 {
		line += fmt.Sprintf(" --clock-ahead=%s", s.ahead)
	}
	return line
}

// soak runs churn without faults at a size of its own, and fails if the leading manager grows.
func soak(ctx context.Context, args []string) error {
	var s settings
	flags := s.flags("chaos soak")
	size := schedule.Soak()
	flags.IntVar(&size.Nodes, "nodes", size.Nodes, "how many nodes there are at first")
	flags.IntVar(&size.Services, "services", size.Services, "how many Services there are at first")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	o.SampleEvery, o.Patience, o.Bound = 10*time.Second, 30*time.Minute, 30*time.Minute
	found, err := runner.Run(ctx, schedule.Generate(s.seed, s.duration, size), o)
	found.Seed = s.seed
	err = errors.Join(err, publish(found, o.Dir))
	if !report.WriteGrowths(os.Stdout, found.Samples) {
		err = errors.Join(err, errors.New("the leading manager is not shown to stay as large as it is"))
	}
	return err
}

// publish shows a report and keeps it. An error says that rules did not hold.
func publish(found report.Report, dir string) error {
	found.Write(os.Stdout)
	content, err := found.JSON()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "report.json"), content, 0o644); err != nil {
		return err
	}
	if len(found.Violations) > 0 {
		return fmt.Errorf("%d times a rule did not hold; the schedule, the logs and the report are in %s", len(found.Violations), dir)
	}
	return nil
}
