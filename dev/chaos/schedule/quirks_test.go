package schedule_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
)

const explanation = "../../../docs/explanation/"

// rows returns the cells of all tables of a page, less their heads.
func rows(t *testing.T, page string) [][]string {
	t.Helper()
	content, err := os.ReadFile(explanation + page)
	if err != nil {
		t.Fatal(err)
	}
	var found [][]string
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| quirk |") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		found = append(found, cells)
	}
	return found
}

// Each known quirk is an operation of schedules, or the page says why it is none; and each operation that is code within a plugin stands for
// a quirk.
func TestQuirks(t *testing.T) {
	var known, decided []string
	for _, page := range []string{"quirks-nodes.md", "quirks-deletion.md", "quirks-load-balancers.md", "quirks-routes-and-calls.md"} {
		for _, row := range rows(t, page) {
			known = append(known, row[0])
		}
	}
	named, verb := map[string]bool{}, regexp.MustCompile("`([a-z-]+)`")
	for _, row := range rows(t, "chaos-quirks.md") {
		decided = append(decided, row[0])
		verbs := verb.FindAllStringSubmatch(row[1], -1)
		if len(verbs) == 0 && !strings.HasPrefix(row[1], "none: ") && !strings.HasPrefix(row[1], "always: ") {
			t.Errorf("%s: %q names no operation, and does not say why", row[0], row[1])
		}
		for _, one := range verbs {
			named[one[1]] = true
			if _, is := schedule.KindOf(one[1]); !is {
				t.Errorf("%s: there is no operation %s", row[0], one[1])
			}
		}
	}
	if len(known) < 70 || !slices.Equal(known, decided) {
		for _, quirk := range known {
			if !slices.Contains(decided, quirk) {
				t.Errorf("docs/explanation/chaos-quirks.md does not have %q", quirk)
			}
		}
		t.Errorf("there are %d quirks, and docs/explanation/chaos-quirks.md has %d: it shall have the same in their order", len(known), len(decided))
	}
	for _, kind := range schedule.Kinds() {
		if strings.HasPrefix(kind.Name, "plugin-") && !named[kind.Name] {
			t.Errorf("docs/explanation/chaos-quirks.md does not name %s", kind.Name)
		}
	}
}
