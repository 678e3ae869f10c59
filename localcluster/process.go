package localcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// killWait is how long a killed process may take to be gone. Only a process stuck in the kernel needs longer.
const killWait = 10 * time.Second

// command is a program to start.
type command struct {
	name string // of the program; its log is NAME.log
	path string
	args []string
	dir  string // working directory and place of the log
}

// process is a program that was started and is waited for.
type process struct {
	command
	pid  int
	done chan struct{} // closed when the process is gone
	err  error         // valid once done is closed: how it ended
}

// start starts a program in a process group of its own, so that a Ctrl-C at a terminal reaches only this process, which
// then stops the others in order. What the program writes is added to its log.
func start(command command) (*process, error) {
	log, err := os.OpenFile(command.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command.name, err)
	}
	defer log.Close()
	cmd := exec.Command(command.path, command.args...)
	cmd.Dir = command.dir
	cmd.Stdout, cmd.Stderr = log, log
	// However this process dies, the kernel kills the program.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	proc := &process{command: command, done: make(chan struct{})}
	started := make(chan error)
	go proc.run(cmd, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", command.name, err)
	}
	return proc, nil
}

// run starts the program and waits for its end on one thread: the signal that ends a child with its parent is sent when
// the thread that forked it ends, and a locked thread stays until its goroutine is through.
func (p *process) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	p.pid = cmd.Process.Pid
	started <- nil
	p.err = cmd.Wait()
	close(p.done)
}

// stop asks the process to end, and kills it when it has not ended after grace or when ctx ends. It returns an error
// only when the process is still there.
func (p *process) stop(ctx context.Context, grace time.Duration) error {
	if p == nil {
		return nil
	}
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
	case <-ctx.Done():
	}
	p.signal(syscall.SIGKILL)
	select {
	case <-p.done:
		return nil
	case <-time.After(killWait):
		return fmt.Errorf("%s (process %d) is still there %s after it was killed", p.name, p.pid, killWait)
	}
}

// signal signals the process, unless it was waited for already and its number may belong to another.
func (p *process) signal(signal syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(p.pid, signal)
	}
}

// exited returns an error with the end of the log when the process is gone, and nil while it runs.
func (p *process) exited() error {
	select {
	case <-p.done:
		return &ExitError{Program: p.name, Log: p.logPath(), Tail: tail(p.logPath()), Err: p.err}
	default:
		return nil
	}
}

func (c command) logPath() string { return filepath.Join(c.dir, c.name+".log") }

// ExitError says that a program of the control plane ended by itself.
type ExitError struct {
	// Program is its name, for example "kube-apiserver".
	Program string
	// Log is the path of what it wrote, and Tail the last lines of that.
	Log, Tail string
	// Err is how it ended, nil when it exited with code 0.
	Err error
}

// Error quotes the end of the log, where the reason stands.
func (e *ExitError) Error() string {
	how := "exit code 0"
	if e.Err != nil {
		how = e.Err.Error()
	}
	return fmt.Sprintf("%s ended by itself (%s), log in %s:\n%s", e.Program, how, e.Log, e.Tail)
}

// Unwrap returns how the program ended.
func (e *ExitError) Unwrap() error { return e.Err }

const (
	tailLines = 15
	tailBytes = 16 << 10
)

// tail returns the last lines of a log, or why they cannot be read.
func tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err.Error()
	}
	content := make([]byte, min(info.Size(), tailBytes))
	if _, err := file.ReadAt(content, info.Size()-int64(len(content))); err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}

// awaitProbe is how often a condition is looked at while something starts.
const awaitProbe = 20 * time.Millisecond

// await calls ready until it returns nil, one of the processes ends or ctx does. The error then holds the last one that
// ready returned.
func await(ctx context.Context, what string, processes []*process, ready func(context.Context) error) error {
	ticker := time.NewTicker(awaitProbe)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		for _, proc := range processes {
			if exit := proc.exited(); exit != nil {
				return exit
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, errors.Join(context.Cause(ctx), err))
		case <-ticker.C:
		}
	}
}
