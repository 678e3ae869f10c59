package demo

import (
	"sync"
	"time"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/demo/render"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/demo/story"
)

// tickInterval keeps the elapsed time on a terminal moving.
const tickInterval = 100 * time.Millisecond

// teller takes events from everybody, one at a time, adds them up and has the result shown.
type teller struct {
	mu       sync.Mutex
	model    story.Model
	renderer render.Renderer
	closed   bool
}

// tell adds an event to the story.
func (t *teller) tell(event story.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.model = t.model.Apply(event)
	t.renderer.Show(event, t.model)
}

// tick tells that time passes until stop is called.
func (t *teller) tick() (stop func()) {
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(tickInterval)
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				t.tell(story.Tick{At: now})
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

// close ends the story and returns all of it. Later events are not told any more.
func (t *teller) close() story.Model {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		t.renderer.Close()
	}
	return t.model
}
