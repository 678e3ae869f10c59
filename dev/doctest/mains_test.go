package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMainsAreQuoted finds each piece of Go of the page on building a CCM, word for word, in programs that are built and run by tests.
func TestMainsAreQuoted(t *testing.T) {
	var code strings.Builder
	for _, folder := range []string{"examples/vendor", "dev/plugins/aws/cmd/tagging-ccm"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			data, err := os.ReadFile(path)
			code.Write(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	pieces := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(text(t, "docs/how-to/build-a-ccm.md"), -1)
	if len(pieces) < 3 {
		t.Errorf("the page has %d pieces of Go: this test looks at too few", len(pieces))
	}
	for _, piece := range pieces {
		if !strings.Contains(code.String(), piece[1]) {
			t.Errorf("no program has this code:\n%s", piece[1])
		}
	}
}
