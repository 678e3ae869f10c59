package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/environment"
	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/plugins"
	"github.com/mooring-ccm/mooring/dev/bench/scenario"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// prepareLimit bounds everything that is not measured: a start, a wait until nothing happens.
const prepareLimit = 5 * time.Minute

// ProfilePeriod is longer than what profiles are taken of first of all: a mass join, and nodes that fall silent.
const ProfilePeriod = 15 * time.Second

// errLimit says that a scenario was given up. It is a result and no failure.
var errLimit = errors.New("the scenario's limit is reached")

// Options say what to run.
type Options struct {
	// Size is how large the scenarios are.
	Size figures.Size
	// Stages are what is run: all or a part of scenario.Stages, or scenario.Growth.
	Stages []scenario.Stage
	// Scenarios are the names of those to run; empty means all. Variants are who takes part.
	Scenarios []string
	Variants  []figures.Variant
	// Programs holds the managers, and Binaries the control plane.
	Programs string
	Binaries localcluster.Binaries
	// Logs is a directory for the logs of the managers; empty keeps none.
	Logs string
	// Profiles is a directory for profiles of the managers in each scenario, from its begin on for as long as ProfilePeriod says; empty takes none.
	Profiles      string
	ProfilePeriod time.Duration
	// Flags are further flags of Mooring.
	Flags []string
	// Display shows how far it is.
	Display *progress.Display
	// Save is called with the report after each stage, so a run that is ended early leaves what it has.
	Save func(figures.Report) error
}

// Run takes each variant through each stage, and returns what was measured. A stage that fails does not keep the others from
// being run; the error names all that failed.
func Run(ctx context.Context, options Options) (figures.Report, error) {
	report := figures.Report{Began: time.Now().UTC().Truncate(time.Second), Machine: ThisMachine(), Setup: setup(options)}
	wanted := map[string]bool{}
	for _, name := range options.Scenarios {
		wanted[name] = true
	}
	began := time.Now()
	var errs []error
	for _, stage := range options.Stages {
		for _, variant := range options.Variants {
			for _, selected := range scenario.Select([]scenario.Stage{stage}, wanted, variant.Name) {
				if err := runStage(ctx, options, selected, variant, &report); err != nil {
					errs = append(errs, fmt.Errorf("stage %s, %s: %w", stage.Name, variant.Title, err))
				}
			}
			report.Seconds = time.Since(began).Seconds()
			sortResults(&report, scenario.Names(options.Stages))
			if err := options.Save(report); err != nil || ctx.Err() != nil {
				return report, errors.Join(append(errs, err)...)
			}
		}
	}
	return report, errors.Join(errs...)
}

func setup(options Options) figures.Setup {
	return figures.Setup{
		Kubernetes: options.Binaries.Version(), Reference: referenceVersion(), Latency: environment.Latency, PageSize: environment.PageSize,
		BalancerWrites: plugins.Writes, Trail: scenario.TrailLimit, Size: options.Size, Variants: options.Variants, Common: common(),
	}
}

// sortResults puts the results of a scenario together, in the order in which scenarios and variants run.
func sortResults(report *figures.Report, scenarios []string) {
	variants := Names(report.Setup.Variants)
	place := func(one figures.Result) int {
		return slices.Index(scenarios, one.Scenario)*len(variants) + slices.Index(variants, one.Variant)
	}
	slices.SortStableFunc(report.Results, func(a, b figures.Result) int { return place(a) - place(b) })
}

// runStage takes one variant through one stage, and adds to the report.
func runStage(ctx context.Context, options Options, stage scenario.Stage, variant figures.Variant, report *figures.Report) (err error) {
	show := newShow(options.Display, stage.Name, variant.Title)
	defer show.fail()
	e, err := prepare(ctx, options, stage, variant, show)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close(context.WithoutCancel(ctx))) }()
	for _, one := range stage.Scenarios {
		result, err := runScenario(ctx, e, one, options, show)
		if err != nil {
			return fmt.Errorf("scenario %s: %w", one.Name, err)
		}
		result.Nodes, result.Services = stage.Nodes, stage.Services
		show.done("%s: %s", one.Name, summary(one, result))
		report.Results = append(report.Results, result)
	}
	return e.StopManagers(ctx)
}

// prepare opens an environment, builds what stands in it and starts the manager.
func prepare(ctx context.Context, options Options, stage scenario.Stage, variant figures.Variant, show *show) (*environment.Environment, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, prepareLimit, fmt.Errorf("not prepared after %s", prepareLimit))
	defer cancel()
	show.update("starting a control plane")
	e, err := environment.Open(ctx, environmentOptions(options, stage, variant, show))
	if err != nil {
		return nil, err
	}
	if stage.Prepare != nil {
		show.update("preparing")
		if err := stage.Prepare(ctx, e, options.Size); err != nil {
			return nil, errors.Join(err, e.Close(context.WithoutCancel(ctx)))
		}
	}
	for range stage.Replicas {
		show.update("starting the manager")
		if err := e.StartManager(ctx); err != nil {
			return nil, errors.Join(err, e.Close(context.WithoutCancel(ctx)))
		}
	}
	return e, nil
}

