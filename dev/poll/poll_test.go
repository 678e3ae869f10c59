package poll_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-ccm/mooring/dev/poll"
)

// recorder is a test that keeps what it fails with.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failureOf returns what a test fails with that waits, and how long it waits until then.
func failureOf(t *testing.T, wait func(t testing.TB)) (failure string, after time.Duration) {
	t.Helper()
	waiting, began, done := &recorder{TB: t}, time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		wait(waiting)
	}()
	<-done
	return waiting.failure, time.Since(began)
}

func TestUntilLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, looks := time.Now(), 0
		took := poll.Until(t, "three seconds have passed", func(context.Context) error {
			looks++
			return poll.Holds(time.Since(began) >= 3*time.Second)
		})
		if took != 3*time.Second || looks < 100 {
			t.Errorf("it took %s and %d looks, want 3s and at least 100", took, looks)
		}
		if took := poll.Until(t, "nothing is waited for", func(context.Context) error { return nil }); took != 0 {
			t.Errorf("what is so at once took %s", took)
		}
	})
}

func TestDeadline(t *testing.T) {
	for name, test := range map[string]struct {
		wait    func(t testing.TB)
		failure string
		after   time.Duration
	}{
		"the usual one": {
			func(t testing.TB) {
				looks := 0
				poll.Until(t, "the tide is in", func(context.Context) error {
					if looks++; looks == 1 {
						return errors.New("it goes out")
					}
					return errors.New("it is low")
				})
			},
			"the tide is in: not within 1m0s: it is low", poll.Deadline,
		},
		"another one": {
			func(t testing.TB) {
				poll.Within(t, 3*time.Minute, "the ship is in", func(context.Context) error { return poll.Holds(false) })
			},
			"the ship is in: not within 3m0s: it is not so", 3 * time.Minute,
		},
		"a look is cut off": {
			func(t testing.TB) {
				looks := 0
				poll.Until(t, "the harbor answers", func(ctx context.Context) error {
					if looks++; looks > 1 {
						<-ctx.Done()
						return ctx.Err()
					}
					return errors.New("connection refused")
				})
			},
			"the harbor answers: not within 1m0s: connection refused", poll.Deadline,
		},
		"the only look is cut off": {
			func(t testing.TB) {
				poll.Until(t, "the harbor answers", func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				})
			},
			"the harbor answers: not within 1m0s: context deadline exceeded", poll.Deadline,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failure, after := failureOf(t, test.wait)
				if failure != test.failure || after != test.after {
					t.Errorf("after %s it fails with %q, want %q after %s", after, failure, test.failure, test.after)
				}
			})
		})
	}
}

func TestCleanUpsMayWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() {
			began := time.Now()
			poll.Until(t, "a second has passed", func(ctx context.Context) error {
				if err := ctx.Err(); err != nil {
					t.Error(err)
				}
				return poll.Holds(time.Since(began) >= time.Second)
			})
		})
	})
}
