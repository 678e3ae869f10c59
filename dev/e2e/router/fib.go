package router

import (
	"bufio"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/netlab"
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

// Monitor notes what changes in a kernel's routes, and when.
type Monitor struct {
	mu    sync.Mutex
	lines []string
	at    []time.Time // of each line
}

// Monitor notes, from now until the test ends, what changes in the kernel's routes.
func (r *Router) Monitor(t *testing.T) *Monitor {
	t.Helper()
	args := append(r.Host.Args(), "stdbuf", "-oL", "ip", "-ts", "monitor", "route")
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
			m.add(lines.Text())
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
	})
	return m
}

// add notes a line of ip. The lines that follow the first of an event, one for each next hop, have no time of their own.
func (m *Monitor) add(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := time.Now()
	if len(m.at) > 0 {
		at = m.at[len(m.at)-1]
	}
	if stamp, text, found := strings.Cut(strings.TrimPrefix(line, "["), "] "); found {
		if read, err := time.ParseInLocation("2006-01-02T15:04:05.999999", stamp, time.Local); err == nil {
			at, line = read, text
		}
	}
	m.lines, m.at = append(m.lines, line), append(m.at, at)
}

// Changes returns when something changed that contains one of the texts, not before begin.
func (m *Monitor) Changes(begin time.Time, texts ...string) []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []time.Time
	for i, line := range m.lines {
		if !m.at[i].Before(begin) && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) }) {
			found = append(found, m.at[i])
		}
	}
	return found
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
