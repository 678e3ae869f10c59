package kit

import "strings"

// MaxMessage is how long the message of an event may be, in bytes: the events API takes 1 kB for a note.
const MaxMessage = 1000

// EventMessage makes the message of an event of a text.
func EventMessage(text string) string { return Shorten(text, MaxMessage) }

// Shorten makes one line of a text, of at most so many bytes. The end of what is too long is left out.
func Shorten(text string, most int) string {
	const more = "..."
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:max(most-len(more), 0)], "") + more
}
