package router

import (
	"bufio"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mooring-ccm/mooring/localcluster/netlab"
	"github.com/mooring-ccm/mooring/test/e2e/sandbox"
)

// FIB is what a router has put into its kernel: the next hops of each destination, sorted.
type FIB = netlab.Table

// FIB returns the routes in the kernel that the router learned.
func (r *Router) FIB(t *testing.T) FIB {
	t.Helper()
	fib := FIB{}
	for _, family := range []string{"-4", "-6"} {
		output := sandbox.Command(t, append(r.Host.Args(), "ip", "-j", family, "route", "show")...)
		if err := fib.Read([]byte(output)); err != nil {
			t.Fatalf("router %s: read its routes: %v", r.Host.Name, err)
		}
	}
	return fib
}

// Monitor notes what changes in a kernel's routes.
type Monitor struct {
	mu    sync.Mutex
	lines []string
}

// Monitor notes, from now until the test ends, what changes in the kernel's routes.
func (r *Router) Monitor(t *testing.T) *Monitor {
	t.Helper()
	args := append(r.Host.Args(), "stdbuf", "-oL", "ip", "monitor", "route")
	cmd := exec.Command(args[0], args[1:]...)
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m := &Monitor{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			m.mu.Lock()
			m.lines = append(m.lines, lines.Text())
			m.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
	})
	return m
}

// Events returns what has changed so far that contains one of the texts, or everything without texts.
func (m *Monitor) Events(texts ...string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(texts) == 0 {
		return slices.Clone(m.lines)
	}
	var found []string
	for _, line := range m.lines {
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) }) {
			found = append(found, line)
		}
	}
	return found
}

// Route returns what the kernel says of one destination.
func (r *Router) Route(t *testing.T, prefix netip.Prefix) string {
	t.Helper()
	family := "-6"
	if prefix.Addr().Is4() {
		family = "-4"
	}
	return sandbox.Command(t, append(r.Host.Args(), "ip", family, "route", "show", prefix.String())...)
}
