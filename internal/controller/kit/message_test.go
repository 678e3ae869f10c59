package kit

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEventMessagesFitTheEventsAPI(t *testing.T) {
	got := EventMessage(strings.Repeat("ä", MaxMessage))
	if len(got) > MaxMessage || !utf8.ValidString(got) || !strings.HasSuffix(got, "ä...") {
		t.Errorf("%d bytes that end in %q", len(got), got[len(got)-8:])
	}
}
