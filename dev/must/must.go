// Package must ends a test at once when something it needs fails.
package must

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

// Value is NoError for a call that returns a value too: must.Value(os.ReadFile(name))(t).
func Value[T any](value T, err error) func(t TB) T {
	return func(t TB) T {
		t.Helper()
		NoError(t, err)
		return value
	}
}
