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

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	markup   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	unlinked = regexp.MustCompile(`[^\w\- ]`)
)

// anchor is what a heading is called in links, as GitHub does it.
func anchor(title string) string {
	plain := strings.NewReplacer("`", "", "*", "").Replace(markup.ReplaceAllString(title, "$1"))
	return strings.ReplaceAll(unlinked.ReplaceAllString(strings.ToLower(strings.TrimSpace(plain)), ""), " ", "-")
}

// broken says what is wrong with a link of a page to another file or heading of the project; nil for one to elsewhere.
func broken(page, to string) error {
	if strings.Contains(to, "://") {
		return nil
	}
	file, id, _ := strings.Cut(to, "#")
	target := page
	if file != "" {
		target = filepath.Join(filepath.Dir(page), file)
	}
	info, err := os.Stat(target)
	if err != nil || id == "" || info.IsDir() {
		return err
	}
	text, err := os.ReadFile(target)
	if err != nil || strings.Contains(string(text), `id="`+id+`"`) {
		return err
	}
	for _, title := range heading.FindAllStringSubmatch(string(text), -1) {
		if anchor(title[1]) == id {
			return nil
		}
	}
	return fmt.Errorf("%s has no heading %s", target, id)
}

// TestLinksLeadSomewhere follows every link within the project's documentation.
func TestLinksLeadSomewhere(t *testing.T) {
	followed := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata" || entry.Name() == "bin" || entry.Name() == "out"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".md") || strings.Contains(path, "dev/docgen/migration"): // its links are of the page it becomes
			return nil
		}
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, found := range link.FindAllStringSubmatch(string(page), -1) {
			if err := broken(path, found[1]); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			followed++
		}
		return nil
	})
	if err != nil || followed < 100 {
		t.Errorf("followed %d links (%v): this test looks in the wrong place", followed, err)
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	page := filepath.Join(root, "README.md")
	for _, to := range []string{"docs/no-such-page.md", "docs/README.md#no-such-heading", "#no-such-heading"} {
		if broken(page, to) == nil {
			t.Errorf("%s counts as a link", to)
		}
	}
	for _, to := range []string{"https://example.com", "docs", "#try-it", "docs/reference/sim.md#changes"} {
		if err := broken(page, to); err != nil {
			t.Errorf("%s: %v", to, err)
		}
	}
}
