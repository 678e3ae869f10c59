// Package sleep waits.
package sleep

import (
	"context"
	"time"
)

// For waits for a time, or less if ctx ends, and reports whether ctx goes on.
func For(ctx context.Context, duration time.Duration) bool {
	if duration <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
