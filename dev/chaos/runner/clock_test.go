package runner

import (
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/chaos/report"
)

func TestCheckClocks(t *testing.T) {
	for name, test := range map[string]struct {
		first, second report.Clock
		want          string // part of the error; empty for none
	}{
		"as it should be":    {report.Clock{Writes: 9, Ahead: 419.9}, report.Clock{Writes: 4, Ahead: -0.1}, ""},
		"the other idles":    {report.Clock{Writes: 9, Ahead: 419.9}, report.Clock{}, ""},
		"it never led":       {report.Clock{}, report.Clock{Writes: 4}, "never had the lease"},
		"its clock is right": {report.Clock{Writes: 9, Ahead: -0.1}, report.Clock{}, "ahead by -0.1 s"},
		"far too much":       {report.Clock{Writes: 9, Ahead: 840}, report.Clock{}, "ahead by 840.0 s"},
		"the other's too":    {report.Clock{Writes: 9, Ahead: 420}, report.Clock{Writes: 1, Ahead: 420}, "whose clock is right"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkClocks(7*time.Minute, test.first, test.second)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// The largest difference counts: a write may be slow, and none is early.
func TestLeaseClock(t *testing.T) {
	var c leaseClock
	now := time.Now()
	for _, ahead := range []time.Duration{-3 * time.Second, 419 * time.Second, 400 * time.Second} {
		c.note(now.Add(ahead), now)
	}
	if got := c.read(); got != (report.Clock{Writes: 3, Ahead: 419}) {
		t.Errorf("%+v", got)
	}
}
