// Package poll is how tests wait for what happens outside of their process. They check again and again until nothing is wrong, or a deadline has
// passed. A test that waits for its own process uses channels and virtual time instead. Package poll is for processes, API servers, kernels and
// routers, which send no notification when they are done.
package poll

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// Deadline bounds a wait. What tests wait for takes seconds at most on an idle machine, but machines that run tests are busy.
	Deadline = time.Minute
	// pause is between the end of a look and the next one, so a look that is slow is not all that the machine does.
	pause = 10 * time.Millisecond
)

// Until calls problem until it returns nil, and returns how long that took. After Deadline the test fails at once, with what it
// waited for and the last problem. It is called by the test's own goroutine and calls problem on it, so problem may end the
// test, too; its context ends with the deadline. Clean-ups of a test may wait as the test itself does.
func Until(t testing.TB, what string, problem func(ctx context.Context) error) time.Duration {
	t.Helper()
	return Within(t, Deadline, what, problem)
}

// Within is Until with another deadline.
func Within(t testing.TB, deadline time.Duration, what string, problem func(ctx context.Context) error) time.Duration {
	t.Helper()
	// The test's own context has ended when its clean-ups run.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), deadline)
	defer cancel()
	began := time.Now()
	var last error
	look := func(ctx context.Context) (bool, error) {
		err := problem(ctx)
		// A look that the deadline has cut off says no more than that.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	}
	// PollUntilContextCancel would count the time of a look as part of the pause.
	if err := (wait.Backoff{Duration: pause}).DelayFunc().Until(ctx, true, true, look); err != nil {
		t.Fatalf("%s: not within %s: %v", what, deadline, last)
	}
	return time.Since(began)
}

// errUnmet is the problem with a condition that does not say what is wrong.
var errUnmet = errors.New("it is not so")

// Holds makes a problem of a condition that has no more to say than whether it holds.
func Holds(condition bool) error {
	if condition {
		return nil
	}
	return errUnmet
}
