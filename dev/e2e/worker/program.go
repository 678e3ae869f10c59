// Package worker runs what makes a host of a sandbox a node: a kubelet with a container runtime, and kube-proxy.
package worker

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/program"
)

// stopGrace is how long a program may take to end before it is killed.
const stopGrace = 5 * time.Second

// Program is a process that runs until the test ends. What it writes goes to NAME.log in dir.
type Program struct {
	// Name is what it is called, and its log is.
	Name string

	t       *testing.T
	running *program.Program
}

// Start starts a program.
func Start(t *testing.T, dir, name string, args ...string) *Program {
	t.Helper()
	return start(t, program.Options{Name: name, Path: args[0], Args: args[1:], Dir: dir})
}

// StartManager starts a manager that has a kubeconfig.
func StartManager(t *testing.T, manager harness.Manager) *Program {
	t.Helper()
	command, err := manager.Command(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, command)
}

func start(t *testing.T, options program.Options) *Program {
	t.Helper()
	running, err := program.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	p := &Program{Name: options.Name, t: t, running: running}
	t.Cleanup(p.Stop)
	return p
}

// Stop asks the program to end, and waits until it has.
func (p *Program) Stop() {
	if err := p.running.Stop(context.WithoutCancel(p.t.Context()), stopGrace); err != nil {
		p.t.Error(err)
	}
}

// Kill ends the program without giving it time for anything.
func (p *Program) Kill() {
	if err := p.running.Kill(); err != nil {
		p.t.Error(err)
	}
}

// Runs returns an error with the end of its log when the program has ended.
func (p *Program) Runs() error { return p.running.Exited() }

// Tail returns the end of the log.
func (p *Program) Tail() string { return p.running.Tail() }

// Poll calls check until it returns nil. The test fails with what check last returned after a deadline, or as soon as one
// of the programs ends.
func Poll(t *testing.T, what string, programs []*Program, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*poll.Deadline)
	defer cancel()
	var running []*program.Program
	for _, p := range programs {
		running = append(running, p.running)
	}
	if err := program.Await(ctx, what, running, check); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Log returns all that the program wrote so far.
func (p *Program) Log() string { return p.running.Output() }
