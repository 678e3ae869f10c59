package draw_test

import (
	"testing"

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
	if len(characters) != 16 || len(kinds) != 17 {
		t.Errorf("%d characters and %d disturbances were drawn", len(characters), len(kinds))
	}
}
