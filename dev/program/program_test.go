package program

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/poll"
)

func TestSignalToAProcessWhoseEndIsNotNoticedYet(t *testing.T) {
	p := &Program{name: "true", cmd: exec.Command("true"), done: make(chan struct{})}
	if err := p.cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("got %v, want no error: the process has ended", err)
	}
}

func TestAProgramThatEndsIsQuoted(t *testing.T) {
	dir := t.TempDir()
	p, err := Start(Options{Name: "speaker", Path: "/bin/sh", Args: []string{"-c", "echo $WORDS; exit 3"}, Env: []string{"WORDS=no such luck"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the program is gone", func(context.Context) error {
		if p.Exited() == nil {
			return errors.New("it runs")
		}
		return nil
	})
	var exit *ExitError
	if err := p.Exited(); !errors.As(err, &exit) || exit.Program != "speaker" || exit.Log != filepath.Join(dir, "speaker.log") ||
		!strings.Contains(err.Error(), "no such luck") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v, want an ExitError with what the program wrote", err)
	}
	if err := p.Stop(t.Context(), time.Minute); err != nil || p.State().ExitCode() != 3 {
		t.Errorf("stopping what is gone: %v, state %v", err, p.State())
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	p, err := Start(Options{
		Name: "stubborn", Path: "/bin/sh", Args: []string{"-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done"}, Dir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the program ignores SIGTERM", func(context.Context) error {
		if p.Tail() != "ready" {
			return errors.New("it is not ready")
		}
		return nil
	})
	if p.State() != nil || p.Exited() != nil {
		t.Errorf("while it runs: state %v, %v", p.State(), p.Exited())
	}
	if err := p.Stop(t.Context(), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if status := p.State().Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v, want a kill", p.State())
	}
}

func TestFreePortReturnsNoPortTwice(t *testing.T) {
	seen := make(map[int]bool)
	for range 500 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Fatalf("port %d was returned twice", port)
		}
		seen[port] = true
	}
}
