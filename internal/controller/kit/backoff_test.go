package kit

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/internal/cloud"
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
		"the cloud asks for far too much":  {backoff, 0, provider.Throttled(1000*time.Hour, plain), cloud.MaxRetryAfter},
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
