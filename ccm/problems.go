package ccm

import (
	"errors"
	"strings"
)

// problems is an error made of several that an operator has to put right together: one line, or one line each.
type problems struct {
	heading string
	errs    []error
}

// joined returns the errors under one heading, or nil if there are no errors. An error that joins others counts as those, and so does
// one that this function returned: its heading is replaced.
func joined(heading string, errs ...error) error {
	var flat []error
	for _, err := range errs {
		flat = append(flat, flatten(err)...)
	}
	if len(flat) == 0 {
		return nil
	}
	return &problems{heading: heading, errs: flat}
}

// Error is "heading: problem" for one problem, and the heading with an indented line for each of several.
func (p *problems) Error() string {
	if len(p.errs) == 1 {
		return p.heading + ": " + p.errs[0].Error()
	}
	var text strings.Builder
	text.WriteString(p.heading + ":")
	for _, err := range p.errs {
		text.WriteString("\n  " + strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	return text.String()
}

// Unwrap returns the problems.
func (p *problems) Unwrap() []error { return p.errs }

// flatten takes joined errors apart. An error that says more than its parts do is kept whole.
func flatten(err error) []error {
	var parts []error
	switch several := err.(type) {
	case nil:
		return nil
	case *problems:
		parts = several.errs
	case interface{ Errors() []error }: // utilerrors.Aggregate
		parts = several.Errors()
	case interface{ Unwrap() []error }: // errors.Join, or fmt.Errorf with several %w
		parts = several.Unwrap()
		if errors.Join(parts...).Error() != err.Error() {
			return []error{err}
		}
	default:
		return []error{err}
	}
	var flat []error
	for _, part := range parts {
		flat = append(flat, flatten(part)...)
	}
	return flat
}
