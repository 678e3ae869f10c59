package localcluster_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// parentDir makes the test binary a program that starts a control plane in that directory and waits to be killed.
const parentDir = "MOORING_TEST_PARENT_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentDir); dir != "" {
		if err := beParent(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// beParent starts a control plane, says so, and does nothing until it is killed.
func beParent(dir string) error {
	ctx := context.Background()
	binaries, err := localcluster.Build(ctx, localcluster.BuildOptions{Progress: os.Stderr})
	if err != nil {
		return err
	}
	if _, err := localcluster.Start(ctx, localcluster.Options{Binaries: binaries, Dir: dir, ControllerManager: true}); err != nil {
		return err
	}
	fmt.Println("started")
	select {}
}

// programsIn returns the programs that run in a directory, which is the working directory of all parts of a control plane.
func programsIn(t *testing.T, dir string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	for _, link := range links {
		// A process may end while it is looked at.
		if cwd, err := os.Readlink(link); err != nil || cwd != dir {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		program, _, _ := strings.Cut(string(cmdline), "\x00")
		programs = append(programs, filepath.Base(program))
	}
	return programs
}

func requireNothingRuns(t *testing.T, dir string) {
	t.Helper()
	poll.Until(t, "nothing runs in "+dir, func(context.Context) error {
		if left := programsIn(t, dir); len(left) > 0 {
			return fmt.Errorf("still there: %v", left)
		}
		return nil
	})
}
