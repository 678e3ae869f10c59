package main

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

	"github.com/mooring-ccm/mooring/internal/cli"
	"github.com/mooring-ccm/mooring/localcluster/poll"
	"github.com/mooring-ccm/mooring/test/harness"
)

// selfEnv makes this test binary be the program that it tests.
const selfEnv = "MOORING_TEST_AS_PROGRAM"

// patience bounds every wait: machines that run tests are busy.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(selfEnv) != "" {
		os.Exit(run())
	}
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// built is the daemon, which is built once for all tests.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// daemon returns the path of cloud-controller-manager as it is shipped.
func daemon(t *testing.T) string {
	t.Helper()
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

// program is a run of mooring.
type program struct {
	t       *testing.T
	command *exec.Cmd
	// temp is where it puts its files.
	temp string
	done chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

// start starts mooring with its output on a pipe.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := prepare(t, args...)
	p.command.Stdout, p.command.Stderr = p, p
	p.launch()
	return p
}

// prepare makes a run that has not begun.
func prepare(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{t: t, temp: t.TempDir(), done: make(chan struct{})}
	p.command = exec.Command(os.Args[0], args...)
	p.command.Env = append(os.Environ(), selfEnv+"=1", "TMPDIR="+p.temp, "GORACE=halt_on_error=1")
	return p
}

func (p *program) launch() {
	p.t.Helper()
	if err := p.command.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.command.Wait()
	}()
	p.t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.done
		if p.t.Failed() {
			p.t.Logf("output:\n%s", p.text())
		}
	})
}

// Write takes output.
func (p *program) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(data)
}

func (p *program) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// await waits until the output holds a text.
func (p *program) await(text string) {
	p.t.Helper()
	p.awaitWithin(patience, text)
}

// awaitWithin is await with another limit.
func (p *program) awaitWithin(limit time.Duration, text string) {
	p.t.Helper()
	poll.Within(p.t, limit, "the output holds "+text, func(context.Context) error {
		select {
		case <-p.done:
			if !strings.Contains(p.text(), text) {
				p.t.Fatalf("it ended without having written %q", text)
			}
		default:
		}
		if !strings.Contains(p.text(), text) {
			return errors.New("not yet")
		}
		return nil
	})
}

// exit waits for the end and returns the exit code.
func (p *program) exit() int {
	p.t.Helper()
	return p.exitWithin(patience)
}

// exitWithin is exit with another limit.
func (p *program) exitWithin(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		p.t.Fatalf("it has not ended after %s", limit)
	}
	return p.command.ProcessState.ExitCode()
}

func (p *program) signal(signal syscall.Signal) {
	p.t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}

// leavesNoProcess waits until no process has the directory of the run in its command line or as its working directory.
func (p *program) leavesNoProcess() {
	p.t.Helper()
	poll.Within(p.t, patience, "no process is left", func(context.Context) error {
		entries, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			return err
		}
		for _, entry := range entries {
			command, _ := os.ReadFile(filepath.Join(entry, "cmdline"))
			directory, _ := os.Readlink(filepath.Join(entry, "cwd"))
			if strings.Contains(string(command), p.temp) || strings.HasPrefix(directory, p.temp) {
				return fmt.Errorf("process %s is left: %s", filepath.Base(entry), bytes.ReplaceAll(command, []byte{0}, []byte(" ")))
			}
		}
		return nil
	})
}

// leavesNoFile checks that the directory of the run is empty.
func (p *program) leavesNoFile() {
	p.t.Helper()
	entries, err := os.ReadDir(p.temp)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, entry := range entries {
		p.t.Errorf("%s is left", entry.Name())
	}
}

// call runs a command in this process and returns its exit code and what it wrote.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := newRoot()
	var out, errs bytes.Buffer
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(io.Discard)
	code = cli.Execute(t.Context(), root, &errs)
	return code, out.String(), errs.String()
}
