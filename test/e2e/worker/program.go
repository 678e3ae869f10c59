// Package worker runs what makes a host of a sandbox a node: a kubelet with a container runtime, and kube-proxy.
package worker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stopGrace is how long a program may take to end before it is killed.
const stopGrace = 5 * time.Second

// Program is a process that runs until the test ends. What it writes goes to NAME.log in dir.
type Program struct {
	// Name is what it is called, and its log is.
	Name string

	log     string
	done    chan struct{}
	err     error
	command *exec.Cmd
}

// Start starts a program.
func Start(t *testing.T, dir, name string, args ...string) *Program {
	t.Helper()
	p := &Program{Name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	p.command = cmd
	t.Cleanup(p.Stop)
	return p
}

// Stop asks the program to end, and waits until it has.
func (p *Program) Stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM) // an error says that it is gone already
	select {
	case <-p.done:
	case <-time.After(stopGrace):
		_ = p.command.Process.Kill()
		<-p.done
	}
}

// Kill ends the program without giving it time for anything.
func (p *Program) Kill() {
	_ = p.command.Process.Kill()
	<-p.done
}

// Runs returns an error with the end of its log when the program has ended.
func (p *Program) Runs() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended by itself: %v, the end of its log:\n%s", p.Name, p.err, p.Tail())
	default:
		return nil
	}
}

// Tail returns the end of the log.
func (p *Program) Tail() string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// Poll calls check until it returns nil. The test fails with what check last returned after a deadline, or as soon as one
// of the programs ends.
func Poll(t *testing.T, what string, programs []*Program, check func(context.Context) error) {
	t.Helper()
	const deadline = 45 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		for _, program := range programs {
			if ended := program.Runs(); ended != nil {
				t.Fatal(ended)
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %s it is not so that %s: %v", deadline, what, err)
		case <-ticker.C:
		}
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
func (p *Program) Log() string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(content)
}
