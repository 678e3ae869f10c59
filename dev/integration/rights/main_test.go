// Package rights_test holds the shipped RBAC to what the manager really asks for: every grant is needed by a request of the
// scenario, and none is missing. Who asks for what, and what lets it pass, is read from the API server's audit log. It also looks for
// secrets in everything that a run leaves behind, and asks for everything that is served as somebody who may not have it.
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
