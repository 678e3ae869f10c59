package ccm

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/mooring-ccm/mooring/dev/poll"
)

// What a burst of work left is given back once the process is quiet, also where Go would not collect it for long.
func TestGarbageOfABurstIsGivenBack(t *testing.T) {
	before := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	go freeMemory(t.Context())
	quiet := readHeap()
	for range 4 {
		runtime.KeepAlive(make([]byte, 2*leastGarbage))
	}
	if burst := readHeap(); burst.inUse < quiet.inUse+4*leastGarbage {
		t.Fatalf("%d bytes are in use after a burst, and %d before", burst.inUse, quiet.inUse)
	}
	poll.Until(t, "the memory is given back", func(context.Context) error {
		now := readHeap()
		return poll.Holds(now.inUse+now.free < quiet.inUse+quiet.free+leastGarbage)
	})
}

func TestBurstOver(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		earlier, now heap
		want         bool
	}{
		"nothing":                  {heap{}, heap{}, false},
		"garbage":                  {heap{allocated: 900 * mib}, heap{allocated: 900 * mib, live: 100 * mib, inUse: 140 * mib}, true},
		"memory that is not used":  {heap{allocated: 900 * mib}, heap{allocated: 900 * mib, live: 100 * mib, inUse: 100 * mib, free: 40 * mib}, true},
		"before any collection":    {heap{}, heap{allocated: 300 << 10, free: 40 * mib}, true},
		"in the middle of a burst": {heap{allocated: 800 * mib}, heap{allocated: 900 * mib, live: 100 * mib, inUse: 190 * mib}, false},
		"a small process":          {heap{allocated: 900 * mib}, heap{allocated: 900 * mib, live: 5 * mib, inUse: 25 * mib}, false},
		"little of a large heap":   {heap{allocated: 900 * mib}, heap{allocated: 900 * mib, live: 400 * mib, inUse: 450 * mib}, false},
		"more live than in use":    {heap{allocated: 900 * mib}, heap{allocated: 900 * mib, live: 400 * mib, inUse: 350 * mib}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.now.burstOver(c.earlier); got != c.want {
				t.Errorf("burstOver of %+v after %+v = %v, want %v", c.now, c.earlier, got, c.want)
			}
		})
	}
}
