package cloud

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestWhenTheCloudIsSuspected: what worked before and fails now, for long, and several of it.
func TestWhenTheCloudIsSuspected(t *testing.T) {
	listing := subject{operation: operations["ListInstances"], name: "ListInstances"}
	for name, test := range map[string]struct {
		failures  int
		over      time.Duration
		about     []subject
		worked    bool
		suspected bool
	}{
		"several that worked, for long":      {10, 30 * time.Second, []subject{onInstance("a"), onInstance("b")}, true, true},
		"a listing that worked":              {10, 30 * time.Second, []subject{listing}, true, true},
		"writes that worked":                 {1000, time.Hour, []subject{onService("a"), onService("b")}, true, false},
		"several that never worked":          {1000, time.Hour, []subject{onInstance("a"), onInstance("b")}, false, false},
		"a listing that never worked":        {1000, time.Hour, []subject{listing}, false, false},
		"one that worked":                    {1000, time.Hour, []subject{onInstance("a")}, true, false},
		"few":                                {9, time.Hour, []subject{onInstance("a"), onInstance("b")}, true, false},
		"many in a moment":                   {1000, 29 * time.Second, []subject{onInstance("a"), onInstance("b")}, true, false},
		"one that worked, by two questions":  {1000, time.Hour, []subject{onInstance("a"), {operation: operations["InstanceExists"], name: "InstanceExists", object: "a"}}, true, true},
		"one that worked among those broken": {1000, time.Hour, []subject{onInstance("a"), onInstance("a"), onInstance("b")}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, start := breaker{}, time.Unix(0, 0)
			now := start
			for i := range test.failures {
				now = start.Add(test.over * time.Duration(i) / time.Duration(test.failures-1))
				b.failed(test.about[i%len(test.about)], test.worked && i < len(test.about), errors.New("no"), now)
			}
			if got := b.suspicious(now); got != test.suspected {
				t.Errorf("suspected: %v, want %v", got, test.suspected)
			}
			if b.answered(); b.suspicious(now) || b.failures != 0 {
				t.Errorf("after an answer: %+v", b)
			}
		})
	}
}

func TestAnOpenBreakerProbesLessAndLess(t *testing.T) {
	b, now := breaker{failures: 10, reads: 2}, time.Unix(0, 0)
	b.openNow(now)
	var tries []time.Duration
	for last := now; len(tries) < 8; {
		now = b.next
		b.probe(now)
		tries, last = append(tries, now.Sub(last)), now
	}
	if got, want := fmt.Sprint(tries), "[1s 1s 2s 4s 8s 8s 8s 8s]"; got != want {
		t.Errorf("let through after %s, want %s", got, want)
	}
}
