// Package render shows a demo: as lines on a pipe, as a picture that moves on a terminal. It shows what the model says and
// decides nothing.
package render

import (
	"github.com/mooring-ccm/mooring/dev/demo/scenario"
)

// Renderer shows a demo while it happens. Its methods are called by one goroutine at a time.
type Renderer interface {
	// Show shows an event, and the model after it.
	Show(scenario.Event, scenario.Model)
	// Close ends the picture and leaves its last state.
	Close()
}
