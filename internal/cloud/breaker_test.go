package cloud

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// failing returns a breaker after as many failures, evenly over a time, of objects in turn.
func failing(failures int, over time.Duration, objects ...string) (breaker, time.Time) {
	b, start := breaker{}, time.Unix(0, 0)
	now := start
	for i := range failures {
		now = start.Add(over * time.Duration(i) / time.Duration(failures-1))
		b = b.failed(objects[i%len(objects)], errors.New("no"), now)
	}
	return b, now
}

func TestBreakerOpensOnSustainedFailureOnly(t *testing.T) {
	for name, test := range map[string]struct {
		failures int
		over     time.Duration
		objects  []string
		open     bool
	}{
		"many, for long":                {failures: 10, over: 30 * time.Second, objects: []string{"a", "b"}, open: true},
		"listings":                      {failures: 10, over: 30 * time.Second, objects: []string{""}, open: true},
		"few":                           {failures: 9, over: time.Hour, objects: []string{"a", "b"}},
		"many in a moment":              {failures: 1000, over: 29 * time.Second, objects: []string{"a", "b"}},
		"all of one object":             {failures: 1000, over: time.Hour, objects: []string{"a"}},
		"one object but for a last one": {failures: 11, over: time.Hour, objects: []string{"a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "b"}, open: true},
	} {
		t.Run(name, func(t *testing.T) {
			b, now := failing(test.failures, test.over, test.objects...)
			if b.open != test.open {
				t.Errorf("open = %v, want %v", b.open, test.open)
			}
			if _, let, _ := b.admit(now); let == test.open {
				t.Errorf("a call is let through: %v", let)
			}
		})
	}
}

// TestOneBrokenObjectAmongHealthyOnes never opens the breaker, however often it fails.
func TestOneBrokenObjectAmongHealthyOnes(t *testing.T) {
	b, now := breaker{}, time.Unix(0, 0)
	for i := range 10_000 {
		now = now.Add(time.Second)
		b = b.failed(fmt.Sprint("broken", i%2), errors.New("no"), now)
		if i%9 == 0 {
			b = b.answered()
		}
		if b.open {
			t.Fatalf("open after %d failures", i)
		}
	}
}

func TestOpenBreakerLetsOneThroughPerInterval(t *testing.T) {
	b, now := failing(10, time.Minute, "a", "b")
	var tries []time.Duration
	for last := now; len(tries) < 8; {
		next, let, at := b.admit(now)
		if b = next; !let {
			now = at
			continue
		}
		tries, last = append(tries, now.Sub(last)), now
		b = b.failed("a", errors.New("no"), now)
	}
	if got, want := fmt.Sprint(tries), "[1s 1s 2s 4s 8s 16s 30s 30s]"; got != want {
		t.Errorf("let through after %s, want %s", got, want)
	}
	if b = b.answered(); b.open || b.failures != 0 {
		t.Errorf("after an answer: %+v, want closed", b)
	}
}
