package cloudsim

import (
	"slices"
	"sync"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// faults are the faults that are still to come, oldest first.
type faults struct {
	mu      sync.Mutex
	pending []api.Fault
	// cleared is closed by clear; calls that hang wait for it.
	cleared chan struct{}
}

func newFaults() *faults { return &faults{cleared: make(chan struct{})} }

func (f *faults) add(fault api.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = append(f.pending, fault)
}

func (f *faults) list() []api.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.pending)
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = nil
	close(f.cleared)
	f.cleared = make(chan struct{})
}

// take returns the fault that hits this call of an operation, or nil, and what ends a hang.
func (f *faults) take(op api.Operation) (*api.Fault, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.pending {
		fault := &f.pending[i]
		if fault.Operation != op && fault.Operation != api.AnyOperation {
			continue
		}
		if fault.Skip > 0 {
			fault.Skip--
			return nil, f.cleared
		}
		hit := *fault
		if fault.Count--; fault.Count == 0 {
			f.pending = slices.Delete(f.pending, i, i+1)
		}
		return &hit, f.cleared
	}
	return nil, f.cleared
}
