// Package progress shows what a long piece of work is doing, how far it is and how long it has taken: in place on a
// terminal, as a line every two seconds on a pipe or in a log.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// Interval keeps a log readable and a watcher at ease. On a terminal a moving count is to look alive: it is painted twenty times as often.
const Interval = 2 * time.Second

// Display writes progress to one writer. Its methods may be called from several goroutines; one step is under way at a
// time, and beginning the next one ends the line of the one before.
type Display struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	width    int
	interval time.Duration
}

// New returns a display on out. A nil out shows nothing. When out is a terminal, a step repaints its line in place.
func New(out io.Writer) *Display {
	if out == nil {
		out = io.Discard
	}
	display := &Display{out: out, interval: Interval}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		display.terminal = true
		display.interval = Interval / 20
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			display.width = width
		}
	}
	return display
}

// Begin starts a step and shows it. The caller must end it with Done or Fail.
func (d *Display) Begin(what string) *Step {
	step := &Step{
		display: d, what: what, begun: time.Now(),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	step.show()
	go step.repaint()
	return step
}

// Step is one piece of work under way.
type Step struct {
	display *Display
	what    string
	begun   time.Time

	mu     sync.Mutex
	detail string
	ended  bool

	stop    chan struct{}
	stopped chan struct{}
}

// Update says how far the step is, for example "312 of 1833 packages". It is shown with the next line or repaint.
func (s *Step) Update(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detail = fmt.Sprintf(format, args...)
}

// Done ends the step with what came of it, shown together with the time it took. Only the first of Done and Fail counts.
func (s *Step) Done(format string, args ...any) {
	s.end(fmt.Sprintf(format, args...))
}

// Fail ends the step as one that did not succeed. The error itself is for the caller to report.
func (s *Step) Fail() { s.end("failed") }

func (s *Step) end(result string) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	s.detail = result
	s.mu.Unlock()
	close(s.stop)
	<-s.stopped
	s.show()
	s.display.newline()
}

// repaint shows the step again and again until it ends.
func (s *Step) repaint() {
	defer close(s.stopped)
	ticker := time.NewTicker(s.display.interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			s.show()
		}
	}
}

func (s *Step) show() {
	s.mu.Lock()
	line := s.what
	if s.detail != "" {
		line += ": " + s.detail
	}
	if elapsed := time.Since(s.begun); elapsed >= 100*time.Millisecond {
		line += fmt.Sprintf(" (%s)", Elapsed(elapsed))
	}
	s.mu.Unlock()
	s.display.line(line)
}

// Elapsed formats a duration as people read it: 3.2s below ten seconds, 42s below a minute, 4m07s above.
func Elapsed(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	default:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
}

// line paints text over the current line of a terminal, or writes it as a line of its own.
func (d *Display) line(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.terminal {
		fmt.Fprintln(d.out, text)
		return
	}
	if runes := []rune(text); d.width > 1 && len(runes) >= d.width {
		text = string(runes[:d.width-1]) // a wrapped line could not be painted over
	}
	fmt.Fprint(d.out, "\r\x1b[K"+text)
}

// newline keeps what stands on a terminal's current line.
func (d *Display) newline() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.terminal {
		fmt.Fprintln(d.out)
	}
}
