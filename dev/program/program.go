// Package program runs other programs: a control plane's, a cloud controller manager under test. They die with this process,
// however it ends.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// SelfEnv is the environment variable that makes a test binary the program that it tests. Where a binary can be several programs, the
// value says which.
const SelfEnv = "MOORING_TEST_AS_PROGRAM"

// killWait is how long a killed program may take to be gone. Only one that is stuck in the kernel needs longer.
const killWait = 10 * time.Second

// Options say what to start. Name, Path and Dir are required.
type Options struct {
	// Name is what errors call the program. What it writes goes to NAME.log in Dir.
	Name string
	// Path is the file of the program, and Args are its arguments.
	Path string
	Args []string
	// Env are environment variables as "NAME=value". They win over those of this process.
	Env []string
	// Dir is the working directory of the program, and the place of its log.
	Dir string
	// Append adds to the log, which else begins anew.
	Append bool
	// Prepare, if set, is called on the thread that starts the program, right before it does, and may change the command. The thread is
	// used for nothing else and ends with the program, so Prepare may enter namespaces which this process is not in.
	Prepare func(*exec.Cmd) error
}

// Program is a program that was started.
type Program struct {
	name    string
	log     string
	cmd     *exec.Cmd
	prepare func(*exec.Cmd) error
	done    chan struct{} // closed when the program is gone
	err     error         // valid once done is closed: how it ended
}

// Start starts a program in a process group of its own, so a Ctrl-C at a terminal reaches only this process, which then
// stops the others in order.
func Start(options Options) (*Program, error) {
	p := &Program{name: options.Name, log: filepath.Join(options.Dir, options.Name+".log"), prepare: options.Prepare, done: make(chan struct{})}
	mode := os.O_TRUNC
	if options.Append {
		mode = os.O_APPEND
	}
	log, err := os.OpenFile(p.log, mode|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	defer log.Close()
	p.cmd = exec.Command(options.Path, options.Args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = options.Dir, log, log
	p.cmd.Env = append(os.Environ(), options.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	DieWithParent(p.cmd.SysProcAttr)
	started := make(chan error)
	if p.prepare == nil {
		go p.run(started)
	} else {
		go OnThread(func() { p.run(started) })
	}
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return p, nil
}

// run starts the program and waits for its end on one thread: the signal that ends a child with its parent is sent when
// the thread that forked it ends, and a locked thread stays until its goroutine is through.
func (p *Program) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var err error
	if p.prepare != nil {
		err = p.prepare(p.cmd)
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		started <- err
		return
	}
	started <- nil
	p.err = p.cmd.Wait()
	close(p.done)
}

// Name returns what errors call the program.
func (p *Program) Name() string { return p.name }

// LogPath returns the file that the program writes to.
func (p *Program) LogPath() string { return p.log }

// PID returns the process ID.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program is gone.
func (p *Program) Done() <-chan struct{} { return p.done }

// State returns what the kernel said of the program at its end. Nil means that it runs.
func (p *Program) State() *os.ProcessState {
	select {
	case <-p.done:
		return p.cmd.ProcessState
	default:
		return nil
	}
}

// Stop asks the program to end, and kills it when it has not ended after grace or when ctx ends. It returns an error
// only when the program is still there.
func (p *Program) Stop(ctx context.Context, grace time.Duration) error {
	if p == nil {
		return nil
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
	case <-ctx.Done():
	}
	return p.Kill()
}

// Kill ends the program without giving it time for anything, and with it what it has started in its process group.
// It returns an error only when the program is still there. SIGKILL by Signal leaves the rest of the group alone.
func (p *Program) Kill() error {
	if p.State() == nil {
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // an error says that nothing is left of the group
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(killWait):
		return fmt.Errorf("%s (process %d) is still there %s after it was killed", p.name, p.PID(), killWait)
	}
}

// Signal signals the program. One that is gone needs none, also if that has not been noticed yet.
func (p *Program) Signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// Exited returns an *ExitError with the end of the log when the program is gone, and nil while it runs.
func (p *Program) Exited() error {
	select {
	case <-p.done:
		return &ExitError{Program: p.name, Log: p.log, Tail: p.Tail(), Err: p.err}
	default:
		return nil
	}
}

// ExitError says that a program ended by itself.
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

// Output returns all that the program has written to its log, or why that cannot be read.
func (p *Program) Output() string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// Tail returns the last lines of the log, or why they cannot be read.
func (p *Program) Tail() string {
	file, err := os.Open(p.log)
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

// The range of FreePort. It is below the ports from which the kernel chooses for outgoing connections, which could take one before
// the program listens, and below those of Services.
const firstFreePort, lastFreePort = 20000, 29999

// FreePort returns a TCP port of loopback on which no program listens. No other call returns the port while this process runs, in
// this or any other process: a UDP socket on the same port marks it as taken.
func FreePort() (int, error) {
	const ports = lastFreePort - firstFreePort + 1
	start := rand.IntN(ports)
	for i := range ports {
		port := firstFreePort + (start+i)%ports
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		mark, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			_ = mark.Close()
			continue
		}
		takenPorts.Lock()
		takenPorts.marks = append(takenPorts.marks, mark)
		takenPorts.Unlock()
		return port, listener.Close()
	}
	return 0, fmt.Errorf("find a free port: all from %d to %d are taken", firstFreePort, lastFreePort)
}

// takenPorts keeps the marks of FreePort: a socket that is garbage is closed.
var takenPorts struct {
	sync.Mutex
	marks []net.PacketConn
}

// awaitProbe is how often a condition is looked at while something starts.
const awaitProbe = 20 * time.Millisecond

// Await calls ready until it returns nil, one of the programs ends or ctx does. The error then holds the last one that
// ready returned.
func Await(ctx context.Context, what string, programs []*Program, ready func(context.Context) error) error {
	var problem, exit error
	err := wait.PollUntilContextCancel(ctx, awaitProbe, true, func(ctx context.Context) (bool, error) {
		if problem = ready(ctx); problem == nil {
			return true, nil
		}
		for _, p := range programs {
			if exit = p.Exited(); exit != nil {
				return false, exit
			}
		}
		return false, nil
	})
	if err != nil && exit == nil {
		return fmt.Errorf("wait until %s: %w", what, errors.Join(context.Cause(ctx), problem))
	}
	return err
}
