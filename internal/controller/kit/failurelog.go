package kit

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// FailureLog logs what fails once when it begins to fail, and once when it has recovered. It is safe for concurrent use; by the zero
// value nothing fails.
type FailureLog struct {
	mu sync.Mutex
	// failing are the messages of what fails.
	failing map[string]bool
}

// Note takes the outcome of what a message is about, nil for success: "Could not list the nodes". The message is logged with the error
// and the keys and values when that is new. What fails because the context has ended is no failure and is not logged.
func (l *FailureLog) Note(ctx context.Context, message string, err error, keysAndValues ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.failing[message]
	if l.failing == nil {
		l.failing = map[string]bool{}
	}
	l.failing[message] = err != nil
	switch {
	case ctx.Err() != nil:
	case err != nil && !before:
		log.FromContext(ctx).Error(err, message, keysAndValues...)
	case err == nil && before:
		log.FromContext(ctx).Info("Recovered", "failure", message)
	}
}
