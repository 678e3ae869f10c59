package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/demo/story"
)

// simChapters is the whole story of the simulated cloud in its order.
func simChapters() []chapter {
	return []chapter{
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

// chapter is some steps that belong together.
type chapter struct {
	name, title string
	steps       []step
}

// step does one thing and waits for what has to come of it.
type step struct {
	// name is unique in its chapter, and title says what is checked.
	name, title string
	// deadline is how long it may take.
	deadline time.Duration
	// run returns what was measured, for people. Its context ends at the deadline.
	run func(ctx context.Context, s *stage) (detail string, err error)
}

// outline is the story before it is told.
func outline(chapters []chapter, override time.Duration) []story.Chapter {
	var all []story.Chapter
	for _, c := range chapters {
		told := story.Chapter{Name: c.name, Title: c.title}
		for _, s := range c.steps {
			told.Steps = append(told.Steps, story.Step{Name: stepName(c, s), Title: s.title, Deadline: s.within(override)})
		}
		all = append(all, told)
	}
	return all
}

func stepName(c chapter, s step) string { return c.name + "/" + s.name }

func (s step) within(override time.Duration) time.Duration {
	if override > 0 {
		return override
	}
	return s.deadline
}

// play runs the steps in their order until one fails.
func (s *stage) play(ctx context.Context, chapters []chapter) error {
	for _, c := range chapters {
		for _, next := range c.steps {
			if err := s.playStep(ctx, stepName(c, next), next); err != nil {
				return fmt.Errorf("%s: %w", stepName(c, next), err)
			}
		}
	}
	return nil
}

func (s *stage) playStep(ctx context.Context, name string, next step) error {
	deadline := next.within(s.options.StepDeadline)
	late := fmt.Errorf("it did not happen within %s", deadline)
	ctx, cancel := context.WithTimeoutCause(ctx, deadline, late)
	defer cancel()
	s.current = name
	s.tell(story.StepBegan{At: time.Now(), Step: name})
	detail, err := next.run(ctx, s)
	if err != nil && context.Cause(ctx) == late && !errors.Is(err, late) { // a command that was cut off does not know by what
		err = fmt.Errorf("%w: %w", late, err)
	}
	ended := story.StepEnded{At: time.Now(), Step: name, Detail: detail}
	if err != nil {
		ended.Err = err.Error()
	}
	s.tell(ended)
	return err
}

// say tells how far the current step is.
func (s *stage) say(format string, args ...any) {
	s.tell(story.StepMoved{At: time.Now(), Step: s.current, Detail: fmt.Sprintf(format, args...)})
}
