package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mooring-ccm/mooring/internal/message"
)

// Severity says what a note asks of a person.
type Severity string

// The severities, the gravest first.
const (
	// Lost is something that the config does not say because it has no counterpart.
	Lost Severity = "lost"
	// Action is something that a person has to do besides.
	Action Severity = "action"
	// Info is something that is there and means something a little different.
	Info Severity = "note"
)

// Note is one thing that the config does not say by itself.
type Note struct {
	Severity Severity
	// Resource is the kind, the namespace and the name of the object, and Field the path in it; empty is the whole object.
	Resource, Field string
	Message         string
}

// String is the note in one line.
func (n Note) String() string {
	at := n.Resource
	if n.Field != "" {
		at += ": " + n.Field
	}
	return fmt.Sprintf("%-4s %s: %s", strings.ToUpper(string(n.Severity)), at, n.Message)
}

// A note has lines that a terminal can show, of at most so many bytes: names and fields may be anything.
const maxName, maxMessage = 500, 4000

// notes are what was noted, each once.
type notes struct {
	list  []Note
	known map[Note]bool
}

func (n *notes) add(severity Severity, resource, field, format string, values ...any) {
	one := Note{
		Severity: severity, Resource: message.Printable(resource, maxName), Field: message.Printable(field, maxName),
		Message: message.Printable(fmt.Sprintf(format, values...), maxMessage),
	}
	if n.known[one] {
		return
	}
	if n.known == nil {
		n.known = map[Note]bool{}
	}
	n.known[one] = true
	n.list = append(n.list, one)
}

// of returns a function that adds notes about one object.
func (n *notes) of(resource string) note {
	return func(severity Severity, field, format string, values ...any) {
		n.add(severity, resource, field, format, values...)
	}
}

// sorted returns the notes, the gravest first, and within one severity in the order in which they were found.
func (n *notes) sorted() []Note {
	order := []Severity{Lost, Action, Info}
	slices.SortStableFunc(n.list, func(a, b Note) int { return slices.Index(order, a.Severity) - slices.Index(order, b.Severity) })
	return n.list
}
