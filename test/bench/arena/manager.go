package arena

import (
	"context"
	"errors"
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

// stopGrace is how long a manager may take to end after SIGTERM.
const stopGrace = 10 * time.Second

// Manager is a process of a cloud controller manager.
type Manager struct {
	name    string
	log     string
	port    int
	command *exec.Cmd
	done    chan struct{}
	err     error

	// stopped says that the process may end.
	stopped bool

	// cpu and peak are what the process has used, as of the last reading while it ran; window is the peak since the last reset.
	cpu          float64
	peak, window int64
}

// startManager starts a program with the flags of its variant and those that say where everything is.
func startManager(dir, name, program, kubeconfig, cloudConfig string, flags []string) (*Manager, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	m := &Manager{name: name, log: filepath.Join(dir, name+".log"), port: port, done: make(chan struct{})}
	args := append([]string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--cloud-config=" + cloudConfig, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--cert-dir=" + filepath.Join(dir, name),
	}, flags...)
	m.command = exec.Command(program, args...)
	log, err := os.Create(m.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	m.command.Stdout, m.command.Stderr = log, log
	m.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go m.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return m, nil
}

// run waits for the process on the thread that started it: that thread's end would be the parent's for the kernel.
func (m *Manager) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := m.command.Start()
	started <- err
	if err != nil {
		return
	}
	m.err = m.command.Wait()
	close(m.done)
}

func (m *Manager) pid() int { return m.command.Process.Pid }

func (m *Manager) runs() bool {
	select {
	case <-m.done:
		return false
	default:
		return true
	}
}

// ended returns an error with the end of the log if the process has ended.
func (m *Manager) ended() error {
	if m.runs() {
		return nil
	}
	return fmt.Errorf("%s ended by itself (%v): %s", m.name, m.err, lastLines(m.log, 5))
}

// read brings the figures of the process up to date. Those of one that has ended stay as they are: the kernel keeps its
// processor time only.
func (m *Manager) read() error {
	if !m.runs() {
		if state := m.command.ProcessState; state != nil {
			m.cpu = (state.UserTime() + state.SystemTime()).Seconds()
		}
		return nil
	}
	cpu, err := cpuSeconds(m.pid())
	if err != nil {
		return fmt.Errorf("processor time of %s: %w", m.name, err)
	}
	peak, err := peakBytes(m.pid())
	if err != nil {
		return fmt.Errorf("memory of %s: %w", m.name, err)
	}
	m.cpu, m.peak, m.window = cpu, max(m.peak, peak), max(m.window, peak)
	return nil
}

// signal sends a signal, after a last look at the memory of the process. One that has ended needs none, also if that has not
// been noticed yet.
func (m *Manager) signal(signal syscall.Signal) error {
	if !m.runs() {
		return nil
	}
	// Of one that ends at this moment there is nothing to read.
	_ = m.read()
	if err := m.command.Process.Signal(signal); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// stop ends the process, with force if it has to.
func (m *Manager) stop(ctx context.Context) error {
	m.stopped = true
	err := m.signal(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	select {
	case <-m.done:
	case <-ctx.Done():
		if killErr := m.command.Process.Kill(); !errors.Is(killErr, os.ErrProcessDone) {
			err = errors.Join(err, killErr)
		}
		<-m.done
	}
	return errors.Join(err, m.read())
}

// freePort returns a port of loopback that nobody uses. Somebody may take it before the manager does, which then ends.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return port, listener.Close()
}

func lastLines(path string, count int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
