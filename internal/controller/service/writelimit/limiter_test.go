package writelimit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// serviceKey is the name of a Service by number.
func serviceKey(id int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint(id)} }

// limiterOf returns a write limiter, and where it notes whom it admits.
func limiterOf(places int) (*Limiter, *[]string) {
	admitted := &[]string{}
	return New(places, false, func(key types.NamespacedName) { *admitted = append(*admitted, key.Name) }, types.NamespacedName.String), admitted
}

// try is a pass that asks for a place without a notice.
func (l *Limiter) try(id int) bool { return l.ask(id, 0, nil) }

func (l *Limiter) ask(id, rank int, notice func(string)) bool {
	if l.Acquire(serviceKey(id), Services, rank, notice) {
		return true
	}
	l.End(serviceKey(id))
	return false
}

// Waiting ones are admitted by rank, and in the order in which they asked. Who asks again keeps its place, and the lowest of its ranks.
func TestWriteLimiterOrder(t *testing.T) {
	l, admitted := limiterOf(1)
	if !l.try(9) {
		t.Fatal("the only place is free, and was not given")
	}
	ranks := map[int]int{0: 2, 1: 2, 3: 1}
	for id := range 6 {
		if l.ask(id, ranks[id], nil) {
			t.Fatalf("%d has got a place that another one has", id)
		}
	}
	l.try(1) // has changed
	for _, id := range []int{2, 5} {
		l.ask(id, 1, nil)
	}
	for writer := 9; len(*admitted) < 6; {
		l.Release(serviceKey(writer))
		writer = int((*admitted)[len(*admitted)-1][0] - '0')
		if !l.try(writer) {
			t.Fatalf("%d was admitted and has got no place", writer)
		}
	}
	if want := []string{"1", "2", "4", "5", "3", "0"}; !slices.Equal(*admitted, want) {
		t.Errorf("admitted %v, want %v", *admitted, want)
	}
}

// One of a high rank is admitted although there is no end of lower ones.
func TestWaitingIsBounded(t *testing.T) {
	l, admitted := limiterOf(1)
	l.try(0)
	l.ask(1, 1, nil)
	for writer, next := 0, 2; !slices.Contains(*admitted, "1"); writer, next = next, next+1 {
		if len(*admitted) > oldestEvery {
			t.Fatalf("%d others were admitted before it, want at most %d", len(*admitted), oldestEvery-1)
		}
		l.try(next)
		l.Release(serviceKey(writer))
		if !slices.Contains(*admitted, "1") && !l.try(next) {
			t.Fatalf("%d was admitted and has got no place", next)
		}
	}
}

// A change of a Service waits for one change of targets where both have the same places, as it would not from the reference, and the other way round.
func TestKindsTakeTurns(t *testing.T) {
	l, admitted := limiterOf(1)
	l.pools = l.pools[:1]
	kinds := []Pool{Targets, Targets, Targets, Targets, Services, Services}
	for id, kind := range kinds {
		if !l.Acquire(serviceKey(id), kind, 0, nil) {
			l.End(serviceKey(id))
		}
	}
	for writer := 0; len(*admitted) < len(kinds)-1; {
		l.Release(serviceKey(writer))
		writer = int((*admitted)[len(*admitted)-1][0] - '0')
		l.Acquire(serviceKey(writer), kinds[writer], 0, nil)
	}
	if want := []string{"4", "1", "5", "2", "3"}; !slices.Equal(*admitted, want) {
		t.Errorf("admitted %v, want %v", *admitted, want)
	}
}

// A place that is reserved is taken by no other one: what was admitted has been passed for the last time.
func TestWriteLimiterKeepsAReservedPlace(t *testing.T) {
	l, admitted := limiterOf(1)
	l.try(0)
	l.ask(1, 1, nil)
	l.Release(serviceKey(0))
	if l.try(2) {
		t.Error("the reserved place was given to another one")
	}
	if !l.try(1) {
		t.Error("the one that was admitted has got no place")
	}
	l.Release(serviceKey(1))
	if want := []string{"1", "2"}; !slices.Equal(*admitted, want) {
		t.Errorf("admitted %v, want %v", *admitted, want)
	}
}

// One that was admitted and no longer wants to write gives its place to the next, and one that waits waits no more.
func TestWriteLimiterEnd(t *testing.T) {
	l, admitted := limiterOf(1)
	for id := range 5 {
		l.try(id)
	}
	l.End(serviceKey(2))
	l.Release(serviceKey(0))
	l.End(serviceKey(1))
	l.End(serviceKey(7)) // has never asked
	if want := []string{"1", "3"}; !slices.Equal(*admitted, want) || l.CountWaiting() != 1 {
		t.Errorf("admitted %v, want %v; %d wait, want 1", *admitted, want, l.CountWaiting())
	}
}

