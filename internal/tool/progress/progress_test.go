package progress_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

func TestLinesOnAPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		step := progress.New(&out).Begin("building it")
		time.Sleep(time.Second) // virtual
		step.Update("%d of %d packages", 3, 9)
		time.Sleep(3500 * time.Millisecond)
		step.Done("built")
		step.Fail() // too late to count
		want := []string{
			"building it",
			"building it: 3 of 9 packages (2.0s)",
			"building it: 3 of 9 packages (4.0s)",
			"building it: built (4.5s)",
			"",
		}
		if diff := cmp.Diff(want, strings.Split(out.String(), "\n")); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

func TestNilShowsNothing(t *testing.T) {
	step := progress.New(nil).Begin("quiet")
	step.Update("still")
	step.Fail()
}

func TestElapsed(t *testing.T) {
	for duration, want := range map[time.Duration]string{
		90 * time.Millisecond:                         "0.1s",
		9940 * time.Millisecond:                       "9.9s",
		42 * time.Second:                              "42s",
		4*time.Minute + 7*time.Second + time.Second/2: "4m07s",
	} {
		if got := progress.Elapsed(duration); got != want {
			t.Errorf("Elapsed(%s) = %s, want %s", duration, got, want)
		}
	}
}
