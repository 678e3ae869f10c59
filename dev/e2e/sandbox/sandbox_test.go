package sandbox_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/must"
)

// seen is for the inside what the outside looks like.
const seen = "MOORING_TEST_SEEN"

func TestInside(t *testing.T) {
	const setting = "vm/overcommit_memory"
	if !sandbox.Inside() {
		sandbox.Require(t, "ip")
		defer requireUntouched(t, setting)()
		sandbox.Run(t, sandbox.Options{
			Sysctls: map[string]string{setting: "2"},
			Dirs:    []string{filepath.Join(t.TempDir(), "made")},
			Env:     []string{seen + "=" + t.TempDir()},
		})
		return
	}
	sandbox.Furnish(t)

	t.Run("there is loopback and no other interface with an address", func(t *testing.T) {
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, addr := range addrs {
			if network, ok := addr.(*net.IPNet); !ok || !network.IP.IsLoopback() {
				t.Errorf("the sandbox has the address %s", addr)
			}
		}
	})
	t.Run("only its own processes are seen", func(t *testing.T) {
		processes, err := filepath.Glob("/proc/[0-9]*")
		if err != nil || len(processes) != 1 || os.Getpid() != 1 {
			t.Errorf("processes %v (%v), this one is %d", processes, err, os.Getpid())
		}
	})
	t.Run("a setting can be read and written", func(t *testing.T) {
		path := filepath.Join("/proc/sys", setting)
		if value, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(value)) != "2" {
			t.Errorf("the setting is %q, %v", value, err)
		}
		if err := os.WriteFile(path, []byte("1"), 0); err != nil {
			t.Error(err)
		}
	})
	// A process that outlives the test must not outlive the sandbox.
	leave := exec.Command("sh", "-c", "exec sleep 600 # left behind by TestInside "+os.Getenv(seen))
	leave.Dir = os.Getenv(seen)
	if err := leave.Start(); err != nil {
		t.Error(err)
	}
}

// requireUntouched compares a setting of this machine with what it was, and looks for processes of the sandbox.
func requireUntouched(t *testing.T, setting string) func() {
	t.Helper()
	path := filepath.Join("/proc/sys", setting)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
			t.Errorf("%s was %s and is %s, %v", setting, before, after, err)
		}
		links, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, link := range links {
			if cwd, err := os.Readlink(link); err == nil && strings.Contains(cwd, t.Name()) {
				t.Errorf("a process of the sandbox is still there: %s in %s", filepath.Dir(link), cwd)
			}
		}
	}
}

// recorder is a test that says how it ended instead of ending.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (r *recorder) Helper()                           {}
func (r *recorder) Skip(args ...any)                  { r.skipped = fmt.Sprint(args...) }
func (r *recorder) Fatalf(format string, args ...any) { r.failed = fmt.Sprintf(format, args...) }

func TestRequire(t *testing.T) {
	const program = "no-such-program"
	for require, want := range map[string]string{"": "skipped", "1": "failed"} {
		t.Setenv("MOORING_REQUIRE_ALL", require)
		var ended recorder
		sandbox.Require(&ended, program)
		got := map[string]string{"skipped": ended.skipped, "failed": ended.failed}
		for how, line := range got {
			if names := strings.Contains(line, program); names != (how == want) {
				t.Errorf("with MOORING_REQUIRE_ALL=%q: %s says %q", require, how, line)
			}
		}
	}
}

// TestAlone has two sandboxes with one control group. Each stays for a second, in which the other must not come.
func TestAlone(t *testing.T) {
	if !sandbox.Inside() {
		sandbox.Require(t, "ip")
		options := sandbox.Options{Env: []string{seen + "=" + t.TempDir()}, Alone: []string{"mooring-test-alone"}}
		for _, name := range []string{"first", "second"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				sandbox.Run(t, options)
			})
		}
		return
	}
	t.Run(map[bool]string{true: "first", false: "second"}[strings.Contains(strings.Join(os.Args, " "), "first")], func(t *testing.T) {
		sandbox.Furnish(t)
		here := filepath.Join(os.Getenv(seen), "here")
		must.NoError(t, os.Mkdir(here, 0o755))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		<-ctx.Done()
		must.NoError(t, os.Remove(here))
	})
}
