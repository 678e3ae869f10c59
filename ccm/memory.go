package ccm

import (
	"context"
	"runtime/debug"
	"runtime/metrics"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/sleep"
)

// leastGarbage is how much garbage, in bytes, is worth a collection of its own.
const leastGarbage = 32 << 20

// heap is what the runtime says of its heap, in bytes.
type heap struct {
	// allocated grows with each allocation. live was in use at the last collection, inUse includes the garbage since, and free was not given back.
	allocated, live, inUse, free uint64
}

// readHeap reads the heap of this process.
func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	return heap{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()}
}

// burstOver reports whether the process holds much memory that a burst of work left, and hardly allocates since an earlier reading.
func (h heap) burstOver(earlier heap) bool {
	garbage := h.free + h.inUse - min(h.inUse, h.live)
	return garbage >= max(leastGarbage, h.live/4) && h.allocated-earlier.allocated <= max(leastGarbage, h.live)/100
}

// freeMemory gives the system back what a burst of work left, such as a list of all load balancers, until ctx ends. Go by itself collects when the
// heap has grown to twice of what was in use at the last collection, which was in the middle of the burst. A quiet process takes minutes for that.
func freeMemory(ctx context.Context) {
	for earlier := readHeap(); sleep.For(ctx, kit.Moment); {
		now := readHeap()
		if now.burstOver(earlier) {
			debug.FreeOSMemory()
			now = readHeap()
		}
		earlier = now
	}
}
