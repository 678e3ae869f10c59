package demo

import (
	"sync"
	"time"

	"github.com/mooring-ccm/mooring/dev/demo/render"
	"github.com/mooring-ccm/mooring/dev/demo/scenario"
)

// tickInterval keeps the elapsed time on a terminal moving.
const tickInterval = 100 * time.Millisecond

// reporter takes events from everybody, one at a time, adds them up and has the result shown.
type reporter struct {
	mu       sync.Mutex
	model    scenario.Model
	renderer render.Renderer
	closed   bool
}

// report adds an event to the scenario.
func (r *reporter) report(event scenario.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.model = r.model.Apply(event)
	r.renderer.Show(event, r.model)
}

// tick reports that time passes until stop is called.
func (r *reporter) tick() (stop func()) {
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(tickInterval)
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				r.report(scenario.Tick{At: now})
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-stopped
	}
}

// close ends the scenario and returns its model. Later events are ignored.
func (r *reporter) close() scenario.Model {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		r.renderer.Close()
	}
	return r.model
}
