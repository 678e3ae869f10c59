package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestARotatedAuditLog is an error, and not an empty list of requests.
func TestARotatedAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var trail auditTrail
	write(`{"stage":"ResponseComplete","verb":"list"}` + "\n" + `{"stage":"ResponseComplete","verb":"get"}` + "\n")
	if events, _, err := trail.read(path); len(events) != 2 || err != nil {
		t.Fatalf("%d events and %v, want two", len(events), err)
	}
	write(`{"stage":"ResponseComplete","verb":"watch"}` + "\n")
	if _, _, err := trail.read(path); err == nil || !strings.Contains(err.Error(), "rotated") {
		t.Errorf("after the log was replaced by a shorter one: %v", err)
	}
}
