package progress

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRepaintsOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		display := &Display{out: &out, terminal: true, width: 20, interval: Interval / 20}
		step := display.Begin("building")
		step.Update("%s", strings.Repeat("long ", 10))
		time.Sleep(time.Second) // virtual
		step.Done("built")
		if lines := strings.Count(out.String(), "\n"); lines != 1 {
			t.Errorf("%d lines are kept, want the last one only:\n%q", lines, out.String())
		}
		paints := strings.Split(out.String(), "\r\x1b[K")[1:]
		if len(paints) < 10 {
			t.Errorf("%d repaints within a second, want about ten", len(paints))
		}
		for _, paint := range paints {
			if got := len([]rune(strings.TrimSuffix(paint, "\n"))); got >= display.width {
				t.Errorf("%q is %d wide and would wrap at %d", paint, got, display.width)
			}
		}
		if last := paints[len(paints)-1]; !strings.HasPrefix(last, "building: built") {
			t.Errorf("the last paint is %q", last)
		}
	})
}
