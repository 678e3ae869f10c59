package localclustertest

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/program"
)

// StartProgram starts a program that is killed when the test ends. What it has written is logged if the test failed. Its directory is a
// temporary one unless the options name another.
func StartProgram(t testing.TB, options program.Options) *program.Program {
	t.Helper()
	if options.Dir == "" {
		options.Dir = t.TempDir()
	}
	running, err := program.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("output of %s, process %d:\n%s", running.Name(), running.PID(), running.Output())
		}
	})
	return running
}

// AwaitEnd waits until a program has ended, and returns its exit code, -1 if a signal ended it.
func AwaitEnd(t testing.TB, running *program.Program) (exitCode int) {
	t.Helper()
	poll.Until(t, running.Name()+" ends", func(context.Context) error {
		if running.State() == nil {
			return errors.New("it runs")
		}
		return nil
	})
	return running.State().ExitCode()
}

// FreePort is [program.FreePort].
func FreePort(t testing.TB) string {
	t.Helper()
	port, err := program.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}
