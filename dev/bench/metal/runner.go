package metal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/metal/rack"
)

// Size is how much there is to do.
type Size struct {
	// Services are created at once.
	Services int
	// Minute is how long what happens at idle, and after the Services, is counted.
	Minute time.Duration
	// Dead is how long a machine has no network, Quiet how long nothing may change until the next failure.
	Dead, Quiet time.Duration
	// Repetitions is how often everything is measured.
	Repetitions int
}

// FullSize is the size for the page. A machine is dead for longer than a session is held.
func FullSize() Size {
	return Size{Services: 1000, Minute: time.Minute, Dead: 30 * time.Second, Quiet: 5 * time.Second, Repetitions: 5}
}

// QuickSize shows that everything works. Its figures mean nothing.
func QuickSize() Size {
	return Size{Services: 20, Minute: time.Second, Quiet: 500 * time.Millisecond, Repetitions: 1}
}

// limit bounds one scenario.
const limit = 3 * time.Minute

// Runner takes both systems through the scenarios.
type Runner struct {
	Rack *rack.Rack
	Size Size
	// Report gets the figures. Save is called when a system is through.
	Report *Report
	Save   func() error
	// Progress is called with what is done.
	Progress func(string)
}

// Run takes the systems through the scenarios in turn, as often as the size says.
func (r *Runner) Run(ctx context.Context) error {
	for repetition := range r.Size.Repetitions {
		for _, system := range rack.Systems() {
			r.Progress(fmt.Sprintf("%s, %d of %d", system, repetition+1, r.Size.Repetitions))
			if err := r.measure(ctx, system); err != nil {
				return fmt.Errorf("measure %s: %w", system, err)
			}
			if err := r.Save(); err != nil {
				return err
			}
		}
	}
	return nil
}

// scenario is one.
type scenario struct {
	name string
	run  func(context.Context, *rack.Run) error
}

// fastProbes are faster than MetalLB's BFD by its defaults, which takes a session down after three times 300 ms.
const fastProbes = 150 * time.Millisecond

// measure takes a system through all scenarios.
func (r *Runner) measure(ctx context.Context, system rack.System) error {
	err := r.on(ctx, system, rack.Setup{}, scenario{newService, r.newService}, scenario{idleCPU, r.idle}, scenario{death, r.death},
		scenario{afterCrash, r.afterCrash}, scenario{killAll, r.killAll}, scenario{manyAll, r.many})
	if err == nil && system == rack.Mooring {
		err = r.on(ctx, system, rack.Setup{Probes: fastProbes}, scenario{fastDeath, r.fastDeath})
	}
	if err == nil {
		err = r.on(ctx, system, rack.Setup{Layer2: true}, scenario{failover, r.failover})
	}
	return err
}

// fastDeath has a machine die where Mooring asks more often than by default. It is back in the end: it is in the rack of the next system too.
func (r *Runner) fastDeath(ctx context.Context, run *rack.Run) error {
	err := r.timed(ctx, run, fastDeath, run.Death)
	if err == nil {
		_, err = run.Return(ctx)
	}
	return err
}

func (r *Runner) failover(ctx context.Context, run *rack.Run) error {
	return r.timed(ctx, run, failover, run.Failover)
}

// timed adds how long something took, if it worked.
func (r *Runner) timed(ctx context.Context, run *rack.Run, row string, something func(context.Context) (time.Duration, error)) error {
	took, err := something(ctx)
	if err == nil {
		r.Report.add(row, run.System, took.Seconds())
	}
	return err
}

// on takes a system through scenarios, on a control plane of its own.
func (r *Runner) on(ctx context.Context, system rack.System, setup rack.Setup, scenarios ...scenario) error {
	starting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	run, err := r.Rack.Start(starting, system, setup)
	if err != nil {
		return err
	}
	for _, scenario := range scenarios {
		r.Progress(fmt.Sprintf("%s: %s", system, scenario.name))
		if err = r.bounded(ctx, run, scenario.run); err != nil {
			err = fmt.Errorf("%s: %w", scenario.name, err)
			break
		}
	}
	return errors.Join(err, run.Close(context.WithoutCancel(ctx)))
}

// bounded runs a scenario when nothing changes, and gives up after its limit.
func (r *Runner) bounded(ctx context.Context, run *rack.Run, scenario func(context.Context, *rack.Run) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %s", limit))
	defer cancel()
	if err := run.Settle(ctx, r.Size.Quiet); err != nil {
		return err
	}
	return scenario(ctx, run)
}

func (r *Runner) newService(ctx context.Context, run *rack.Run) error {
	took, _, err := run.Create(ctx, 1)
	r.Report.add(newService, run.System, took.Seconds())
	return err
}

// idle counts what happens while nothing does. What start-up wrote late is no part of that.
func (r *Runner) idle(ctx context.Context, run *rack.Run) error {
	for {
		use, err := run.Measure(ctx, func() error { return run.Pause(ctx, r.Size.Quiet) })
		if err != nil {
			return err
		}
		if use.Writes == 0 {
			break
		}
	}
	use, err := run.Measure(ctx, func() error { return run.Pause(ctx, r.Size.Minute) })
	r.Report.add(idleCPU, run.System, use.CPUSeconds)
	r.Report.add(idleWrites, run.System, float64(use.Writes+use.LeaseWrites))
	return err
}

// death has a machine die, and come back.
func (r *Runner) death(ctx context.Context, run *rack.Run) error {
	if err := r.timed(ctx, run, death, run.Death); err != nil {
		return err
	}
	if err := run.Pause(ctx, r.Size.Dead); err != nil {
		return err
	}
	return r.timed(ctx, run, back, run.Return)
}

func (r *Runner) afterCrash(ctx context.Context, run *rack.Run) error {
	return r.timed(ctx, run, afterCrash, run.CreateAfterCrash)
}

func (r *Runner) killAll(ctx context.Context, run *rack.Run) error {
	outage, err := run.KillAll(ctx, r.Size.Quiet)
	r.Report.add(killAll, run.System, outage.Seconds())
	return err
}

// many creates many Services. One more comes first: a leader is at work again then, after all that died before.
func (r *Runner) many(ctx context.Context, run *rack.Run) error {
	if _, _, err := run.Create(ctx, 1); err != nil {
		return err
	}
	use, err := run.Measure(ctx, func() error {
		all, lag, err := run.Create(ctx, r.Size.Services)
		r.Report.add(manyAll, run.System, all.Seconds())
		r.Report.add(manyLag, run.System, lag.Seconds())
		return err
	})
	if err != nil {
		return err
	}
	r.Report.add(manyCPU, run.System, use.CPUSeconds)
	r.Report.add(manyWrites, run.System, float64(use.Writes))
	memory, err := run.Memory()
	if err != nil {
		return err
	}
	r.Report.add(manyMemory, run.System, memory)
	use, err = run.Measure(ctx, func() error { return run.Pause(ctx, r.Size.Minute) })
	r.Report.add(trailingCPU, run.System, use.CPUSeconds)
	r.Report.add(trailing, run.System, float64(use.Writes))
	return err
}
