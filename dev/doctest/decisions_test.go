package doctest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// decision is the head of a page in docs/adr: its number and title, its status and the date of it.
var decision = regexp.MustCompile(`\A# (\d+)\. (.+)\n\nStatus: (accepted|superseded by \d+), (\d{4}-\d\d-\d\d)\.\n`)

// TestDecisionsAreIndexed holds the index of decisions against the pages.
func TestDecisionsAreIndexed(t *testing.T) {
	folder := filepath.Join(root, "docs/adr")
	index, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(folder, "[0-9]*.md"))
	if err != nil || len(pages) < 40 {
		t.Fatalf("%d pages found, %v: this test looks in the wrong place", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		head := decision.FindStringSubmatch(string(text))
		if head == nil {
			t.Errorf("%s does not begin with its number, title, status and date", page)
			continue
		}
		file := filepath.Base(page)
		row := fmt.Sprintf("| [%s](%s) | %s | %s | %s |", head[1], file, head[2], head[3], head[4])
		if !strings.Contains(string(index), row+"\n") || !strings.HasPrefix(file, fmt.Sprintf("%04s-", head[1])) {
			t.Errorf("docs/adr/README.md lacks the row of %s: %s", file, row)
		}
	}
	if rows := strings.Count(string(index), "\n| ["); rows != len(pages) {
		t.Errorf("docs/adr/README.md has %d rows, want one for each of %d pages", rows, len(pages))
	}
}

// cited is how the source names a decision.
var cited = regexp.MustCompile(`ADR (\d+)`)

// TestCitedDecisionsExist holds the decisions that the source cites against the pages.
func TestCitedDecisionsExist(t *testing.T) {
	citations := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range cited.FindAllStringSubmatch(string(text), -1) {
			citations++
			if pages, _ := filepath.Glob(filepath.Join(root, fmt.Sprintf("docs/adr/%04s-*.md", match[1]))); len(pages) != 1 {
				t.Errorf("%s cites ADR %s, which is not in docs/adr", path, match[1])
			}
		}
		return err
	})
	if err != nil || citations < 30 {
		t.Errorf("%d citations found (%v): this test looks in the wrong place", citations, err)
	}
}
