package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// Progress says what a command waits for once that takes longer than progress.Interval, and again whenever it has taken twice as long. After done
// has returned it writes nothing.
func Progress(out io.Writer, what string) (done func()) {
	began, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		timer := time.NewTimer(progress.Interval)
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
				_, _ = fmt.Fprintf(out, "%s ... %s\n", what, time.Since(began).Round(time.Second))
				timer.Reset(time.Since(began))
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
