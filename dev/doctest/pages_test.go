package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// longestPage is how many words a page may have that people write: what one reads in a sitting.
const longestPage = 1500

var (
	generatedPage = regexp.MustCompile(`(?m)^<!-- (Generated|Written) by .*[Dd]o not edit\. -->$`)
	codeBlock     = regexp.MustCompile("(?ms)^```.*?^```$")
	linkTarget    = regexp.MustCompile(`\]\([^)]*\)`)
	word          = regexp.MustCompile(`[\pL\d]`)
)

// words counts what is read on a page: not its code blocks, the targets of links, or the lines of tables.
func words(text string) int {
	text = linkTarget.ReplaceAllString(codeBlock.ReplaceAllString(text, ""), "]")
	count := 0
	for field := range strings.FieldsSeq(text) {
		if word.MatchString(field) {
			count++
		}
	}
	return count
}

// TestPagesAreShort keeps pages to a length that people read. Pages that a program writes may be as long as what they list.
func TestPagesAreShort(t *testing.T) {
	pages := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata" || entry.Name() == "bin" || entry.Name() == "out"):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || generatedPage.MatchString(string(text)) {
			return err
		}
		pages++
		if n := words(string(text)); n > longestPage {
			t.Errorf("%s has %d words, more than %d: give a part of it a page of its own", path, n, longestPage)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 80 {
		t.Errorf("%d pages were read: this test looks in the wrong place", pages)
	}
}
