// Package programtest runs a program inside of its own tests: the test binary is started again and is the program then. What a run writes
// is kept, a test waits for texts in it, and sees what the run leaves behind.
package programtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/program"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// Patience bounds every wait: machines that run tests are busy.
const Patience = 3 * time.Minute

// Main runs the tests, or the program where this process was started as one. It returns the exit code.
func Main(m *testing.M, run func() int) int {
	if os.Getenv(program.SelfEnv) != "" {
		return run()
	}
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	return code
}

// built is the daemon, which is built once for all tests.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// Daemon returns the path of cloud-controller-manager as it is shipped.
func Daemon(t *testing.T) string {
	t.Helper()
	localclustertest.Needed(t) // so does every test that runs the daemon
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "mooring-test-"); built.err != nil {
			return
		}
		built.err = harness.BuildDaemon(context.Background(), filepath.Join(built.dir, "cloud-controller-manager"), nil)
	})
	if built.err != nil {
		t.Fatalf("building the daemon: %v", built.err)
	}
	return filepath.Join(built.dir, "cloud-controller-manager")
}

// Program is a run of the program.
type Program struct {
	t *testing.T
	// Command is how it is started. It may be changed until then.
	Command *exec.Cmd
	// Temp is where it puts its files.
	Temp string
	done chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

// Start starts the program with its output on a pipe.
func Start(t *testing.T, args ...string) *Program {
	t.Helper()
	p := Prepare(t, args...)
	p.Command.Stdout, p.Command.Stderr = p, p
	p.Launch()
	return p
}

// Prepare makes a run that has not begun.
func Prepare(t *testing.T, args ...string) *Program {
	t.Helper()
	p := &Program{t: t, Temp: t.TempDir(), done: make(chan struct{})}
	p.Command = exec.Command(os.Args[0], args...)
	p.Command.Env = append(os.Environ(), program.SelfEnv+"=1", "TMPDIR="+p.Temp, "GORACE=halt_on_error=1")
	return p
}

func (p *Program) Launch() {
	p.t.Helper()
	if err := p.Command.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.Command.Wait()
	}()
	p.t.Cleanup(func() {
		_ = p.Command.Process.Kill()
		<-p.done
		if p.t.Failed() {
			p.t.Logf("output:\n%s", p.Text())
		}
	})
}

// Write takes output.
func (p *Program) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(data)
}

func (p *Program) Text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// Await waits until the output holds a text.
func (p *Program) Await(text string) {
	p.t.Helper()
	p.AwaitWithin(Patience, text)
}

// AwaitWithin is await with another limit.
func (p *Program) AwaitWithin(limit time.Duration, text string) {
	p.t.Helper()
	poll.Within(p.t, limit, "the output holds "+text, func(context.Context) error {
		select {
		case <-p.done:
			if !strings.Contains(p.Text(), text) {
				p.t.Fatalf("it ended without having written %q", text)
			}
		default:
		}
		if !strings.Contains(p.Text(), text) {
			return errors.New("not yet")
		}
		return nil
	})
}

// Exit waits for the end and returns the exit code.
func (p *Program) Exit() int {
	p.t.Helper()
	return p.ExitWithin(Patience)
}

// ExitWithin is exit with another limit.
func (p *Program) ExitWithin(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		p.t.Fatalf("it has not ended after %s", limit)
	}
	return p.Command.ProcessState.ExitCode()
}

func (p *Program) Signal(signal syscall.Signal) {
	p.t.Helper()
	if err := p.Command.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}

// LeavesNoProcess waits until no process has the directory of the run in its command line or as its working directory.
func (p *Program) LeavesNoProcess() {
	p.t.Helper()
	poll.Within(p.t, Patience, "no process is left", func(context.Context) error {
		entries, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			return err
		}
		for _, entry := range entries {
			command, _ := os.ReadFile(filepath.Join(entry, "cmdline"))
			directory, _ := os.Readlink(filepath.Join(entry, "cwd"))
			if strings.Contains(string(command), p.Temp) || strings.HasPrefix(directory, p.Temp) {
				return fmt.Errorf("process %s is left: %s", filepath.Base(entry), bytes.ReplaceAll(command, []byte{0}, []byte(" ")))
			}
		}
		return nil
	})
}

// LeavesNoFile checks that the directory of the run is empty.
func (p *Program) LeavesNoFile() {
	p.t.Helper()
	entries, err := os.ReadDir(p.Temp)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, entry := range entries {
		p.t.Errorf("%s is left", entry.Name())
	}
}

// Call runs a command in this process and returns its exit code and what it wrote.
func Call(t *testing.T, root *cobra.Command, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(io.Discard)
	code = cli.Execute(t.Context(), root, &errs)
	return code, out.String(), errs.String()
}
