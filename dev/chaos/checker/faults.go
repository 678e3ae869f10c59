package checker

import (
	"slices"
	"time"

	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
)

// Recovery is how long the system took to repair everything that was wrong at the end of a fault.
type Recovery struct {
	Verb string
	Took time.Duration
}

// faults are the active faults, and the ended faults after which something is still wrong.
type faults struct {
	next int
	// active are the faults under way by number; object is empty for one that may hold everything up.
	active map[int]fault
	// calmSince is when the last fault ended that may affect every object. begun says that all was as it should be once. A system that still starts
	// need not serve.
	calmSince time.Duration
	begun     bool
	over      []fault
	recovered []Recovery
	// excused are objects that have been reported.
	excused map[string]bool
}

type fault struct {
	verb, object string
	ended        time.Duration
}

func newFaults() faults { return faults{active: map[int]fault{}, excused: map[string]bool{}} }

// FaultBegins says that a fault goes on until the returned function is called. Object is what it is about, as a difference names it;
// empty for everything.
func (c *Checker) FaultBegins(o schedule.Operation, object string) (ends func(at time.Duration)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	number := c.faults.next
	c.faults.next++
	c.faults.active[number] = fault{verb: o.Verb, object: object}
	return func(at time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		ended := c.faults.active[number]
		delete(c.faults.active, number)
		ended.ended = at
		if ended.object == "" {
			c.faults.calmSince = at
		}
		c.faults.over = append(c.faults.over, ended)
	}
}

// Converged says that all is as it should be. Before the first such moment, the checker does not expect the system to serve.
func (c *Checker) Converged(at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults.begun, c.faults.calmSince = true, max(c.faults.calmSince, at)
}

// calm says since when no fault disturbs an object; not at all if one does.
func (f *faults) calm(object string) (since time.Duration, calm bool) {
	if f.excused[object] || !f.begun {
		return 0, false
	}
	for _, one := range f.active {
		if one.object == "" || one.object == object {
			return 0, false
		}
	}
	since = f.calmSince
	for _, one := range f.over {
		if one.object == object {
			since = max(since, one.ended)
		}
	}
	return since, true
}

// only has an object reported no more.
func (f *faults) only(object string) { f.excused[object] = true }

// recover notes which faults have left nothing: whatever is wrong now has begun later.
func (f *faults) recover(at time.Duration, wrongSince []time.Duration) {
	f.over = slices.DeleteFunc(f.over, func(one fault) bool {
		if slices.ContainsFunc(wrongSince, func(since time.Duration) bool { return since <= one.ended }) {
			return false
		}
		f.recovered = append(f.recovered, Recovery{one.verb, at - one.ended})
		return true
	})
}

// Recoveries returns how long it took after each fault that is over.
func (c *Checker) Recoveries() []Recovery {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.faults.recovered)
}
