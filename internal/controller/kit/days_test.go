package kit

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Changes come for three days, by ones, in bursts and without an end. Each is acted on within the longest wait, a burst is one action, and
// nothing is done where nothing changes.
func TestDebounceForDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		debounce := Debounce{Quiet: 2 * time.Second, Most: 15 * time.Second}
		changes := make(chan struct{}, 1)
		acted := make(chan time.Duration) // how long the oldest change has waited
		var mu sync.Mutex
		var oldest time.Time // of the changes that were not acted on
		go func() {
			for {
				select {
				case <-changes:
				case <-t.Context().Done():
					return
				}
				if !debounce.Await(t.Context(), changes, 0) {
					return
				}
				mu.Lock()
				waited := time.Since(oldest)
				oldest = time.Time{}
				mu.Unlock()
				acted <- waited
			}
		}()
		actions := 0
		go func() {
			for waited := range acted {
				if actions++; waited > debounce.Most {
					t.Errorf("a change waited for %v", waited)
				}
			}
		}()
		chance := rand.New(rand.NewPCG(1, 1))
		bursts, most := 0, 0
		for end := time.Now().Add(72 * time.Hour); time.Now().Before(end); bursts++ {
			began := time.Now()
			for range 1 + chance.IntN(200) {
				mu.Lock()
				if oldest.IsZero() {
					oldest = time.Now()
				}
				mu.Unlock()
				select {
				case changes <- struct{}{}:
				default:
				}
				time.Sleep(time.Duration(chance.Int64N(int64(debounce.Quiet) - 1)))
			}
			most += 1 + int((time.Since(began)+debounce.Quiet)/debounce.Most)
			time.Sleep(debounce.Quiet + time.Duration(chance.Int64N(int64(10*time.Minute))))
			synctest.Wait()
			if actions > most || actions <= bursts {
				t.Fatalf("%d actions for %d bursts, want at most %d", actions, bursts+1, most)
			}
		}
		close(acted)
	})
}

// TestEventsAreLimitedForDays: a hundred objects fail every few seconds for a day, each for its own reasons, and others come and go. Each gets an
// event for each reason every ten minutes. Deleted objects take no memory.
func TestEventsAreLimitedForDays(t *testing.T) {
	const objects, short = 100, 10
	var limiter EventLimiter
	start := time.Unix(0, 0)
	allowed := map[eventKey]int{}
	hours := 24
	for step := range hours * 3600 / 10 {
		now := start.Add(time.Duration(step) * 10 * time.Second)
		for i := step % 7; i < objects; i += 7 { // each about once a minute
			key := eventKey{types.UID(fmt.Sprint(i)), []string{"Failed", "Throttled"}[step%2]}
			if limiter.Allow(key.object, key.reason, now) {
				allowed[key]++
			}
		}
		for i := range short {
			limiter.Allow(types.UID(fmt.Sprintf("gone-%d-%d", step, i)), "Failed", now)
		}
		// What came and went within two intervals is all that may be kept.
		if most := 2*objects + 2*short*int(EventInterval/(10*time.Second)+1); len(limiter.last) > most {
			t.Fatalf("after %v it keeps %d entries, want at most %d", now.Sub(start), len(limiter.last), most)
		}
	}
	if len(allowed) != 2*objects {
		t.Errorf("%d objects and reasons got an event, want %d", len(allowed), 2*objects)
	}
	for key, events := range allowed {
		if most := hours * 6; events > most || events < most*3/4 {
			t.Errorf("%v got %d events, want about %d", key, events, most)
		}
	}
}
