package draw_test

import (
	"reflect"
	"testing"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/simulation/draw"
)

// TestNew draws many seeds: a seed gives the same draw each time, and each character and disturbance is drawn.
func TestNew(t *testing.T) {
	characters, kinds := map[draw.Character]bool{}, map[draw.Disturbance]bool{}
	for seed := range uint64(500) {
		d := draw.New(seed)
		if text := d.String(); text != draw.New(seed).String() {
			t.Fatalf("seed %d gives two draws:\n%s", seed, text)
		}
		if parsed := must.Value(draw.Parse(d.String()))(t); !reflect.DeepEqual(parsed, d) {
			t.Fatalf("seed %d is read back as\n%s", seed, parsed)
		}
		for _, character := range d.Plugin.Characters {
			characters[character] = true
		}
		for _, event := range d.Events {
			kinds[event.Kind] = true
			if event.At > draw.Disturbed {
				t.Errorf("seed %d: %v is after the disturbances", seed, event)
			}
		}
	}
	if len(characters) != 26 || len(kinds) != 28 {
		t.Errorf("%d characters and %d disturbances were drawn", len(characters), len(kinds))
	}
}

// TestParseRefuses names what is wrong with a scenario, and its line.
func TestParseRefuses(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"node n\nservice s\nwrong", `line 3: unknown word "wrong"`},
		{"plugin polite", `line 1: unknown character "polite"`},
		{"5s rain", `line 1: unknown disturbance "rain"`},
		{"# a comment\nnode n color=red", `line 2: unknown attribute "color=red"`},
		{"node n joins=soon", `line 1: attribute "joins=soon"`},
		{"node n", "at least one node and one Service"},
	} {
		_, err := draw.Parse(test.text)
		must.ErrorContains(t, err, test.want)
	}
}
