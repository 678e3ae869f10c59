package cli

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// written is output that may be written and read at once.
type written struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *written) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(data)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &written{}
		done := Progress(out, "Counting")
		time.Sleep(progress.Interval - time.Millisecond)
		if out.String() != "" {
			t.Errorf("too early: %q", out)
		}
		time.Sleep(progress.Interval + 2*time.Millisecond)
		if want := "Counting ... 2s\nCounting ... 4s\n"; out.String() != want {
			t.Errorf("%q, want %q", out, want)
		}
		done()
		done()
		time.Sleep(time.Hour)
		if strings.Count(out.String(), "\n") != 2 {
			t.Errorf("it goes on after the end: %q", out)
		}
	})
}
