package cloudsim

import (
	"maps"
	"sync"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// calls counts what the cloud was asked.
type calls struct {
	mu          sync.Mutex
	operations  map[api.Operation]api.CallCount
	inFlight    int
	maxInFlight int
}

func newCalls() *calls { return &calls{operations: map[api.Operation]api.CallCount{}} }

// begin counts a call as received. The returned function ends it.
func (c *calls) begin(op api.Operation) (end func()) {
	c.count(op, func(n *api.CallCount) { n.Received++ })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight++
	c.maxInFlight = max(c.maxInFlight, c.inFlight)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.inFlight--
	}
}

func (c *calls) count(op api.Operation, add func(*api.CallCount)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.operations[op]
	add(&n)
	c.operations[op] = n
}

func (c *calls) counts() api.Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return api.Counts{Operations: maps.Clone(c.operations), MaxInFlight: c.maxInFlight}
}

func (c *calls) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.operations = map[api.Operation]api.CallCount{}
	c.maxInFlight = c.inFlight
}
