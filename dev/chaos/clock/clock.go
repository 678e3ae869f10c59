// Package clock builds programs whose wall clock differs from the clock of the machine. Their monotonic clock, and with it every timer and deadline,
// is the machine's own. They behave like programs on a machine whose clock is set wrong. See ADR 87.
package clock

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/dev/chaos/overlay"
)

// variable is the environment variable that says how far the clock of a program is ahead, in whole seconds.
const variable = "MOORING_CHAOS_CLOCK_AHEAD"

// Env returns the environment variable, as "NAME=value", by which the clock of a program is ahead that was built with Overlay.
func Env(ahead time.Duration) string { return variable + "=" + ahead.String() }

// Overlay writes what "go build -overlay" takes into a directory, and returns its path: package time of the installed Go, with a Now that
// adds what the environment says. That is the only place where package time reads the wall clock.
func Overlay(ctx context.Context, dir string) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find the source of Go's library: %w", err)
	}
	changed := overlay.File{
		Path: filepath.Join(strings.TrimSpace(string(output)), "src", "time", "time.go"),
		Replacements: []overlay.Replacement{
			{Old: "\t_ \"unsafe\" // for go:linkname\n", New: "\t\"syscall\"\n\t_ \"unsafe\" // for go:linkname\n"},
			{Old: "// Now returns the current local time.\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n", New: now},
		},
	}
	return changed.Write(dir)
}

// now is the beginning of time.Now and, before it, what it adds: seconds. An invalid value counts as 0.
const now = `var clockAhead = func() int64 {
	value, _ := syscall.Getenv("` + variable + `")
	ahead, _ := ParseDuration(value)
	return int64(ahead / Second)
}()

// Now returns the current local time.
func Now() Time {
	sec, nsec, mono := runtimeNow()
	sec += clockAhead
`
