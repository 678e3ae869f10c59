package demo

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mooring-ccm/mooring/dev/program"
)

// processGrace is how long a process may take to stop before it is killed.
const processGrace = 10 * time.Second

// process is a program that runs beside the demo.
type process struct {
	*program.Program
	// free is closed when the process may end: it was stopped, or no step needs it from now on.
	free     chan struct{}
	freeOnce sync.Once
}

// startProcess starts a program that must run until it is released or the demo ends.
func (s *environment) startProcess(what, name string, args ...string) (*process, error) {
	running, err := program.Start(program.Options{Name: name, Path: args[0], Args: args[1:], Dir: s.logs, Append: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	p := &process{Program: running, free: make(chan struct{})}
	s.onEnd(p.stop)
	s.beside(what+" "+name, p.mustLive)
	return p, nil
}

// release says that the process may end.
func (p *process) release() { p.freeOnce.Do(func() { close(p.free) }) }

// mustLive returns an error when the process ends before it may.
func (p *process) mustLive(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.free:
		return nil
	case <-p.Done():
	}
	select {
	case <-p.free:
		return nil
	default:
		return fmt.Errorf("ended by itself (%s): %s", p.State(), p.lastLine())
	}
}

// terminate asks the process to stop, as Kubernetes does with a pod.
func (p *process) terminate() error {
	p.release()
	return p.Signal(syscall.SIGTERM)
}

// kill ends the process as a crash does.
func (p *process) kill() error {
	p.release()
	return p.Kill()
}

// ended waits until the process has stopped and returns an error unless it did so in order.
func (p *process) ended(ctx context.Context) error {
	select {
	case <-p.Done():
		if !p.State().Success() {
			return fmt.Errorf("%s stopped with %s: %s", p.Name(), p.State(), p.lastLine())
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s has not stopped: %w", p.Name(), context.Cause(ctx))
	}
}

// stop ends the process, with force if it has to.
func (p *process) stop(ctx context.Context) error {
	p.release()
	return p.Stop(ctx, processGrace)
}

// lastLine returns the last line of the log, where a program that fails says why.
func (p *process) lastLine() string {
	lines := strings.Split(p.Tail(), "\n")
	return lines[len(lines)-1]
}
