package doctest

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The budgets of TestEnglish. A change may lower them and never raises them.
const (
	mostTurns         = 0
	mostLongSentences = 1
	// mostTurnsInComments and mostTurnsInStrings count the comments and the string literals of all Go files.
	mostTurnsInComments = 0
	mostTurnsInStrings  = 0
)

// longestSentence is how many words a sentence may have.
const longestSentence = 35

var (
	// turns make a text sound translated. The actor ("another controller", "the operator"), a repeated noun or a second sentence is clearer.
	turns = regexp.MustCompile(`(?i)\b(nobody|somebody|whoever|those that|those who|that of|so that|any more)\b`)

	codeSpan    = regexp.MustCompile("`[^`\n]*`")
	htmlComment = regexp.MustCompile(`(?s)<!--.*?-->`)
	htmlTag     = regexp.MustCompile(`<[^>\n]+>`)
	listItem    = regexp.MustCompile(`^\s*([-*]|\d+\.)\s+`)
	sentenceEnd = regexp.MustCompile(`[.!?:;](\s+|$)`)
)

// prose is what a person reads of a page: no code, no comments, no targets of links.
func prose(page string) string {
	page = htmlComment.ReplaceAllString(codeBlock.ReplaceAllString(page, ""), "")
	page = markup.ReplaceAllString(codeSpan.ReplaceAllString(page, "x"), "$1")
	return htmlTag.ReplaceAllString(page, "")
}

// sentences are the sentences of a page. A cell of a table and an item of a list end one.
func sentences(page string) (found []string) {
	var open []string
	end := func() {
		for _, sentence := range sentenceEnd.Split(strings.Join(open, " "), -1) {
			if strings.TrimSpace(sentence) != "" {
				found = append(found, sentence)
			}
		}
		open = nil
	}
	for line := range strings.SplitSeq(prose(page), "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "|"):
			end()
			for cell := range strings.SplitSeq(strings.Trim(trimmed, "|"), "|") {
				open = append(open, strings.TrimSpace(cell))
				end()
			}
			continue
		case trimmed == "", strings.HasPrefix(trimmed, "#"), listItem.MatchString(line):
			end()
		}
		if !strings.HasPrefix(trimmed, "#") && !strings.HasPrefix(line, "    ") {
			open = append(open, listItem.ReplaceAllString(trimmed, ""))
		}
	}
	end()
	return found
}

// TestEnglish counts what makes pages, comments and messages hard to read, and holds the counts to budgets that only shrink.
func TestEnglish(t *testing.T) {
	var inPages, inComments, inStrings, long []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata" || entry.Name() == "bin" || entry.Name() == "out"):
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		switch filepath.Ext(path) {
		case ".md":
			page, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, sentence := range sentences(string(page)) {
				if words(sentence) > longestSentence {
					long = append(long, path+": "+sentence)
				}
			}
			for _, turn := range turns.FindAllString(prose(string(page)), -1) {
				inPages = append(inPages, path+": "+turn)
			}
		case ".go":
			comments, literals, err := textsOf(path)
			if err != nil {
				return err
			}
			for _, turn := range turns.FindAllString(comments, -1) {
				inComments = append(inComments, path+": "+turn)
			}
			if entry.Name() == "english_test.go" { // which has to quote the turns
				return nil
			}
			for _, turn := range turns.FindAllString(literals, -1) {
				inStrings = append(inStrings, path+": "+turn)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, budget := range []struct {
		what  string
		found []string
		most  int
	}{
		{"turns that sound translated, in pages", inPages, mostTurns},
		{"turns that sound translated, in comments", inComments, mostTurnsInComments},
		{"turns that sound translated, in string literals", inStrings, mostTurnsInStrings},
		{"sentences of more than 35 words, in pages", long, mostLongSentences},
	} {
		switch count := len(budget.found); {
		case count > budget.most:
			shown := budget.found
			if budget.most > 100 {
				shown = nil // which of them is new, git knows
			}
			t.Errorf("%d %s, and the budget is %d\n%s", count, budget.what, budget.most, strings.Join(shown, "\n"))
		case count < budget.most:
			t.Errorf("only %d %s are left: lower the budget of %d", count, budget.what, budget.most)
		}
	}
}

// textsOf returns all comments of a Go file, one a line, and the values of its string literals, one a line if no other one is added.
func textsOf(path string) (comments, literals string, err error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	files := token.NewFileSet()
	var s scanner.Scanner
	s.Init(files.AddFile(path, -1, len(source)), source, nil, scanner.ScanComments)
	var comment, text strings.Builder
	for {
		_, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			return comment.String(), text.String(), nil
		case token.COMMENT:
			comment.WriteString(literal + "\n")
		case token.STRING:
			value, err := strconv.Unquote(literal)
			if err != nil {
				return "", "", fmt.Errorf("%s: %s: %w", path, literal, err)
			}
			text.WriteString(value)
		case token.ADD: // a literal that continues
		default:
			text.WriteString("\n")
		}
	}
}

func TestSentences(t *testing.T) {
	page := "# A title\n\nOne sentence\nover two lines. Another: it goes on.\n\n- an item\n- two; items\n\n| a cell | `code.x` |\n|---|---|\n\n    code here. more\n"
	want := []string{"One sentence over two lines", "Another", "it goes on", "an item", "two", "items", "a cell", "x"}
	var got []string
	for _, sentence := range sentences(page) {
		if words(sentence) > 0 {
			got = append(got, strings.TrimSpace(sentence))
		}
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
	if found := turns.FindAllString("So that nobody, those that are and anybody", -1); len(found) != 3 {
		t.Errorf("found %q", found)
	}
}

func TestTextsOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.go")
	source := "package a // one\n\nimport \"fmt\"\n\n/* two */\nvar x = fmt.Sprint(\"joined \"+\n\t`text`, \"three\\n\")\n"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	comments, literals, err := textsOf(file)
	if err != nil || comments != "// one\n/* two */\n" || !strings.Contains(literals, "joined text\n") || !strings.Contains(literals, "\nthree\n") {
		t.Errorf("comments %q, literals %q, %v", comments, literals, err)
	}
}
