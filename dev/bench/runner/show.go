package runner

import "github.com/mooring-ccm/mooring/internal/tool/progress"

// show prints what a stage is at: one line after the other, each with what is under way and how far it is.
type show struct {
	display *progress.Display
	prefix  string
	step    *progress.Step
}

func newShow(display *progress.Display, stage, variant string) *show {
	return &show{display: display, prefix: stage + ", " + variant}
}

// update says what is under way, in a line of its own if the one before is over.
func (s *show) update(format string, args ...any) {
	if s.step == nil {
		s.step = s.display.Begin(s.prefix)
	}
	s.step.Update(format, args...)
}

// done ends the line with what came of it.
func (s *show) done(format string, args ...any) {
	s.update("")
	s.step.Done(format, args...)
	s.step = nil
}

// fail ends the line of something that was not done.
func (s *show) fail() {
	if s.step != nil {
		s.step.Fail()
	}
}
