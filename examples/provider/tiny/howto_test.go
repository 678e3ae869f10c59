package tiny

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHowToQuotesThisModule finds each piece of Go in the how-to, word for word, in this module.
func TestHowToQuotesThisModule(t *testing.T) {
	page, err := os.ReadFile("../../../docs/how-to/write-a-provider.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, path := range append(files, "../main.go") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(data)
	}
	pieces := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(pieces) < 5 {
		t.Errorf("the page has %d pieces of Go: this test looks at too few", len(pieces))
	}
	for _, piece := range pieces {
		if !strings.Contains(code.String(), piece[1]) {
			t.Errorf("this module has no such code:\n%s", piece[1])
		}
	}
}
