package service

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// passenger is the name of somebody in a lane.
func passenger(id int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint(id)} }

// laneOf returns a lane, and where it notes whom it wakes.
func laneOf(places int) (*lane, *[]string) {
	woken := &[]string{}
	return newLane(places, func(key types.NamespacedName, _ int) { *woken = append(*woken, key.Name) }), woken
}

// Turns come by priority, and among those of equal priority in the order in which they asked.
func TestLaneOrder(t *testing.T) {
	l, woken := laneOf(1)
	if !l.enter(passenger(9), 0) {
		t.Fatal("the lane is empty, and nobody may enter")
	}
	for id, priority := range []int{0, 5, 0, 9, 5} {
		if l.enter(passenger(id), priority) {
			t.Fatalf("%d has entered a lane with one place", id)
		}
	}
	l.enter(passenger(2), 7) // has become more urgent
	for range 5 {
		l.leave()
		last := (*woken)[len(*woken)-1]
		if !l.enter(types.NamespacedName{Name: last}, 9) {
			t.Fatalf("%s was woken and may not enter", last)
		}
	}
	if want := []string{"3", "2", "1", "4", "0"}; !slices.Equal(*woken, want) {
		t.Errorf("woken %v, want %v", *woken, want)
	}
}

// Who comes later with a higher priority passes who was woken already.
func TestLaneIsNotTakenFromTheMoreUrgent(t *testing.T) {
	l, woken := laneOf(1)
	l.enter(passenger(0), 0)
	l.enter(passenger(1), 0)
	l.leave()
	if l.enter(passenger(2), 5) {
		t.Error("the place that is kept for the woken one was taken")
	}
	if l.enter(passenger(1), 0) {
		t.Error("the less urgent one has entered")
	}
	if want := []string{"1", "2"}; !slices.Equal(*woken, want) || !l.enter(passenger(2), 5) {
		t.Errorf("woken %v, want %v", *woken, want)
	}
}

// Who was woken and does not want to enter any more passes the turn on.
func TestLanePassesOn(t *testing.T) {
	l, woken := laneOf(1)
	for id := range 3 {
		l.enter(passenger(id), 0)
	}
	l.leave()
	l.ended(passenger(1))
	l.ended(passenger(7)) // was never woken
	if want := []string{"1", "2"}; !slices.Equal(*woken, want) {
		t.Errorf("woken %v, want %v", *woken, want)
	}
}

func TestLaneHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, woken := laneOf(2)
		l.hold(time.Minute)
		l.hold(time.Second) // a shorter wait does not take back a longer one
		for id := range 3 {
			if l.enter(passenger(id), id) {
				t.Error("somebody has entered a lane that is held")
			}
		}
		time.Sleep(time.Minute - 1)
		seen := func() []string {
			l.mu.Lock()
			defer l.mu.Unlock()
			return slices.Clone(*woken)
		}
		if got := seen(); len(got) != 0 {
			t.Errorf("%v were woken too early", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got, want := seen(), []string{"2", "1"}; !slices.Equal(got, want) {
			t.Errorf("woken %v, want %v", got, want)
		}
		l.hold(time.Hour)
		if held := time.Until(l.heldUntil); held != maxHold {
			t.Errorf("held for %s, want at most %s", held, maxHold)
		}
		l.stop()
	})
}

// There are never more in the lane than it has places, and never somebody waiting while a place is free and nobody was woken.
func TestLaneNeverStalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.IntRange(1, 3).Draw(t, "places")
		l, _ := laneOf(places)
		inside := map[int]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := rapid.IntRange(0, 6).Draw(t, "who")
			switch {
			case inside[id] && rapid.Bool().Draw(t, "leaves"):
				l.leave()
				l.ended(passenger(id))
				delete(inside, id)
			case !inside[id] && rapid.IntRange(0, 3).Draw(t, "asks") > 0:
				if l.enter(passenger(id), rapid.IntRange(0, 2).Draw(t, "priority")) {
					inside[id] = true
				} else {
					l.ended(passenger(id))
				}
			case !inside[id]:
				l.ended(passenger(id))
			}
			if len(inside) > places || l.inside != len(inside) {
				t.Fatalf("%d are inside, the lane says %d, it has %d places", len(inside), l.inside, places)
			}
			if l.waiting() > 0 && l.inside+len(l.woken) < places {
				t.Fatalf("%d wait, %d are inside and %d were woken for %d places", l.waiting(), l.inside, len(l.woken), places)
			}
		}
	})
}
