package writelimit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// The priorities of the service controller, the most urgent first.
const (
	priorityRemove   = 100
	priorityNew      = 80
	priorityChange   = 60
	priorityRetarget = 40
	priorityRepair   = 20
	priorityRefresh  = -100
	priorityOrphan   = priorityRefresh - 1
)

// serviceKey is the name of a Service by number.
func serviceKey(id int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint(id)} }

// limiterOf returns a write limiter, and where it notes whom it admits.
func limiterOf(places int) (*Limiter, *[]string) {
	admitted := &[]string{}
	return New(places, func(key types.NamespacedName) { *admitted = append(*admitted, key.Name) }), admitted
}

// try asks for a place without a notice.
func (l *Limiter) try(id, priority int) bool {
	return l.Acquire(serviceKey(id), priority, false, nil)
}

// Waiting ones are admitted by priority, and of equal priority in the order in which they asked; the first of them is passed
// as often as it has peers.
func TestWriteLimiterOrder(t *testing.T) {
	l, admitted := limiterOf(1)
	if !l.try(9, 0) {
		t.Fatal("the only place is free, and was not given")
	}
	for id, priority := range []int{0, 0, 0, 0, 5, 5, 9} {
		if l.try(id, priority) {
			t.Fatalf("%d has got a place that another one has", id)
		}
	}
	l.try(2, 7) // has become more urgent
	for writer := 9; len(*admitted) < 7; {
		l.Release(serviceKey(writer))
		writer = int((*admitted)[len(*admitted)-1][0] - '0')
		if !l.try(writer, 0) {
			t.Fatalf("%d was admitted and has got no place", writer)
		}
	}
	// 0 and 1 have three peers each, and are passed three times. 3 is passed by 6, 4 and 5.
	if want := []string{"6", "2", "4", "0", "1", "5", "3"}; !slices.Equal(*admitted, want) {
		t.Errorf("admitted %v, want %v", *admitted, want)
	}
}

// A place that is reserved is taken by no other one: what was admitted has been passed for the last time.
func TestWriteLimiterKeepsAReservedPlace(t *testing.T) {
	l, admitted := limiterOf(1)
	l.try(0, priorityNew)
	l.try(1, priorityRefresh)
	l.Release(serviceKey(0))
	if l.try(2, priorityRemove) {
		t.Error("the reserved place was given to another one")
	}
	if !l.try(1, priorityRefresh) {
		t.Error("the one that was admitted has got no place")
	}
	l.Release(serviceKey(1))
	if want := []string{"1", "2"}; !slices.Equal(*admitted, want) {
		t.Errorf("admitted %v, want %v", *admitted, want)
	}
}

// One that was admitted and no longer wants to write gives its place to the next, and one that waits waits no more.
func TestWriteLimiterCancel(t *testing.T) {
	l, admitted := limiterOf(1)
	for id := range 5 {
		l.try(id, 0)
	}
	l.Cancel(serviceKey(2))
	l.Release(serviceKey(0))
	l.Cancel(serviceKey(1))
	l.Cancel(serviceKey(7)) // has never asked
	if want := []string{"1", "3"}; !slices.Equal(*admitted, want) || l.CountWaiting() != 1 {
		t.Errorf("admitted %v, want %v; %d wait, want 1", *admitted, want, l.CountWaiting())
	}
}

// One that writes elsewhere is admitted only after that, with its old turn, and a place that was reserved for it goes to the next one.
func TestWriteLimiterHold(t *testing.T) {
	l, admitted := limiterOf(1)
	for id := range 4 {
		l.try(id, 0)
	}
	l.Hold(serviceKey(1))
	l.Release(serviceKey(0)) // 2 is admitted
	l.Hold(serviceKey(2))    // 3 is admitted instead
	l.try(3, 0)
	l.Release(serviceKey(3))
	if want := []string{"2", "3"}; !slices.Equal(*admitted, want) || l.CountWaiting() != 2 {
		t.Errorf("admitted %v while two write elsewhere, want %v; %d wait", *admitted, want, l.CountWaiting())
	}
	l.try(4, 0)
	l.Resume(serviceKey(2))
	l.Resume(serviceKey(1))
	l.Release(serviceKey(4))
	if want := []string{"2", "3", "1"}; !slices.Equal(*admitted, want) {
		t.Errorf("admitted %v after that, want %v", *admitted, want)
	}
}

// Who waits for long gets one notice of that; who no longer waits is not.
func TestWriteLimiterNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := limiterOf(2)
		defer l.Stop()
		l.try(0, 0)
		time.Sleep(time.Minute)
		l.try(1, 0)
		notices := make(chan string, 100)
		for id := 2; id < 6; id++ {
			if l.Acquire(serviceKey(id), 0, false, func(message string) { notices <- fmt.Sprint(id, message) }) {
				t.Fatal("there is no place for it")
			}
		}
		l.Acquire(serviceKey(3), 0, false, func(string) { t.Error("two notices of one wait") })
		l.Cancel(serviceKey(4))
		time.Sleep(NoticeAfter - 1)
		l.Release(serviceKey(0)) // 2 is admitted
		if len(notices) != 0 {
			t.Errorf("a notice before %s are over: %s", NoticeAfter, <-notices)
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
				l.Cancel(serviceKey(id))
				delete(writing, id)
			case !writing[id] && rapid.IntRange(0, 3).Draw(t, "asks") > 0:
				if l.Acquire(serviceKey(id), rapid.IntRange(0, 2).Draw(t, "priority"), rapid.Bool().Draw(t, "failed"), nil) {
					writing[id] = true
				}
			case !writing[id]:
				l.Cancel(serviceKey(id))
			}
			if len(writing) > places || len(l.writing) != len(writing) {
				t.Fatalf("%d write, the limiter says %d, it has %d places", len(writing), len(l.writing), places)
			}
			if l.CountWaiting() > 0 && len(l.writing)+len(l.admitted) < places {
				t.Fatalf("%d wait, %d write and %d were admitted for %d places", l.CountWaiting(), len(l.writing), len(l.admitted), places)
			}
		}
	})
}

