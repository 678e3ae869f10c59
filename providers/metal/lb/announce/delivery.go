package announce

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// The pauses after a sink has failed.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// delivery hands tables to one sink, the newest always, so a slow sink holds up neither the others nor the decision.
type delivery struct {
	name     string
	sink     Sink
	newer    chan routing.Table // has room for one
	failures prometheus.Counter
}

// give puts a table in the place of one that has not been taken yet. It is called by one goroutine only.
func (d *delivery) give(announced routing.Table) {
	select {
	case <-d.newer:
	default:
	}
	d.newer <- announced
}

// run hands tables on until ctx ends.
func (d *delivery) run(ctx context.Context, log logr.Logger) {
	var announced routing.Table
	var pause time.Duration // zero: there is nothing to be tried again
	for {
		var again <-chan time.Time
		if pause > 0 {
			again = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return
		case announced = <-d.newer:
			pause = 0
		case <-again:
		}
		err := d.sink.Announce(ctx, announced)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause = 0
		default:
			pause = min(max(2*pause, firstRetry), lastRetry)
			d.failures.Inc()
			log.Error(err, "Could not announce; trying again", "sink", d.name, "retryAfter", pause.String())
		}
	}
}
