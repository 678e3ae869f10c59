package provider_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mooring-ccm/mooring/provider"
)

// What errors are taken for, bare and wrapped.
func TestErrors(t *testing.T) {
	answer := errors.New("the answer: not found, too many requests")
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "machines"}, "m-1")
	for name, test := range map[string]struct {
		err                           error
		notFound, throttled, terminal bool
		instance                      bool // it is ErrInstanceNotFound
		retryAfter                    time.Duration
	}{
		"nil":                       {},
		"plain":                     {err: answer},
		"throttled":                 {err: provider.Throttled(time.Minute, answer), throttled: true, retryAfter: time.Minute},
		"throttled, not how long":   {err: provider.Throttled(0, answer), throttled: true},
		"terminal":                  {err: provider.Terminal(answer), terminal: true},
		"no instance":               {err: provider.NotFound(answer), notFound: true, instance: true},
		"no instance, by upstream":  {err: provider.ErrInstanceNotFound, notFound: true, instance: true},
		"no object in a cluster":    {err: gone, notFound: true},
		"nothing throttled":         {err: provider.Throttled(time.Minute, nil)},
		"nothing terminal":          {err: provider.Terminal(nil)},
		"nothing not found":         {err: provider.NotFound(nil)},
		"not found, and again that": {err: provider.NotFound(provider.ErrInstanceNotFound), notFound: true, instance: true},
	} {
		for _, err := range []error{test.err, wrapped(test.err)} {
			after, _ := provider.RetryAfter(err)
			if provider.IsNotFound(err) != test.notFound || provider.IsThrottled(err) != test.throttled ||
				provider.IsTerminal(err) != test.terminal || errors.Is(err, provider.ErrInstanceNotFound) != test.instance ||
				after != test.retryAfter {
				t.Errorf("%s, %v: not found %t, throttled %t for %s, terminal %t", name, err,
					provider.IsNotFound(err), provider.IsThrottled(err), after, provider.IsTerminal(err))
			}
		}
	}
	if !errors.Is(provider.NotFound(answer), answer) || !errors.Is(provider.Terminal(answer), answer) ||
		!errors.Is(provider.Throttled(0, answer), answer) {
		t.Error("the cloud's own answer is lost")
	}
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("asking the cloud: %w", err)
}
