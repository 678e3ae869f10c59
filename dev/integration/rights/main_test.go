// Package rights_test compares the shipped RBAC with what the manager really requests. A request of the scenario needs every grant, and none is
// missing. The API server's audit log shows who requests what, and what allows it. The package also looks for secrets in everything that a run leaves
// behind. It requests every served path with an identity that has no right to it.
package rights_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	managers "github.com/mooring-ccm/mooring/dev/harness"
)

// program builds the daemon as it is shipped, for the first test that needs it, and returns its path. The file's name is the
// user agent of all its clients. tool does so with the tool for people.
var (
	program = sync.OnceValues(func() (string, error) { return build(programName) })
	tool    = sync.OnceValues(func() (string, error) { return build("mooring") })
)

// build builds a program of cmd.
func build(name string) (string, error) {
	path := filepath.Join(scratch, name)
	return path, managers.Build(context.Background(), name, path, os.Stderr)
}

// scratch is a directory that is removed at the end.
var scratch string

func TestMain(m *testing.M) {
	logf.SetLogger(logr.Discard())
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if scratch, err = os.MkdirTemp("", "mooring-rights-test-"); err != nil {
		return 1, err
	}
	return m.Run(), os.RemoveAll(scratch)
}
