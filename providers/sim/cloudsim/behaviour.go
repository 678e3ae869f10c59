package cloudsim

import (
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// behavior is the knobs and the quota that they define.
type behavior struct {
	mu    sync.Mutex
	knobs api.Knobs
	quota *rate.Limiter
}

// set replaces the knobs. A quota that stays as it is keeps what is left of it.
func (b *behavior) set(knobs api.Knobs) {
	if knobs.PageSize == 0 {
		knobs.PageSize = DefaultPageSize
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	same := b.knobs.Quota != nil && knobs.Quota != nil && *b.knobs.Quota == *knobs.Quota
	if knobs.Quota == nil {
		b.quota = nil
	} else if !same {
		quota := *knobs.Quota
		knobs.Quota = &quota
		b.quota = rate.NewLimiter(rate.Limit(quota.RequestsPerSecond), quota.Burst)
	}
	b.knobs = knobs
}

func (b *behavior) get() api.Knobs {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.knobs
}

// latency draws how long the next call takes.
func (b *behavior) latency() time.Duration {
	knobs := b.get()
	d := knobs.Latency.Duration
	if jitter := knobs.LatencyJitter.Duration; jitter > 0 {
		d += rand.N(jitter)
	}
	return d
}

// throttle takes one call from the quota. If that is used up, it takes nothing and returns how long to wait.
func (b *behavior) throttle(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.quota == nil {
		return 0
	}
	reservation := b.quota.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}
