package kit

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestShorten(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"short enough", 12, "short enough"},
		{"by one too long", 14, "by one too ..."},
		{"two\n  lines", 20, "two lines"},
		{"café au lait", 7, "caf..."}, // not half a letter
		{"", 5, ""},
	} {
		if got := Shorten(test.text, test.most); got != test.want {
			t.Errorf("%q in %d bytes is %q, want %q", test.text, test.most, got, test.want)
		}
	}
}

func TestEventMessagesFitTheEventsAPI(t *testing.T) {
	got := EventMessage(strings.Repeat("ä", MaxMessage))
	if len(got) > MaxMessage || !utf8.ValidString(got) || !strings.HasSuffix(got, "ä...") {
		t.Errorf("%d bytes that end in %q", len(got), got[len(got)-8:])
	}
}
