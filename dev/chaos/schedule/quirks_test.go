package schedule_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
)

const quirks = "../../docs/quirks.md"

// rows returns the cells of the tables of quirks, less their heads.
func rows(t *testing.T) [][]string {
	t.Helper()
	content, err := os.ReadFile(quirks)
	if err != nil {
		t.Fatal(err)
	}
	var found [][]string
	inside := false
	for line := range strings.Lines(string(content)) {
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case strings.HasPrefix(line, "|quirk|seen at|the reference|Mooring|test|fault schedule|"):
			inside = true
		case inside && !strings.HasPrefix(line, "|---"):
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			found = append(found, cells)
		}
	}
	return found
}

// Each known quirk says where it was seen, what both managers do and which test shows it. It is an operation of schedules, or the page says why
// it is none; and each operation that is code within a plugin stands for a quirk.
func TestQuirks(t *testing.T) {
	known := rows(t)
	if len(known) < 70 {
		t.Errorf("%s has %d quirks: this test looks at too few", quirks, len(known))
	}
	seen, named, verb := map[string]bool{}, map[string]bool{}, regexp.MustCompile("`([a-z-]+)`")
	for _, row := range known {
		if len(row) != 6 || row[2] == "" || row[3] == "" || !strings.Contains(row[1], "](https://") || !strings.Contains(row[4], "`Test") {
			t.Errorf("%q is no quirk with a place, both managers, a test and an operation", row)
			continue
		}
		if seen[row[0]] {
			t.Errorf("%s has %q twice", quirks, row[0])
		}
		seen[row[0]] = true
		verbs := verb.FindAllStringSubmatch(row[5], -1)
		if len(verbs) == 0 && !strings.HasPrefix(row[5], "none: ") && !strings.HasPrefix(row[5], "always: ") {
			t.Errorf("%s: %q names no operation, and does not say why", row[0], row[5])
		}
		for _, one := range verbs {
			named[one[1]] = true
			if _, is := schedule.KindOf(one[1]); !is {
				t.Errorf("%s: there is no operation %s", row[0], one[1])
			}
		}
	}
	for _, kind := range schedule.Kinds() {
		if strings.HasPrefix(kind.Name, "plugin-") && !named[kind.Name] {
			t.Errorf("%s does not name %s", quirks, kind.Name)
		}
	}
}
