package router

import (
	"bufio"
	"context"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/netlab"
	"github.com/mooring-ccm/mooring/dev/poll"
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
	host *sandbox.Host

	mu    sync.Mutex
	lines []string
	at    []time.Time // of each line
	heard int64       // the metric of the last route to the sentinel
}

// Monitor notes, from now until the test ends, what changes in the kernel's routes. It returns when ip listens.
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
	m := &Monitor{host: r.Host}
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
	m.catchUp(t)
	return m
}

// sentinel is a destination that no test announces. Each route to it has another metric, which sentinels counts.
const sentinel = "203.0.113.255"

var (
	sentinels    atomic.Int64
	sentinelLine = regexp.MustCompile(`blackhole ` + regexp.QuoteMeta(sentinel) + ` .*metric (\d+)`)
)

// catchUp waits until ip has reported all changes so far. It adds a route after them, and ip reports in order.
func (m *Monitor) catchUp(t *testing.T) {
	t.Helper()
	first := sentinels.Load() + 1
	poll.Until(t, "ip reports what changes in the routes of "+m.host.Name, func(context.Context) error {
		metric := strconv.FormatInt(sentinels.Add(1), 10)
		for _, change := range []string{"add", "del"} {
			sandbox.Command(t, append(m.host.Args(), "ip", "route", change, "blackhole", sentinel+"/32", "metric", metric)...)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		return poll.Holds(m.heard >= first)
	})
}

// add notes a line of ip. The lines that follow the first of an event, one for each next hop, have no time of their own.
func (m *Monitor) add(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := sentinelLine.FindStringSubmatch(line); found != nil {
		m.heard, _ = strconv.ParseInt(found[1], 10, 64)
		return
	}
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
func (m *Monitor) Changes(t *testing.T, begin time.Time, texts ...string) []time.Time {
	t.Helper()
	m.catchUp(t)
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
func (m *Monitor) Events(t *testing.T, texts ...string) []string {
	t.Helper()
	m.catchUp(t)
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
