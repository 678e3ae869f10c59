package kit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/provider"
)

func TestBackoff(t *testing.T) {
	plain, terminal := errors.New("x"), provider.Terminal(errors.New("x"))
	backoff := Backoff{First: time.Second, Longest: 5 * time.Minute, Terminal: time.Minute}
	equal := Backoff{First: time.Second, Longest: 5 * time.Minute}
	never := backoff
	never.IsTerminal = func(error) bool { return false }
	for name, test := range map[string]struct {
		backoff Backoff
		before  int
		err     error
		want    time.Duration
	}{
		"first failure":                    {backoff, 0, plain, time.Second},
		"without an error":                 {backoff, 1, nil, 2 * time.Second},
		"fourth failure":                   {backoff, 3, plain, 8 * time.Second},
		"longest pause":                    {backoff, 9, plain, 5 * time.Minute},
		"very many failures":               {backoff, math.MaxInt, plain, 5 * time.Minute},
		"a pause of hours that doubles":    {Backoff{First: 1000 * time.Hour, Longest: 2000 * time.Hour}, 29, plain, 2000 * time.Hour},
		"terminal":                         {backoff, 0, terminal, time.Minute},
		"terminal after many failures":     {backoff, 8, terminal, 256 * time.Second},
		"terminal like any other":          {equal, 0, terminal, time.Second},
		"not terminal to this controller":  {never, 0, terminal, time.Second},
		"the cloud asks for more":          {backoff, 0, provider.Throttled(30*time.Second, plain), 30 * time.Second},
		"the cloud asks for less":          {backoff, 3, provider.Throttled(time.Second, plain), 8 * time.Second},
		"the cloud asks for the longest":   {backoff, 9, provider.Throttled(7*time.Minute, plain), 7 * time.Minute},
		"the cloud asks for far too much":  {backoff, 0, provider.Throttled(1000*time.Hour, plain), classify.MaxRetryAfter},
		"the cloud asks without saying it": {backoff, 0, provider.Throttled(0, plain), time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.backoff.After(test.before, test.err); got != test.want {
				t.Errorf("pause %s, want %s", got, test.want)
			}
		})
	}
}

// A pause is never shorter than the one before, nor out of its bounds.
func TestBackoffGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "first"))
		backoff := Backoff{First: first, Longest: first + time.Duration(rapid.Int64Range(0, math.MaxInt64/2).Draw(t, "more"))}
		last := time.Duration(0)
		for before := range 70 {
			pause := backoff.After(before, nil)
			if pause < last || pause < backoff.First || pause > backoff.Longest {
				t.Fatalf("pause %s after %d failures, %s before; want %s to %s", pause, before, last, backoff.First, backoff.Longest)
			}
			last = pause
		}
	})
}

func TestBackoffAsRateLimiter(t *testing.T) {
	backoff := Backoff{First: time.Second, Longest: 5 * time.Second}
	limiter := backoff.RateLimiter()
	for before := range 5 {
		if got, want := limiter.When(request("a")), backoff.After(before, nil); got != want {
			t.Errorf("pause %s after %d failures, want %s", got, before, want)
		}
	}
}

// The retries of a controller are never more than those of the reference, whose limiter runs beside ours: in any time from the first failure on.
func TestRetriesAreNeverMoreThanTheReferences(t *testing.T) {
	for _, objects := range []int{1, 20, 150} {
		t.Run(fmt.Sprint(objects), func(t *testing.T) {
			retries := func(limiter workqueue.TypedRateLimiter[int]) (at []time.Duration) {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					var mu sync.Mutex
					var failing sync.WaitGroup
					for object := range objects {
						failing.Go(func() {
							for time.Since(began) < 100*time.Second {
								time.Sleep(limiter.When(object))
								mu.Lock()
								at = append(at, time.Since(began))
								mu.Unlock()
							}
						})
					}
					failing.Wait()
				})
				slices.Sort(at)
				return at
			}
			reference, ours := retries(workqueue.DefaultTypedControllerRateLimiter[int]()), retries(NewRetryLimiter[int]())
			if len(ours) < len(reference)*9/10-objects {
				t.Errorf("%d retries in 100 s, and of the reference %d", len(ours), len(reference))
			}
			for i, at := range ours {
				if i < len(reference) && at < reference[i]-time.Millisecond { // the limiters round to nanoseconds
					t.Fatalf("retry %d is after %s, and of the reference after %s", i+1, at, reference[i])
				}
			}
		})
	}
}

func TestRetriesPauseForTwoMinutesAtMost(t *testing.T) {
	limiter := NewRetryLimiter[string]()
	var last time.Duration
	for range 40 {
		last = limiter.When("node")
	}
	if last < 100*time.Second || last > 2*time.Minute {
		t.Errorf("the pause after many failures is %s", last)
	}
	limiter.Forget("node")
	if first := limiter.When("node"); first < 5*time.Millisecond || first > 6*time.Millisecond {
		t.Errorf("the pause after a success is %s", first)
	}
}

// What has failed at the same moment, and as often, is not tried again at the same moment.
func TestRetriesOfObjectsAreApart(t *testing.T) {
	limiter := NewRetryLimiter[string]()
	for failures := range 20 {
		pauses := map[time.Duration]bool{}
		for i := range 10 {
			pauses[limiter.When(fmt.Sprint("node-", i))] = true
		}
		if len(pauses) < 8 {
			t.Errorf("10 nodes have %d different pauses after %d failures", len(pauses), failures)
		}
	}
}
