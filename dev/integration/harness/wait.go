package harness

import (
	"context"
	"testing"

	"github.com/mooring-ccm/mooring/dev/poll"
)

// Deadline bounds every wait; nothing here takes more than a few seconds.
const Deadline = poll.Deadline

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
	poll.Until(t, what, problem)
}
