package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-ccm/mooring/dev/demo/scenario"
)

// simSections are the steps with the simulated cloud, in their order.
func simSections() []section {
	return []section{
		prepare(),
		controlPlane(),
		simulatedCloud(),
		replicas(),
		join(),
		routes(),
		services(),
		resize(),
		lifecycle(),
		failover(),
	}
}

// section is some steps that belong together.
type section struct {
	name, title string
	steps       []step
}

// step does one thing and waits for what has to come of it.
type step struct {
	// name is unique in its section, and title says what is checked.
	name, title string
	// deadline is how long it may take.
	deadline time.Duration
	// run returns what was measured, for people. Its context ends at the deadline.
	run func(ctx context.Context, s *environment) (detail string, err error)
}

// outline is the scenario before it runs.
func outline(sections []section, override time.Duration) []scenario.Section {
	var all []scenario.Section
	for _, c := range sections {
		planned := scenario.Section{Name: c.name, Title: c.title}
		for _, s := range c.steps {
			planned.Steps = append(planned.Steps, scenario.Step{Name: stepName(c, s), Title: s.title, Deadline: s.within(override)})
		}
		all = append(all, planned)
	}
	return all
}

func stepName(c section, s step) string { return c.name + "/" + s.name }

func (s step) within(override time.Duration) time.Duration {
	if override > 0 {
		return override
	}
	return s.deadline
}

// play runs the steps in their order until one fails.
func (s *environment) play(ctx context.Context, sections []section) error {
	for _, c := range sections {
		for _, next := range c.steps {
			if err := s.playStep(ctx, stepName(c, next), next); err != nil {
				return fmt.Errorf("%s: %w", stepName(c, next), err)
			}
		}
	}
	return nil
}

func (s *environment) playStep(ctx context.Context, name string, next step) error {
	deadline := next.within(s.options.StepDeadline)
	late := fmt.Errorf("it did not happen within %s", deadline)
	ctx, cancel := context.WithTimeoutCause(ctx, deadline, late)
	defer cancel()
	s.current = name
	s.report(scenario.StepBegan{At: time.Now(), Step: name})
	detail, err := next.run(ctx, s)
	if err != nil && context.Cause(ctx) == late && !errors.Is(err, late) { // a command that was cut off does not know by what
		err = fmt.Errorf("%w: %w", late, err)
	}
	ended := scenario.StepEnded{At: time.Now(), Step: name, Detail: detail}
	if err != nil {
		ended.Err = err.Error()
	}
	s.report(ended)
	return err
}

// say reports how far the current step is.
func (s *environment) say(format string, args ...any) {
	s.report(scenario.StepMoved{At: time.Now(), Step: s.current, Detail: fmt.Sprintf(format, args...)})
}
