package doctest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// designs is the folder of the design pages.
var designs = filepath.Join(root, "dev/docs/design")

var (
	// designTitle is the title of a design page, its first line.
	designTitle = regexp.MustCompile(`\A# (.+)\n`)
	// decisionAnchor marks a decision, and decisionHeading is a heading with the number of one.
	decisionAnchor  = regexp.MustCompile(`<a id="(\d+)"></a>`)
	decisionHeading = regexp.MustCompile(`(?m)^#+ (\d+)\. .+$`)
)

// designPages returns the texts of the design pages without their index, by their names.
func designPages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(designs, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(file); name != "README.md" {
			pages[name] = string(text)
		}
	}
	if len(pages) < 5 {
		t.Fatalf("%d pages found: this test looks in the wrong place", len(pages))
	}
	return pages
}

// decisionPages returns the pages on which each decision has an anchor, by its number.
func decisionPages(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for name, text := range designPages(t) {
		for _, match := range decisionAnchor.FindAllStringSubmatch(text, -1) {
			found[match[1]] = append(found[match[1]], name)
		}
	}
	return found
}

// TestDesignPagesAreIndexed compares the index with the pages: it has one line for each, with the title of the page, and no other.
func TestDesignPagesAreIndexed(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(designs, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages := designPages(t)
	for name, text := range pages {
		title := designTitle.FindStringSubmatch(text)
		if title == nil {
			t.Errorf("dev/docs/design/%s does not begin with its title", name)
			continue
		}
		if line := fmt.Sprintf("\n- [%s](%s): ", title[1], name); strings.Count(string(index), line) != 1 {
			t.Errorf("dev/docs/design/README.md lacks the line of %s: %s", name, strings.TrimSpace(line))
		}
	}
	if lines := strings.Count(string(index), "\n- ["); lines != len(pages) {
		t.Errorf("dev/docs/design/README.md has %d lines, want one for each of %d pages", lines, len(pages))
	}
}

// TestDecisionsHaveOneAnchor has each number of a decision stand for one place, and each numbered heading follow the anchor of its number.
func TestDecisionsHaveOneAnchor(t *testing.T) {
	numbers := decisionPages(t)
	if len(numbers) < 40 {
		t.Fatalf("%d decisions found: this test looks in the wrong place", len(numbers))
	}
	for number, pages := range numbers {
		if len(pages) != 1 {
			slices.Sort(pages)
			t.Errorf("decision %s has %d anchors, in %s of dev/docs/design", number, len(pages), strings.Join(pages, ", "))
		}
	}
	for name, text := range designPages(t) {
		for _, at := range decisionHeading.FindAllStringSubmatchIndex(text, -1) {
			number := text[at[2]:at[3]]
			if !strings.HasSuffix(text[:at[0]], fmt.Sprintf("\n<a id=%q></a>\n", number)) {
				t.Errorf("dev/docs/design/%s: no anchor on the line before the heading of decision %s", name, number)
			}
		}
	}
}

// cited is how the source names a decision.
var cited = regexp.MustCompile(`ADR (\d+)`)

// TestCitedDecisionsExist compares the decisions that the source cites with the anchors of the design pages.
func TestCitedDecisionsExist(t *testing.T) {
	numbers, citations := decisionPages(t), 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range cited.FindAllStringSubmatch(string(text), -1) {
			citations++
			if pages := numbers[match[1]]; len(pages) != 1 {
				t.Errorf("%s cites ADR %s, which has %d anchors in dev/docs/design", path, match[1], len(pages))
			}
		}
		return err
	})
	if err != nil || citations < 30 {
		t.Errorf("%d citations found (%v): this test looks in the wrong place", citations, err)
	}
}
