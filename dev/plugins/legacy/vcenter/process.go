package vcenter

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/program"
)

// startDeadline is how long the simulator may take until it listens.
const startDeadline = poll.Deadline

// announced is what the simulator writes when it listens.
var announced = regexp.MustCompile(`export GOVC_URL=(\S+)`)

// startSimulator runs the simulator until the test ends and returns its endpoint, with the login.
func startSimulator(t testing.TB, path string) (*url.URL, error) {
	dir := t.TempDir()
	variables := filepath.Join(dir, "variables")
	if err := os.WriteFile(variables, nil, 0o600); err != nil {
		return nil, err
	}
	simulator, err := program.Start(program.Options{
		Name: "vcsim", Path: path, Dir: dir, Args: []string{"-l", "127.0.0.1:0", "-E", variables, "-vm", "2", "-cluster", "2", "-host", "1",
			"-standalone-host", "0", "-username", User, "-password", Password},
	})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := simulator.Kill(); err != nil {
			t.Error(err)
		}
	})
	return awaitEndpoint(t.Context(), variables, simulator)
}

// awaitEndpoint returns what the simulator has written to the file of its variables.
func awaitEndpoint(ctx context.Context, variables string, simulator *program.Program) (endpoint *url.URL, err error) {
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	err = program.Await(ctx, "vcsim listens", []*program.Program{simulator}, func(context.Context) error {
		content, err := os.ReadFile(variables)
		if err != nil {
			return err
		}
		found := announced.FindSubmatch(content)
		if found == nil {
			return fmt.Errorf("it has written %q, and no endpoint to %s", simulator.Tail(), variables)
		}
		endpoint, err = url.Parse(string(found[1]))
		return err
	})
	return endpoint, err
}
