package program

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mooring-ccm/mooring/dev/poll"
)

func TestAThreadOfItsOwnIsNeverTheMainOne(t *testing.T) {
	var all sync.WaitGroup
	// This starts as many calls at once as there are likely threads, so one of them could get the main thread.
	for range 64 {
		all.Go(func() {
			OnThread(func() {
				if unix.Gettid() == os.Getpid() {
					t.Error("it is called on the main thread")
				}
			})
		})
	}
	all.Wait()
}

func TestAProgramIsPrepared(t *testing.T) {
	p, err := Start(Options{Name: "prepared", Path: "/bin/sh", Args: []string{"-c", "echo $WORD"}, Dir: t.TempDir(), Prepare: func(command *exec.Cmd) error {
		command.Env = append(command.Env, "WORD=changed")
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the program has ended", func(context.Context) error { return poll.Holds(p.State() != nil) })
	if got := p.Tail(); got != "changed" {
		t.Errorf("it wrote %q", got)
	}
	refusal := errors.New("no namespaces here")
	_, err = Start(Options{Name: "refused", Path: "/bin/true", Dir: t.TempDir(), Prepare: func(*exec.Cmd) error { return refusal }})
	if !errors.Is(err, refusal) {
		t.Errorf("got %v, want what Prepare returned", err)
	}
}
