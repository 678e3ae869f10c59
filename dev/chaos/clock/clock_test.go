package clock_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/chaos/clock"
)

// program prints its wall clock in nanoseconds, and whether that went on as its monotonic clock did. It needs little of Go's library and builds in
// seconds.
const program = `package main

import "time"

func main() {
	began := time.Now()
	<-time.After(10 * time.Millisecond)
	println(began.UnixNano(), time.Since(began) < time.Minute, time.Until(began.Add(time.Minute)) <= time.Minute)
}
`

// The wall clock of a program is ahead by what the environment says, and its timers are not.
func TestAhead(t *testing.T) {
	dir := t.TempDir()
	overlay, err := clock.Overlay(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-overlay="+overlay, "-o", binary, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, ahead := range []time.Duration{0, 7 * time.Minute} {
		run := exec.CommandContext(t.Context(), binary)
		run.Env = append(os.Environ(), clock.Env(ahead))
		before := time.Now()
		output, err := run.CombinedOutput()
		after := time.Now()
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		var wall int64
		if _, err := fmt.Sscan(string(output), &wall); err != nil {
			t.Fatal(err)
		}
		shown := time.Unix(0, wall)
		if shown.Before(before.Add(ahead)) || shown.After(after.Add(ahead)) {
			t.Errorf("with %s the clock was at %s, want %s later than %s to %s", ahead, shown, ahead, before, after)
		}
		if !strings.HasSuffix(strings.TrimSpace(string(output)), "true true") {
			t.Errorf("with %s the clock was set within the program: %s", ahead, output)
		}
	}
}
