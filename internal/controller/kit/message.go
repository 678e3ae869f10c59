package kit

import "github.com/mooring-ccm/mooring/internal/message"

// MaxMessage is how long the message of an event or a condition may be, in bytes: the events API takes 1 kB for a note.
const MaxMessage = 1000

// EventMessage makes the message of an event of a text.
func EventMessage(text string) string { return Shorten(text, MaxMessage) }

// Shorten makes one printable line of a text, of at most so many bytes. The end of what is too long is left out.
func Shorten(text string, most int) string { return message.Line(text, most) }
