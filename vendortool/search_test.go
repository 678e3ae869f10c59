package vendortool

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	cloudproviderapi "k8s.io/cloud-provider/api"
)

func TestADeletionThatHasBegunIsWaitedFor(t *testing.T) {
	pending, refused := cloudproviderapi.NewRetryError("it is being deleted", 2*time.Second), errors.New("refused")
	for name, c := range map[string]struct {
		answers []error
		want    error
		took    time.Duration
	}{
		"deleted at once":                 {answers: []error{nil}},
		"refused at once":                 {answers: []error{refused}, want: refused},
		"deleted later":                   {answers: []error{pending, pending, nil}, took: 4 * time.Second},
		"refused later":                   {answers: []error{pending, refused}, want: refused, took: 2 * time.Second},
		"never deleted":                   {answers: []error{pending}, want: pending, took: removalTimeout},
		"asked for again without a pause": {answers: []error{cloudproviderapi.NewRetryError("", 0), nil}, took: minPause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), removalTimeout)
				defer cancel()
				began, calls := time.Now(), 0
				err := retried(ctx, func(context.Context) error {
					calls++
					return c.answers[min(calls, len(c.answers))-1]
				})
				if took := time.Since(began); !errors.Is(err, c.want) || took != c.took {
					t.Errorf("%v after %s, want %v after %s", err, took, c.want, c.took)
				}
			})
		})
	}
}
