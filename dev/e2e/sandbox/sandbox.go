// Package sandbox runs a test in Linux namespaces of its own, so programs which expect a machine to themselves can run
// without touching this one: their network is a segment inside the sandbox, their processes and mounts end with it, and
// the kernel settings that they see are files.
//
//	func TestSomething(t *testing.T) {
//		if !sandbox.Inside() {
//			sandbox.Require(t, "ip")
//			sandbox.Run(t, sandbox.Options{})
//			return
//		}
//		sandbox.Furnish(t)
//		// Here is loopback and nothing else.
//	}
//
// It needs root. What the kernel keeps beyond the namespaces, control groups and system-wide settings, is compared before
// and after, restored, and a difference fails the test.
package sandbox

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/filelock"
	"github.com/mooring-ccm/mooring/dev/program"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

const (
	// insideVariable is set in the environment of a sandbox; it holds its furniture.
	insideVariable = "MOORING_TEST_SANDBOX"
	// requireVariable, set to 1, makes a test fail that otherwise would be skipped.
	requireVariable = "MOORING_REQUIRE_ALL"
	// prefix starts the name of each sandbox's directory, so one that a killed test left behind can be recognized.
	prefix = "mooring-sandbox-"
)

// Options say what a sandbox gets.
type Options struct {
	// Env are further environment variables for the inside, as "NAME=value".
	Env []string
	// Sysctls are the system-wide settings that programs inside may read and write, as paths below /proc/sys with the
	// value that they find. They see files; the settings of this machine stay.
	Sysctls map[string]string
	// Dirs are directories that programs write to whatever their options say. Inside they are empty, and what is written there
	// is gone with the sandbox. One that does not exist is made for the time of the test.
	Dirs []string
	// Cgroups are the names of control groups that programs may leave behind, anywhere in the hierarchy. A test that leaves
	// one fails, and it is removed.
	Cgroups []string
	// Alone are names of further control groups that one sandbox of this machine has at a time. Others wait for it.
	Alone []string
	// Timeout bounds the inside. Zero means two minutes.
	Timeout time.Duration
}

// Inside reports whether this process runs in a sandbox.
func Inside() bool { return os.Getenv(insideVariable) != "" }

// Require skips the test, with a line that says what is missing, when this machine cannot run a sandbox with programs. With
// MOORING_REQUIRE_ALL=1 the test fails instead. Under -short it is skipped whatever this machine has.
func Require(t testing.TB, programs ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a machine to itself, which -short leaves out")
	}
	Without(t, Missing(programs...))
}

// Without skips the test, or fails it, as Require does, with a line that says what is missing; empty if nothing is.
func Without(t testing.TB, missing string) {
	t.Helper()
	switch {
	case missing == "":
	case os.Getenv(requireVariable) == "1":
		t.Fatalf("%s, and %s=1 forbids to skip", missing, requireVariable)
	default:
		t.Skip(missing)
	}
}

// Run runs the calling test again, in a sandbox, and gives it the same outcome.
func Run(t *testing.T, options Options) {
	t.Helper()
	if options.Timeout == 0 {
		options.Timeout = 2 * time.Minute
	}
	for _, name := range options.Alone {
		unlock, err := filelock.Take(t.Context(), filepath.Join(os.TempDir(), prefix+"alone-"+name), progress.New(os.Stderr), "another sandbox with the control group "+name)
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
	}
	before, err := observe(options)
	if err != nil {
		t.Fatalf("observe the machine before the sandbox: %v", err)
	}
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		t.Fatal(err)
	}
	if err := reenter(t, options, furniture{Dir: dir, Sysctls: options.Sysctls, Dirs: options.Dirs}); err != nil {
		t.Errorf("inside the sandbox: %v", err)
	}
	for _, change := range before.restore() {
		t.Errorf("the sandbox changed this machine: %s", change)
	}
	if t.Failed() {
		t.Logf("what the programs wrote is kept in %s", dir)
	} else if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// Missing says in one line what this machine lacks to run a sandbox with programs, or nothing.
func Missing(programs ...string) string {
	var lacks []string
	if os.Getuid() != 0 {
		lacks = append(lacks, "root")
	}
	hint := ""
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			lacks = append(lacks, "the program "+program)
			hint = " (make deps installs it)"
		}
	}
	if len(lacks) == 0 {
		return ""
	}
	return "missing: " + strings.Join(lacks, ", ") + hint
}

// reenter runs this test binary for one test in new namespaces.
func reenter(t *testing.T, options Options, furniture furniture) error {
	inside, err := json.Marshal(furniture)
	if err != nil {
		return err
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.timeout=" + options.Timeout.String(), "-test.v=" + fmt.Sprint(testing.Verbose())}
	reader, writer := io.Pipe()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		copyLines(t.Output(), reader)
	}()
	_, err = program.RunInNamespaces(t.Context(), args, func(command *exec.Cmd) {
		command.Env = append(append(command.Env, insideVariable+"="+string(inside)), options.Env...)
		command.Stdout, command.Stderr = writer, writer
	})
	writer.Close()
	<-copied
	return err
}

// copyLines marks each line, so the inner test's report is not taken for one of the outer test.
func copyLines(to io.Writer, from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fmt.Fprintf(to, "| %s\n", lines.Text())
	}
	_, _ = io.Copy(io.Discard, from)
}
