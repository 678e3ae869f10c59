package ccm

import (
	"errors"
	"fmt"
	"testing"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

func TestJoined(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	for name, test := range map[string]struct {
		errs []error
		want string
	}{
		"one error":                  {[]error{nil, one}, "heading: one"},
		"several":                    {[]error{one, two}, "heading:\n  one\n  two"},
		"joined ones":                {[]error{errors.Join(one, errors.Join(two))}, "heading:\n  one\n  two"},
		"an aggregate":               {[]error{utilerrors.NewAggregate([]error{one, two})}, "heading:\n  one\n  two"},
		"under another heading":      {[]error{joined("lower", one, two)}, "heading:\n  one\n  two"},
		"wrapped with words of it":   {[]error{fmt.Errorf("reading: %w", errors.Join(one, two))}, "heading: reading: one\ntwo"},
		"two wrapped in one message": {[]error{fmt.Errorf("first %w, then %w", one, two)}, "heading: first one, then two"},
	} {
		t.Run(name, func(t *testing.T) {
			err := joined("heading", test.errs...)
			if err.Error() != test.want {
				t.Errorf("%q, want %q", err, test.want)
			}
			if !errors.Is(err, one) {
				t.Error("the error does not wrap what it joins")
			}
		})
	}
	if err := joined("heading", nil, errors.Join()); err != nil {
		t.Errorf("no errors are %v", err)
	}
}
