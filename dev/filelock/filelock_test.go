package filelock

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

func TestASecondHolderWaitsUntilTheFirstIsThrough(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var shown strings.Builder
	display := progress.New(&shown)
	unlock, err := Take(t.Context(), path, display, "another")
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Take(ended, path, display, "another"); !errors.Is(err, context.Canceled) {
		t.Errorf("while the lock is held: got %v, want the end of the context", err)
	}
	if !strings.Contains(shown.String(), "waiting for another") {
		t.Errorf("shown: %q, want what is waited for", shown.String())
	}
	unlock()
	unlock, err = Take(ended, path, display, "another")
	if err != nil {
		t.Fatalf("after it is released: %v", err)
	}
	unlock()
}
