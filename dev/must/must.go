// Package must ends a test at once when something it needs fails.
package must

import (
	"fmt"
	"strings"
)

// TB is the part of testing.TB that this package uses; rapid.T has it too.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// NoError fails the test at once if there is an error.
func NoError(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ErrorContains fails the test at once unless an error says all that is wanted.
func ErrorContains(t TB, err error, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatal(fmt.Sprintf("the error is %v, want one that says %q", err, want))
		}
	}
}

// Value is NoError for a call that returns a value too: must.Value(os.ReadFile(name))(t).
func Value[T any](value T, err error) func(t TB) T {
	return func(t TB) T {
		t.Helper()
		NoError(t, err)
		return value
	}
}