// wait is what a model of the write limiter knows of a waiter.
type wait struct {
	asked, priority int
	failed          bool
	// before is how many waited when it asked, peers how many of its peers at most waited beside it.
	before, peers int
	// admitted is how many others were admitted since.
	admitted int
}

// arrivals drives a write limiter with Services that ask, write, fail and ask again, and keeps the model.
type arrivals struct {
	*testing.T
	limiter *Limiter
	chance  *rand.Rand
	waits   map[int]*wait
	writing map[int]bool
	// queued are the ones that were admitted and whose pass has not come round.
	queued  []int
	asked   int
	longest int
}

func newArrivals(t *testing.T, places int, seed uint64) *arrivals {
	a := &arrivals{T: t, chance: rand.New(rand.NewPCG(seed, 0)), waits: map[int]*wait{}, writing: map[int]bool{}}
	a.limiter = New(places, func(key types.NamespacedName) {
		id := 0
		_, _ = fmt.Sscan(key.Name, &id)
		a.admitted(id)
	})
	return a
}

// admitted holds an admission against what is promised to everybody who waits.
func (a *arrivals) admitted(id int) {
	next := a.waits[id]
	if next == nil {
		a.Fatalf("%d was admitted and does not wait", id)
	}
	delete(a.waits, id)
	a.queued = append(a.queued, id)
	for other, w := range a.waits {
		w.admitted++
		if w.admitted > w.before+w.peers {
			a.Fatalf("%d has seen %d others admitted; %d waited when it asked, and it had %d peers", other, w.admitted, w.before, w.peers)
		}
		if next.failed && !w.failed && w.asked < next.asked {
			a.Fatalf("%d, which failed, was admitted before %d, which asked before it and did not fail", id, other)
		}
	}
	a.longest = max(a.longest, next.admitted)
}

// ask has a Service ask for a place.
func (a *arrivals) ask(id, priority int, failed bool) {
	if a.limiter.Acquire(serviceKey(id), priority, failed, nil) {
		if a.waits[id] != nil {
			a.Fatalf("%d waits and has got a place without being admitted", id)
		}
		a.writing[id] = true
		return
	}
	if w := a.waits[id]; w != nil {
		w.priority, w.failed = max(w.priority, priority), w.failed && failed
	} else {
		a.waits[id] = &wait{asked: a.asked, priority: priority, failed: failed, before: len(a.waits)}
		a.asked++
	}
	for id, w := range a.waits {
		peers := 0
		for other, beside := range a.waits {
			if other != id && (w.failed || !beside.failed && beside.priority == w.priority) {
				peers++
			}
		}
		w.peers = max(w.peers, peers)
	}
}

// finish ends a write of a Service.
func (a *arrivals) finish(id int) {
	delete(a.writing, id)
	a.limiter.Release(serviceKey(id))
}

// Whatever arrives later, and however often others fail and ask again: a waiter is admitted after at most as many others as
// waited when it asked, and one for each of its peers. One that did not fail is never passed by one that did.
func TestWaitingIsBounded(t *testing.T) {
	priorities := []int{priorityRemove, priorityNew, priorityChange, priorityRetarget, priorityRepair, priorityRefresh, priorityOrphan}
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 1))
			a := newArrivals(t, 1+chance.IntN(3), seed)
			services, crowd := 2+chance.IntN(30), 1+chance.IntN(10)
			for range 600 {
				id := chance.IntN(services)
				switch busy := a.writing[id]; {
				case busy && chance.IntN(crowd) == 0:
					a.finish(id)
				case len(a.queued) > 0 && chance.IntN(2) == 0: // the pass of one that was admitted comes round
					id, a.queued = a.queued[0], a.queued[1:]
					if chance.IntN(10) == 0 {
						a.limiter.Cancel(serviceKey(id)) // and has nothing to write
					} else if a.ask(id, priorityChange, false); !a.writing[id] {
						t.Fatalf("%d was admitted and has got no place", id)
					}
				case !busy && !slices.Contains(a.queued, id):
					a.ask(id, priorities[chance.IntN(len(priorities))], chance.IntN(3) == 0)
				}
			}
		})
	}
}

// One that has no peers waits for the ones that waited before it, and for no others: such is a change of targets while Services
// are created faster than they can be made.
func TestCreationsDoNotPassAChangeOfTargets(t *testing.T) {
	a := newArrivals(t, 1, 0)
	next := 1
	for ; next <= 20; next++ {
		a.ask(next, priorityNew, false)
	}
	a.ask(0, priorityRetarget, false)
	for writer := 1; !a.writing[0]; {
		for range 3 { // for each that is made, three more are created
			a.ask(next, priorityNew, false)
			next++
		}
		a.finish(writer)
		writer, a.queued = a.queued[0], a.queued[1:]
		a.ask(writer, priorityNew, false)
	}
	if a.longest != 19 {
		t.Errorf("%d writes came before it, want those 19 that waited before it", a.longest)
	}
}
