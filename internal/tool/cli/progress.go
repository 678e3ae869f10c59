package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// quiet is how long something may take before a word is said of it.
	quiet = 2 * time.Second
	// reminder is how often it is said again.
	reminder = 10 * time.Second
)

// Progress says what a command waits for once that takes longer than two seconds, and again every ten. After done has returned it writes nothing.
func Progress(out io.Writer, what string) (done func()) {
	began, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		timer := time.NewTimer(quiet)
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
				_, _ = fmt.Fprintf(out, "%s ... %s\n", what, time.Since(began).Round(time.Second))
				timer.Reset(reminder)
			case <-stop:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
}
