// Package router runs real routers in the hosts of a sandbox: FRR and BIRD, with the BGP sessions that a test wants, and shows
// what they put into the kernel.
package router

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/netlab"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// Kind is a routing suite.
type Kind = netlab.Kind

const (
	// FRR is FRRouting: zebra, bgpd and bfdd.
	FRR = netlab.FRR
	// BIRD is the BIRD Internet Routing Daemon 2.
	BIRD = netlab.BIRD
)

// Programs are what a machine needs to run these kinds of router, for sandbox.Require.
func Programs(kinds ...Kind) []string {
	programs := []string{"ip", "nsenter"}
	for _, kind := range kinds {
		programs = append(programs, kind.Programs()...)
		programs = append(programs, map[Kind]string{FRR: "vtysh", BIRD: "birdc"}[kind])
	}
	return programs
}

// Dirs are the directories of this machine that routers write to whatever their configuration says, for the options of a sandbox. FRR makes
// a directory below. What is hidden is one that is there on every machine, so sandboxes which run at the same time do not
// make and remove each other's.
func Dirs() []string { return []string{"/var/tmp"} }

// startTimeout bounds how long a router may take to answer.
const startTimeout = poll.Deadline

// Config is what a router does besides putting routes into its kernel. Kind, host and folder are what Start says.
type Config = netlab.Router

// Neighbor is one BGP session of a router.
type Neighbor = netlab.Neighbor

// Router is a router that runs until its test ends.
type Router struct {
	// Host is where it runs.
	Host *sandbox.Host
	// Kind is what it is.
	Kind Kind

	dir      string
	config   Config
	programs []*program
	daemons  []netlab.Daemon
}

// Start starts a router on a host, which forwards from then on, and waits until it answers. Its files go below dir.
func Start(t *testing.T, kind Kind, host *sandbox.Host, dir string, config Config) *Router {
	t.Helper()
	r := &Router{Host: host, Kind: kind, dir: filepath.Join(dir, "router-"+host.Name)}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.Configure(t, config)
	t.Cleanup(r.Close)
	r.run(t)
	return r
}

// Configure writes another configuration, which holds from the next Restart on.
func (r *Router) Configure(t *testing.T, config Config) {
	t.Helper()
	config.Kind, config.Host, config.Dir = r.Kind, r.Host, r.dir
	daemons, err := config.Configure()
	if err != nil {
		t.Fatal(err)
	}
	r.config, r.daemons = config, daemons
}

func (r *Router) run(t *testing.T) {
	t.Helper()
	for _, daemon := range r.daemons {
		_ = os.Remove(daemon.Socket) // one that a killed daemon left
		r.programs = append(r.programs, r.start(t, daemon))
		// A daemon that finds no peer listening tries again only after ten seconds.
		r.wait(t, daemon.Name+" listens", func() error {
			_, err := os.Stat(daemon.Socket)
			return err
		})
	}
	r.wait(t, "it answers", func() error {
		_, err := r.query("show version", "show status")
		return err
	})
}

// wait waits until check returns nil, or one of the daemons has ended.
func (r *Router) wait(t *testing.T, what string, check func() error) {
	t.Helper()
	poll.Within(t, startTimeout, "router "+r.Host.Name+": "+what, func(context.Context) error {
		err := check()
		if err == nil {
			return nil
		}
		for _, p := range r.programs {
			if ended := p.runs(); ended != nil {
				t.Fatalf("router %s: %v", r.Host.Name, ended)
			}
		}
		return err
	})
}

// Close ends the router at once. Its routes stay in the kernel, as after a crash.
func (r *Router) Close() {
	for _, p := range r.programs {
		p.kill()
	}
	r.programs = nil
}

// Restart ends the router as a crash does, and starts it again.
func (r *Router) Restart(t *testing.T) {
	t.Helper()
	r.Close()
	r.run(t)
}

// Show returns what the router says to a command of its own command line: vtysh's of FRR, birdc's of BIRD.
func (r *Router) Show(t *testing.T, command string) string {
	t.Helper()
	output, err := r.query(command, command)
	if err != nil {
		t.Fatalf("router %s: %s: %v", r.Host.Name, command, err)
	}
	return output
}

// query asks the command line of the router's kind.
func (r *Router) query(frr, bird string) (string, error) {
	args := r.config.Query(frr, bird)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	if r.Kind == FRR && strings.Contains(stdout.String(), "failed to connect") {
		return "", fmt.Errorf("%s: %s", strings.Join(args, " "), stdout.String())
	}
	return stdout.String(), nil
}

// Log returns what the router logged.
func (r *Router) Log() string {
	files, _ := filepath.Glob(filepath.Join(r.dir, "*.log"))
	var all strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		fmt.Fprintf(&all, "%s: %v\n%s\n", filepath.Base(file), err, content)
	}
	return all.String()
}
