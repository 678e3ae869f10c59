package must_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/mooring-ccm/mooring/dev/must"
)

// recorder keeps what a test fails with.
type recorder struct{ failure string }

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) { r.failure = fmt.Sprint(args...) }

func TestFailures(t *testing.T) {
	aground := errors.New("the ship is aground")
	for name, test := range map[string]struct {
		call func(t must.TB)
		want string
	}{
		"no error":             {func(t must.TB) { must.NoError(t, nil) }, ""},
		"an error":             {func(t must.TB) { must.NoError(t, aground) }, "the ship is aground"},
		"a value":              {func(t must.TB) { must.Value(1, nil)(t) }, ""},
		"a value and an error": {func(t must.TB) { must.Value(1, aground)(t) }, "the ship is aground"},
		"it says all":          {func(t must.TB) { must.ErrorContains(t, aground, "ship", "aground") }, ""},
		"it lacks one":         {func(t must.TB) { must.ErrorContains(t, aground, "ship", "sinks") }, `the error is the ship is aground, want one that says "sinks"`},
		"there is none":        {func(t must.TB) { must.ErrorContains(t, nil, "ship") }, `the error is <nil>, want one that says "ship"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{}
			if test.call(r); r.failure != test.want {
				t.Errorf("it fails with %q, want %q", r.failure, test.want)
			}
		})
	}
}
