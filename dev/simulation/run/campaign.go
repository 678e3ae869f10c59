package run

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/simulation/draw"
)

// printed is how many findings of a kind are printed.
const printed = 3

// Campaign runs draws on all cores.
type Campaign struct {
	// First is the first seed, and Draws how many there are.
	First, Draws uint64
	// Repeat runs each draw twice and counts the draws with another outcome.
	Repeat bool
	// Out gets the findings, and Progress a line that is written again and again.
	Out, Progress io.Writer

	mu    sync.Mutex
	began time.Time
	next  uint64
	done  uint64
	known uint64
	// otherRules and otherKinds are seeds that broke other rules, or the same rules in other kinds, when they were run again.
	otherRules, otherKinds []uint64
	// kinds are the kinds found, listed the sentences about known ones that were printed, unknown counts the kinds that are not listed.
	kinds, listed map[string]bool
	unknown       int
	failure       error
}

// Run runs the draws. Each kind of failure is printed once, with the first seed that shows it. It reports how many kinds are not known.
func (c *Campaign) Run(t *testing.T) (unknown int, err error) {
	c.began, c.next, c.kinds, c.listed = time.Now(), c.First, map[string]bool{}, map[string]bool{}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed, ok := c.take(); ok; seed, ok = c.take() {
				c.one(t, seed)
			}
		})
	}
	workers.Wait()
	_, _ = fmt.Fprintln(c.Progress) // ends the line of progress
	c.report()
	return c.unknown, c.failure
}

// take returns the next seed.
func (c *Campaign) take() (uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next >= c.First+c.Draws || c.failure != nil {
		return 0, false
	}
	c.next++
	return c.next - 1, true
}

// one runs one draw and keeps what is new.
func (c *Campaign) one(t *testing.T, seed uint64) {
	outcome, err := Draw(t, draw.New(seed))
	var again Outcome
	if err == nil && c.Repeat {
		again, err = Draw(t, draw.New(seed))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	if err != nil {
		c.failure = errors.Join(c.failure, err)
		return
	}
	if c.Repeat && !slices.Equal(outcome.Rules(), again.Rules()) {
		c.otherRules = append(c.otherRules, seed)
	} else if c.Repeat && !slices.Equal(outcome.Kinds(), again.Kinds()) {
		c.otherKinds = append(c.otherKinds, seed)
	}
	kinds := outcome.Kinds()
	if len(kinds) > 0 && !slices.ContainsFunc(kinds, func(kind string) bool { return Known(kind) == "" }) {
		c.known++
	}
	for _, kind := range kinds {
		if !c.kinds[kind] {
			c.kinds[kind] = true
			c.print(kind, outcome)
		}
	}
	spent := time.Since(c.began).Seconds()
	_, _ = fmt.Fprintf(c.Progress, "\r%d of %d draws, %.2f s each, next seed %d, %d kinds, %d draws with known kinds only ",
		c.done, c.Draws, spent/float64(c.done), c.next, len(c.kinds), c.known)
}

// print prints a kind with the seed that shows it and its first findings. Of a listed kind, it prints the first only. The lock is held.
func (c *Campaign) print(kind string, outcome Outcome) {
	state, about := "new", Known(kind)
	switch {
	case about == "":
		c.unknown++
	case c.listed[about]:
		return
	default:
		state, c.listed[about] = "known", true
	}
	_, _ = fmt.Fprintf(c.Out, "\n%s kind: %s, seed %d%s\n", state, kind, outcome.Draw.Seed, about)
	shown := 0
	for _, finding := range outcome.Findings {
		if finding.Kind() == kind && shown < printed {
			shown++
			_, _ = fmt.Fprintf(c.Out, "  %s\n", finding)
		}
	}
}

// report prints the sums.
func (c *Campaign) report() {
	_, _ = fmt.Fprintf(c.Out, "%d draws from seed %d: %d kinds, %d of them new\n", c.done, c.First, len(c.kinds), c.unknown)
	if c.Repeat {
		_, _ = fmt.Fprintf(c.Out, "run again, %d draws broke other rules: %v\n", len(c.otherRules), c.otherRules)
		_, _ = fmt.Fprintf(c.Out, "run again, %d draws broke the same rules in other kinds: %v\n", len(c.otherKinds), c.otherKinds)
	}
	if c.failure != nil {
		_, _ = fmt.Fprintf(c.Out, "stopped: go on with seed %d\n", c.next)
	}
}

// Trace prints the draw, the findings, and what both managers did to each object, side by side.
func (v Outcome) Trace(out io.Writer) {
	_, _ = fmt.Fprintf(out, "%s\n", v.Draw)
	for _, finding := range v.Findings {
		_, _ = fmt.Fprintf(out, "%s\n", finding)
	}
	for _, line := range v.Account.Lines() {
		_, _ = fmt.Fprintf(out, "%s\n", line)
	}
	left, right := lines(v.Reference), lines(v.Mooring)
	var objects []string
	for _, of := range []map[string][]string{left, right} {
		for object := range of {
			objects = append(objects, object)
		}
	}
	slices.Sort(objects)
	for _, object := range slices.Compact(objects) {
		_, _ = fmt.Fprintf(out, "\n%-66s  %s\n", "reference: "+object, "mooring: "+object)
		for i := range max(len(left[object]), len(right[object])) {
			_, _ = fmt.Fprintf(out, "%-66s  %s\n", at(left[object], i), at(right[object], i))
		}
	}
}

// at returns a line, or nothing behind the last one.
func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
