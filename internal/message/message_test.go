package message

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"short enough", 12, "short enough"},
		{"by one too long", 14, "by one too ..."},
		{"two\n  lines", 20, "two lines"},
		{"two\n  lines \t", 20, "two lines"},
		{"café au lait", 7, "caf..."}, // not half a letter
		{"", 5, ""},
		{"\x1b[31mred\x1b[0m", 40, "\ufffd[31mred\ufffd[0m"},
		{"a\x00\x00\x00b", 40, "a\ufffdb"},
		{"a\xff\xfeb", 40, "a\ufffdb"},
		{"abc\u202egpj.exe", 40, "abc\ufffdgpj.exe"}, // would be shown from right to left
		{"a\u2028b\u0085c", 40, "a b c"},
		{"日本語 ok", 40, "日本語 ok"},
	} {
		if got := Line(test.text, test.most); got != test.want {
			t.Errorf("%q in %d bytes is %q, want %q", test.text, test.most, got, test.want)
		}
	}
}

func FuzzLine(f *testing.F) {
	for _, text := range []string{"", "plain", "two\nlines", "\x1b[2J", "\xff\xfe", "é\u202e", strings.Repeat("ä", 600), "a\x00 \x00 b"} {
		f.Add(text, uint16(1000))
		f.Add(text, uint16(7))
	}
	f.Fuzz(func(t *testing.T, text string, size uint16) {
		most := max(int(size), len(more))
		line := Line(text, most)
		if len(line) > most || !utf8.ValidString(line) {
			t.Errorf("%d bytes of %d, valid %t", len(line), most, utf8.ValidString(line))
		}
		for _, r := range line {
			if r != ' ' && unicode.IsSpace(r) || r != utf8.RuneError && !unicode.IsGraphic(r) {
				t.Errorf("%q holds %q", line, r)
			}
		}
		if again := Line(line, most); again != line {
			t.Errorf("%q becomes %q", line, again)
		}
		if kept := Printable(line, most); kept != line {
			t.Errorf("%q becomes %q", line, kept)
		}
	})
}

func TestBound(t *testing.T) {
	if short := errors.New("short"); Bound(short, 10) != short || Bound(nil, 10) != nil {
		t.Error("an error that needs no other text was wrapped")
	}
	lines := errors.Join(errors.New("a"), errors.New("b  c"))
	if Bound(lines, 10) != lines {
		t.Error("joined errors were wrapped")
	}
	for text, want := range map[string]string{"much\ntoo long": "much to...", "\x1b[2J": "\ufffd[2J", "\xff": "\ufffd"} {
		bad := errors.New(text)
		if got := Bound(bad, 10); got.Error() != want || !errors.Is(got, bad) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestPrintableKeepsSpaces(t *testing.T) {
	if got := Printable("a  b \n\t c\x00", 100); got != "a  b   c\ufffd" {
		t.Errorf("%q", got)
	}
}
