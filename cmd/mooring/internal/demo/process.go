package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mooring-ccm/mooring/localcluster/program"
)

// processGrace is how long a process may take to stop before it is killed.
const processGrace = 10 * time.Second

// process is a program that runs beside the demo.
type process struct {
	name string
	// log is the path of what it writes.
	log     string
	command *exec.Cmd
	// free is closed when the process may end: it was stopped, or nobody counts on it any more.
	free     chan struct{}
	freeOnce sync.Once
	// done is closed when it has ended, and err says how.
	done chan struct{}
	err  error
}

// startProcess starts a program that must run until it is released or the demo ends.
func (s *environment) startProcess(what, name string, args ...string) (*process, error) {
	p := &process{
		name: name, log: s.path("logs", name+".log"), command: exec.Command(args[0], args[1:]...),
		free: make(chan struct{}), done: make(chan struct{}),
	}
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("%s %s: %w", what, name, err)
	}
	s.onEnd(p.stop)
	s.beside(what+" "+name, p.mustLive)
	return p, nil
}

// start starts the process in a group of its own, so that Ctrl-C reaches only the demo, which then stops everything in order.
func (p *process) start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	program.DieWithParent(p.command.SysProcAttr)
	started := make(chan error)
	go p.run(started)
	return <-started
}

// run waits for the process on the thread that started it: that thread's end would be the parent's for the kernel.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.command.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.command.Wait()
	close(p.done)
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
	case <-p.done:
	}
	select {
	case <-p.free:
		return nil
	default:
		return fmt.Errorf("ended by itself (%s): %s", p.command.ProcessState, lastLine(p.log))
	}
}

// terminate asks the process to stop, as Kubernetes does with a pod.
func (p *process) terminate() error {
	p.release()
	return p.signal(syscall.SIGTERM)
}

// kill ends the process as a crash does.
func (p *process) kill() error {
	p.release()
	err := p.signal(syscall.SIGKILL)
	<-p.done
	return err
}

func (p *process) signal(signal syscall.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
		return p.command.Process.Signal(signal)
	}
}

// ended waits until the process has stopped and returns an error unless it did so in order.
func (p *process) ended(ctx context.Context) error {
	select {
	case <-p.done:
		if p.err != nil {
			return fmt.Errorf("%s stopped with %w: %s", p.name, p.err, lastLine(p.log))
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s has not stopped: %w", p.name, context.Cause(ctx))
	}
}

// stop ends the process, with force if it has to.
func (p *process) stop(ctx context.Context) error {
	err := p.terminate()
	ctx, cancel := context.WithTimeout(ctx, processGrace)
	defer cancel()
	select {
	case <-p.done:
		return err
	case <-ctx.Done():
		return errors.Join(err, p.kill())
	}
}

// lastLine returns the last line of a log, where a program that fails says why.
func lastLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[len(lines)-1]
}
