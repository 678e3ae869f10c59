package check

import (
	"fmt"
	"strings"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
	"github.com/mooring-ccm/mooring/internal/tool/words"
)

// shownObjects is how many names of objects are shown unless all are.
const shownObjects = 5

// marks are how states begin a line.
var marks = map[State]string{OK: "ok      ", Absent: "-       ", Warning: "warning ", Error: "ERROR   ", Unknown: "unknown "}

// Text is the report for people.
func (r Report) Text(style view.Style) string {
	var out strings.Builder
	paint := map[State]func(string) string{
		OK: style.Good, Warning: style.Doubtful, Error: style.Bad, Unknown: style.Doubtful, Absent: func(text string) string { return text },
	}
	for _, result := range r.Results {
		fmt.Fprintf(&out, "%s%s", paint[result.State](marks[result.State]), view.Printable(result.Title))
		if result.Note != "" {
			fmt.Fprintf(&out, ": %s", view.Printable(result.Note))
		}
		out.WriteByte('\n')
		for _, finding := range result.Findings {
			fmt.Fprintf(&out, "        %s %s\n", paint[finding.Severity]("seen:"), view.Printable(finding.Seen))
			if len(finding.Objects) > 0 {
				fmt.Fprintf(&out, "        on:   %s\n", view.Printable(objects(finding.Objects, style.All)))
			}
			fmt.Fprintf(&out, "        do:   %s\n", view.Printable(finding.Do))
		}
		for _, unknown := range result.Unknown {
			fmt.Fprintf(&out, "        %s %s\n", paint[Unknown]("not read:"), view.Printable(unknown))
		}
		if result.State != OK && result.State != Absent || style.All {
			fmt.Fprintf(&out, "        docs: %s\n", result.Documentation)
		}
	}
	fmt.Fprintf(&out, "\n%s\n", r.Summary())
	return out.String()
}

// Summary counts the results in a sentence.
func (r Report) Summary() string {
	text := words.Count(len(r.Results), "check", "checks")
	for _, state := range []struct {
		state State
		word  string
	}{{OK, "fine"}, {Error, "with errors"}, {Warning, "with warnings"}, {Unknown, "not possible"}, {Absent, "with nothing to look at"}} {
		if count := r.Count(state.state); count > 0 {
			text += fmt.Sprintf(", %d %s", count, state.word)
		}
	}
	return text
}

func objects(names []string, all bool) string {
	if more := len(names) - shownObjects; more > 0 && !all {
		return fmt.Sprintf("%s and %d more (--output=wide shows all)", strings.Join(names[:shownObjects], ", "), more)
	}
	return strings.Join(names, ", ")
}
