package stage

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// stopGrace is how long a program may take to end after SIGTERM.
	stopGrace = 10 * time.Second
	// lastLines is how much of its log an error quotes.
	lastLines = 10
)

// program is a manager that runs. It dies with this process.
type program struct {
	name, log string
	command   *exec.Cmd
	done      chan struct{}
	err       error
}

// startProgram starts a program on a free port. What it writes goes to NAME.log in dir.
func startProgram(dir, name, binary string, env, args []string) (*program, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p := &program{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	p.command = exec.Command(binary, append(args, "--secure-port="+strconv.Itoa(port))...)
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p.command.Dir, p.command.Stdout, p.command.Stderr = dir, log, log
	p.command.Env = append(os.Environ(), env...)
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the %s manager: %w", name, err)
	}
	return p, nil
}

// run waits for the process on the thread that started it: that thread's end would be the parent's for the kernel.
func (p *program) run(started chan<- error) {
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

// ended returns an error with the end of its log if the program has ended.
func (p *program) ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("the %s manager ended by itself (%v):\n%s", p.name, p.err, p.tail())
	default:
		return nil
	}
}

func (p *program) tail() string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-lastLines):], "\n")
}

// stop ends the program, with force if it has to.
func (p *program) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	_ = p.command.Process.Signal(syscall.SIGTERM) // an error says that it is gone already
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = p.command.Process.Kill()
		<-p.done
	}
}

// freePort returns a port of loopback that nobody uses. Somebody may take it before the program does, which then ends.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return port, listener.Close()
}