// One that writes elsewhere is admitted only after that, with its old turn, and a place that was reserved for it goes to the next one.
func TestWriteLimiterHold(t *testing.T) {
	l, admitted := limiterOf(1)
	for id := range 4 {
		l.try(id)
	}
	elsewhere := func(id int) { l.Acquire(serviceKey(id), Targets, 0, nil) }
	elsewhere(1)
	l.Release(serviceKey(0)) // 2 is admitted
	l.pools[1].places++
	elsewhere(2) // 3 is admitted instead
	l.try(3)
	l.Release(serviceKey(3))
	if want := []string{"2", "3"}; !slices.Equal(*admitted, want) || l.CountWaiting() != 2 {
		t.Errorf("admitted %v while two write elsewhere, want %v; %d wait", *admitted, want, l.CountWaiting())
	}
	l.try(4)
	l.Release(serviceKey(2))
	l.Release(serviceKey(1))
	l.Release(serviceKey(4))
	if want := []string{"2", "3", "1"}; !slices.Equal(*admitted, want) {
		t.Errorf("admitted %v after that, want %v", *admitted, want)
	}
}

// Who waits for long gets one notice of that; who no longer waits is not.
func TestWriteLimiterNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := limiterOf(2)
		l.try(0)
		time.Sleep(time.Minute)
		l.try(1)
		notices := make(chan string, 100)
		for id := 2; id < 6; id++ {
			if l.ask(id, 0, func(message string) { notices <- fmt.Sprint(id, message) }) {
				t.Fatal("there is no place for it")
			}
		}
		l.ask(3, 0, func(string) { t.Error("two notices of one wait") })
		l.End(serviceKey(4))
		time.Sleep(kit.Moment - 1)
		l.Release(serviceKey(0)) // 2 is admitted
		if len(notices) != 0 {
			t.Errorf("a notice before %s are over: %s", kit.Moment, <-notices)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		close(notices)
		var got []string
		for notice := range notices {
			got = append(got, notice)
		}
		slices.Sort(got)
		if len(got) != 2 || !strings.HasPrefix(got[0], "3") || !strings.HasPrefix(got[1], "5") {
			t.Fatalf("notices %q, want one for each waiting call", got)
		}
		for _, want := range []string{"at most 2 at a time", " /1 since 2000-01-01T00:01:00Z", "1 about to begin", "Others that wait: 1"} {
			if !strings.Contains(got[1], want) {
				t.Errorf("notice %q, want %q in it", got[1], want)
			}
		}
	})
}

// There are never more writes than places, and none waits while a place is neither taken nor reserved.
func TestWriteLimiterNeverStalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.IntRange(1, 3).Draw(t, "places")
		l, _ := limiterOf(places)
		writing := map[int]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := rapid.IntRange(0, 6).Draw(t, "who")
			switch {
			case writing[id] && rapid.Bool().Draw(t, "is done"):
				l.Release(serviceKey(id))
				l.End(serviceKey(id))
				delete(writing, id)
			case !writing[id] && rapid.IntRange(0, 3).Draw(t, "asks") > 0:
				if l.ask(id, rapid.IntRange(0, 2).Draw(t, "rank"), nil) {
					writing[id] = true
				}
			case !writing[id]:
				l.End(serviceKey(id))
			}
			if len(writing) > places || len(l.writing) != len(writing) {
				t.Fatalf("%d write, the limiter says %d, it has %d places", len(writing), len(l.writing), places)
			}
			if l.CountWaiting() > 0 && len(l.writing)+len(l.pools[Services].admitted) < places {
				t.Fatalf("%d wait, %d write and %d were admitted for %d places", l.CountWaiting(), len(l.writing), len(l.pools[Services].admitted), places)
			}
		}
	})
}

// A place that comes free while the pass of a waiter writes in the other pool is kept for it when that pass ends.
func TestWriteLimiterAdmitsDuringAPass(t *testing.T) {
	l, admitted := limiterOf(1)
	l.try(0)
	l.Acquire(serviceKey(1), Services, 0, nil)
	l.Acquire(serviceKey(1), Targets, 0, nil)
	l.Release(serviceKey(0))
	l.Release(serviceKey(1))
	l.End(serviceKey(1))
	if want := []string{"1"}; !slices.Equal(*admitted, want) || l.try(2) {
		t.Errorf("admitted %v, want %v, whose place is given to none", *admitted, want)
	}
}
