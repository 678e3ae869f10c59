package words_test

import (
	"testing"

	"github.com/mooring-ccm/mooring/internal/tool/words"
)

func TestCount(t *testing.T) {
	for count, want := range map[int64]string{0: "0 nodes", 1: "1 node", 2: "2 nodes", 5000: "5000 nodes"} {
		if got := words.Count(count, "node", "nodes"); got != want {
			t.Errorf("%d: %q, want %q", count, got, want)
		}
	}
}
