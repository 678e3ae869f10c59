// Package flagannotation names the annotations that the manager puts on its flags. The generator of the flag reference reads them.
package flagannotation

const (
	// Section is the heading under which --help shows the flag.
	Section = "mooring.dev/section"
	// Added says why there is a flag that the reference cloud controller manager does not have.
	Added = "mooring.dev/added"
	// ReferenceDefault is the default that the flag has in the reference, where ours differs.
	ReferenceDefault = "mooring.dev/reference-default"
	// Reason says why our default differs.
	Reason = "mooring.dev/reason"
	// Note says how the flag behaves differently from the reference.
	Note = "mooring.dev/note"
)
