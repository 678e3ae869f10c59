package kit

import "github.com/mooring-ccm/mooring/internal/message"

// MaxMessage is how long the message of an event or a condition may be, in bytes: the events API takes 1 kB for a note.
const MaxMessage = 1000

// EventMessage makes the message of an event of a text.
func EventMessage(text string) string { return message.Line(text, MaxMessage) }

// maxErrorText is how many bytes of an error of the API server are logged: it repeats the values that it refuses.
const maxErrorText = 4000

// WriteError returns an error of a write with a text of bounded length, which wraps it if its own is longer.
func WriteError(err error) error { return message.Bound(err, maxErrorText) }
