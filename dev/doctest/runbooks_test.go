package doctest

import (
	"regexp"
	"strings"
	"testing"
)

var (
	// warning is a row of a table of events, one that is a warning.
	warning = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| Warning \\|")
	// namesInRow are those of the first column of a row.
	namesInRow = regexp.MustCompile("(?m)^\\| (`\\w+`(?:, `\\w+`)*) \\|")
	named      = regexp.MustCompile("`(\\w+)`")
	// problem is a constant of the problems of a session.
	problem = regexp.MustCompile(`(?m)^\t\w+ Problem = "(\w+)"$`)
)

// partOf is the section of a page under a heading.
func partOf(t *testing.T, page, heading string) string {
	t.Helper()
	_, after, found := strings.Cut(text(t, page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, heading)
	}
	part, _, _ := strings.Cut(after, "\n## ")
	return part
}

// TestRunbooksOfBareMetal says what to do about every warning that the references have, and about every problem of a session in the source.
func TestRunbooksOfBareMetal(t *testing.T) {
	const page, source = "docs/how-to/runbooks-metal.md", "providers/metal/lb/bgp/problem.go"
	headings := map[string]bool{}
	for _, line := range strings.Split(text(t, page), "\n") {
		if heading, found := strings.CutPrefix(line, "### "); found {
			for name := range strings.SplitSeq(heading, ", ") {
				headings[name] = true
			}
		}
	}
	warnings := 0
	for _, section := range [][2]string{
		{"docs/reference/events-and-conditions.md", "Bare metal: machines"},
		{"docs/reference/events-and-conditions.md", "Cloud config"},
		{"docs/reference/events-and-conditions-services.md", "Bare metal: addresses"},
	} {
		for _, row := range warning.FindAllStringSubmatch(partOf(t, section[0], section[1]), -1) {
			warnings++
			if !headings[row[1]] {
				t.Errorf("%s has no section %s, of which %s says that it is a warning", page, row[1], section[0])
			}
		}
	}
	advised := map[string]bool{}
	for _, row := range namesInRow.FindAllStringSubmatch(partOf(t, page, "Sessions that are not up"), -1) {
		for _, name := range named.FindAllStringSubmatch(row[1], -1) {
			advised[name[1]] = true
		}
	}
	problems := problem.FindAllStringSubmatch(text(t, source), -1)
	for _, name := range problems {
		if !advised[name[1]] {
			t.Errorf("%s does not say what to do about the problem %s", page, name[1])
		}
		delete(advised, name[1])
	}
	for name := range advised {
		t.Errorf("%s says what to do about %s, which is no problem of a session in %s", page, name, source)
	}
	if warnings < 12 || len(problems) < 16 {
		t.Errorf("found %d warnings and %d problems: this test looks in the wrong place", warnings, len(problems))
	}
}
