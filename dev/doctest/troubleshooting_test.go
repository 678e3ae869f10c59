package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	// quoted is a text of a program on a page.
	quoted = regexp.MustCompile("`([^`]+)`")
	// verb is where a program puts a value into a text.
	verb = regexp.MustCompile(`%[-+#0 ]*[\d.]*[a-zA-Z]`)
)

// TestTroubleshootingQuotesThePrograms finds what the page says that a program prints in that program's source: two fifths of each text in
// one piece, since the rest are values.
func TestTroubleshootingQuotesThePrograms(t *testing.T) {
	const page = "docs/how-to/troubleshooting.md"
	source, quotes := printedTexts(t, "ccm", "cmd", "internal"), 0
	for line := range strings.Lines(text(t, page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, found := range quoted.FindAllStringSubmatch(cells[1], -1) {
			quote := found[1]
			if !strings.Contains(quote, " ") {
				continue // a reason or a state: tests of the references know those
			}
			quotes++
			if !partlyIn(source, quote) {
				t.Errorf("%s quotes %q, which no program prints", page, quote)
			}
		}
	}
	if quotes < 30 {
		t.Errorf("%s has %d texts of programs: this test looks in the wrong place", page, quotes)
	}
}

// partlyIn reports whether two fifths of a text are in the source in one piece.
func partlyIn(source, quote string) bool {
	size := (2*len(quote) + 4) / 5
	for at := 0; at+size <= len(quote); at++ {
		if strings.Contains(source, quote[at:at+size]) {
			return true
		}
	}
	return false
}

// printedTexts returns the texts in the source below folders, without tests. What is added up is one text, and a line ends where a value is.
func printedTexts(t *testing.T, folders ...string) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				expression, ok := node.(ast.Expr)
				if !ok {
					return true
				}
				said, ok := addedUp(expression)
				if ok {
					all.WriteString(verb.ReplaceAllString(said, "\n") + "\n")
				}
				return true // an operand may be a call with texts of its own
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// addedUp returns the text of a string, or of strings and values that are added up.
func addedUp(expression ast.Expr) (string, bool) {
	switch of := expression.(type) {
	case *ast.BasicLit:
		if of.Kind != token.STRING {
			return "", false
		}
		said, err := strconv.Unquote(of.Value)
		return said, err == nil
	case *ast.BinaryExpr:
		left, one := addedUp(of.X)
		right, other := addedUp(of.Y)
		switch {
		case of.Op != token.ADD || !one && !other:
			return "", false
		case !one:
			left = "\n"
		case !other:
			right = "\n"
		}
		return left + right, true
	default:
		return "", false
	}
}

func TestQuotesThatNothingPrintsAreFound(t *testing.T) {
	source := printedTexts(t, "internal/controller/node")
	for quote, want := range map[string]bool{
		`the cloud has no instance for this node, looked for by the node's name "x"`: true,
		`the kubelet's node IP "10.0.0.2" does not fit the instance's addresses`:     true,
		"the machine was painted green, which its cloud does not like":               false,
	} {
		if got := partlyIn(source, quote); got != want {
			t.Errorf("%q: printed %t, want %t", quote, got, want)
		}
	}
}
