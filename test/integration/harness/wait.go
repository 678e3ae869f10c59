package harness

import (
	"context"
	"testing"
	"time"
)

const (
	// Deadline bounds every wait; nothing here takes more than a few seconds.
	Deadline = time.Minute
	// pollInterval is how often a condition is looked at.
	pollInterval = 20 * time.Millisecond
)

// Must fails the test at once if there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually polls until problem returns none, and fails with the last one when that does not happen within Deadline.
func Eventually(t testing.TB, what string, problem func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Deadline)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := problem(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}
