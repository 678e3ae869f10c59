package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testNamed    = regexp.MustCompile("`(Test[A-Z]\\w*)`")
	testDeclared = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
)

// TestNamedTestsExist holds the tests that pages name as proof against the tests that there are.
func TestNamedTestsExist(t *testing.T) {
	declared, named := map[string]bool{}, map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			for _, match := range testDeclared.FindAllStringSubmatch(string(text), -1) {
				declared[match[1]] = true
			}
			return err
		case strings.HasSuffix(path, ".md"):
			text, err := os.ReadFile(path)
			for _, match := range testNamed.FindAllStringSubmatch(string(text), -1) {
				named[match[1]] = append(named[match[1]], path)
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(named) < 50 {
		t.Fatalf("%d tests are named in pages: this test looks in the wrong place", len(named))
	}
	for name, pages := range named {
		if !declared[name] {
			t.Errorf("%s names the test %s, which is not there", strings.Join(pages, ", "), name)
		}
	}
}
