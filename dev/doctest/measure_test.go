package doctest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
)

// TestTutorialMeasures runs the command against a server that closes some connections and lets others hang, with another address and
// fewer requests, and counts as the tutorial does.
func TestTutorialMeasures(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		sandbox.Without(t, "missing: the program curl")
	}
	if !slices.Contains(Commands(text(t, "docs/tutorial/metal-rack.md")), measure) {
		t.Fatal("the tutorial does not show the command")
	}
	var asked atomic.Int32
	end := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		switch asked.Add(1) {
		case 4, 5:
			panic(http.ErrAbortHandler)
		case 6:
			<-end
		}
	}))
	defer server.Close()
	defer close(end)
	command := strings.NewReplacer("http://192.0.2.1/", server.URL, "seq 600", "seq 12").Replace(measure)
	shell := exec.CommandContext(t.Context(), "sh", "-c", command+" > /dev/null && wc -l < lost && cat lost")
	shell.Dir = t.TempDir()
	output, err := shell.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(output))
	if asked.Load() != 12 || len(lines) != 4 || lines[0] != "3" {
		t.Fatalf("of %d requests it says: %q, want 3 that were lost", asked.Load(), lines)
	}
	from, err1 := time.Parse("15:04:05.999999999", lines[1])
	until, err2 := time.Parse("15:04:05.999999999", lines[3])
	if err1 != nil || err2 != nil {
		t.Fatal(fmt.Errorf("times %q: %w, %w", lines[1:], err1, err2))
	}
	if took := until.Sub(from); took < 500*time.Millisecond && took >= 0 {
		t.Errorf("the third was waited for 0.5 s, and the times are %s apart", took)
	}
}