func environmentOptions(options Options, stage scenario.Stage, variant figures.Variant, show *show) environment.Options {
	flags := common()
	if variant.Program == mooringProgram {
		flags = append(flags, options.Flags...)
	}
	if stage.Flags != nil {
		variant.Flags = slices.Concat(variant.Flags, stage.Flags(variant.Name))
	}
	logs := options.Logs
	if logs != "" {
		logs = filepath.Join(logs, stage.Name, variant.Name)
	}
	return environment.Options{
		Stage: stage.Name, Variant: variant, Program: filepath.Join(options.Programs, variant.Program), Flags: flags,
		Binaries: options.Binaries, Instances: stage.Instances(options.Size), Logs: logs, Inspect: stage.Inspect,
		Progress: func(done, of int) { show.update("%d of %d", done, of) },
	}
}

// runScenario prepares a scenario, has it happen and measures it.
func runScenario(ctx context.Context, e *environment.Environment, one scenario.Scenario, options Options, show *show) (figures.Result, error) {
	if one.Prepare != nil {
		show.update("preparing %s", one.Name)
		preparing, cancel := context.WithTimeoutCause(ctx, prepareLimit, fmt.Errorf("not prepared after %s", prepareLimit))
		defer cancel()
		if err := one.Prepare(preparing, e, options.Size); err != nil {
			return figures.Result{}, fmt.Errorf("prepare: %w", err)
		}
	}
	show.update("%s", one.Name)
	limited, cancel := context.WithTimeoutCause(ctx, one.Limit, errLimit)
	defer cancel()
	meter, err := e.Measure()
	if err != nil {
		return figures.Result{}, err
	}
	profiled := func() error { return nil }
	if options.Profiles != "" {
		profiled = e.Profile(ctx, options.Profiles, one.Name, options.ProfilePeriod)
	}
	var said figures.Result
	err = one.Act(limited, e, options.Size, &said)
	meter.Lap()
	if err := profiled(); err != nil {
		return figures.Result{}, err
	}
	complete := err == nil
	if !complete && !reached(limited) {
		return figures.Result{}, err
	}
	if complete && !one.Rests {
		if err := trail(ctx, e); err != nil {
			return figures.Result{}, err
		}
	}
	result, err := meter.End(ctx, one.Name)
	if err != nil {
		return result, err
	}
	result.Complete, result.LeaseSeconds, result.Rounds, result.InitializedRounds = complete, said.LeaseSeconds, said.Rounds, said.InitializedRounds
	if complete {
		err = repeat(ctx, e, one, options, show, &result)
	}
	if len(result.Rounds) > 0 {
		result.Seconds = figures.Median(result.Rounds)
	}
	return result, err
}

// repeat times the rounds of a scenario after the first. One that reaches the limit is the last.
func repeat(ctx context.Context, e *environment.Environment, one scenario.Scenario, options Options, show *show, result *figures.Result) error {
	rounds := one.Rounds(result.Variant, options.Size)
	for round := 2; round <= rounds && result.Complete; round++ {
		show.update("%s, round %d of %d", one.Name, round, rounds)
		seconds, err := again(ctx, e, one, options.Size, result)
		if err != nil && !errors.Is(err, errLimit) {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if round == 2 {
			result.Rounds = []float64{result.Seconds}
		}
		result.Rounds, result.Complete = append(result.Rounds, seconds), err == nil
	}
	return nil
}

// again is one round: what comes before it is not timed.
func again(ctx context.Context, e *environment.Environment, one scenario.Scenario, size figures.Size, result *figures.Result) (float64, error) {
	preparing, cancel := context.WithTimeoutCause(ctx, prepareLimit, fmt.Errorf("not prepared after %s", prepareLimit))
	defer cancel()
	if err := one.Again(preparing, e, size); err != nil {
		return 0, fmt.Errorf("prepare: %w", err)
	}
	limited, stop := context.WithTimeoutCause(ctx, one.Limit, errLimit)
	defer stop()
	began := time.Now()
	err := one.Act(limited, e, size, result)
	if err != nil && reached(limited) {
		err = errLimit
	}
	return time.Since(began).Seconds(), err
}

// trail waits until the managers are through with what a scenario has left them to do: events, updates of load balancers. One
// that goes on forever is cut off.
func trail(ctx context.Context, e *environment.Environment) error {
	trailing, cancel := context.WithTimeoutCause(ctx, scenario.TrailLimit, errLimit)
	defer cancel()
	err := e.AwaitQuiet(trailing)
	if reached(trailing) {
		return nil
	}
	return err
}

// reached reports whether a scenario was given up because of its limit.
func reached(limited context.Context) bool { return errors.Is(context.Cause(limited), errLimit) }

// summary is one line about a result.
func summary(one scenario.Scenario, result figures.Result) string {
	took := fmt.Sprintf("%.2f s", result.Seconds)
	if !result.Complete {
		took = fmt.Sprintf("given up after %.0f s at %d of %d %s", result.Seconds, result.Done, result.Of, one.Counts)
	}
	return fmt.Sprintf("%s, %d cloud calls, %d refused, %d writes, %.1f s CPU, %d MiB", took, result.Received(), result.Refused(),
		result.Written(), result.CPUSeconds, result.PeakBytes>>20)
}
