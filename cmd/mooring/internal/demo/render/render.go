// Package render shows a story: as lines on a pipe, as a picture that moves on a terminal. It shows what the model says and
// decides nothing.
package render

import (
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/demo/story"
)

// Renderer shows a story while it happens. Its methods are called by one goroutine at a time.
type Renderer interface {
	// Show shows an event, and the model after it.
	Show(story.Event, story.Model)
	// Close ends the picture and leaves its last state.
	Close()
}
