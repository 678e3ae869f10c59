package cloud

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// door is a gate with one place, which is taken, and the calls that come through in their order.
type door struct {
	t     *testing.T
	gate  *gate
	first *waiter
	order []string
}

func newDoor(t *testing.T) *door {
	t.Helper()
	gate := newGate(1, 0, 0, newMetrics(nil))
	first, err := gate.enter(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return &door{t: t, gate: gate, first: first}
}

// wait lets a call wait, which notes its name when it comes through and leaves at once.
func (d *door) wait(ctx context.Context, name string) {
	d.t.Helper()
	go func() {
		w, err := d.gate.enter(ctx, 0)
		if err != nil {
			return
		}
		d.order = append(d.order, name) // one place: never two at once
		d.gate.leave(w, false, 0)
	}()
	synctest.Wait()
}

// open frees the place and returns the order in which calls came through.
func (d *door) open() []string {
	d.gate.leave(d.first, false, 0)
	time.Sleep(time.Minute)
	synctest.Wait()
	return d.order
}

func TestCallsEnterByPriorityThenArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		d.wait(WithPriority(t.Context(), PriorityRefresh), "refresh")
		d.wait(t.Context(), "without one")
		d.wait(WithPriority(t.Context(), PriorityUpdate), "update")
		d.wait(WithPriority(t.Context(), PriorityNewObject), "new Service")
		d.wait(WithPriority(t.Context(), PriorityDeletion), "deletion")
		d.wait(WithPriority(t.Context(), PriorityNewNode), "new node")
		want := []string{"new node", "deletion", "new Service", "without one", "update", "refresh"}
		if diff := cmp.Diff(want, d.open()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestACallThatWaitsCanBeRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		shared := WithPriority(t.Context(), PriorityRefresh)
		child, cancel := context.WithCancel(shared)
		defer cancel()
		d.wait(t.Context(), "update")
		d.wait(child, "shared")
		Raise(child, PriorityNewNode)
		Raise(shared, PriorityUpdate) // which does not lower it
		if diff := cmp.Diff([]string{"shared", "update"}, d.open()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if got := PriorityOf(shared); got != PriorityNewNode {
			t.Errorf("priority = %s, want %s", got, PriorityNewNode)
		}
		if ctx := t.Context(); PriorityOf(ctx) != PriorityUpdate {
			t.Errorf("a context without a priority has %s, want %s", PriorityOf(ctx), PriorityUpdate)
		}
	})
}

func TestTheLowestPriorityIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		d.wait(WithPriority(t.Context(), PriorityRefresh), "refresh")
		for range 100 {
			d.wait(WithPriority(t.Context(), PriorityNewNode), "new node")
		}
		if at := slices.Index(d.open(), "refresh"); at < 0 || at >= fairShare {
			t.Errorf("the refresh came through after %d calls, want fewer than %d", at, fairShare)
		}
	})
}

func TestWhoeverGivesUpLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		own := errors.New("own")
		gone := make(chan error, 1)
		go func() {
			_, err := d.gate.enter(ctx, 0)
			gone <- err
		}()
		synctest.Wait()
		d.wait(t.Context(), "other")
		cancel(own)
		synctest.Wait()
		select {
		case err := <-gone:
			if !errors.Is(err, own) {
				t.Errorf("error = %v, want the cause", err)
			}
		default:
			t.Error("still waiting after its context has ended")
		}
		if diff := cmp.Diff([]string{"other"}, d.open()); diff != "" {
			t.Errorf("came through (-want +got):\n%s", diff)
		}
	})
}

func TestRetryAfterHoldsEverybodyThenOneTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate(64, 0, 0, newMetrics(nil))
		enter := func() *waiter {
			w, err := gate.enter(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		start := time.Now()
		first := enter()
		gate.leave(first, true, 7*time.Second)
		probe := enter()
		if waited := time.Since(start); waited != 7*time.Second {
			t.Errorf("entered %s after a Retry-After of 7 s", waited)
		}
		let := make(chan *waiter, 3)
		for range cap(let) {
			go func() { let <- enter() }()
		}
		time.Sleep(probeTurn / 2)
		if len(let) != 0 {
			t.Errorf("%d more were let in before the first has come back", len(let))
		}
		gate.leave(probe, false, 0)
		time.Sleep(time.Second)
		if len(let) != cap(let) {
			t.Errorf("%d were let in after the first was accepted, want all %d", len(let), cap(let))
		}
	})
}

// TestAProbeThatHangsHoldsNobodyForLong: a write may take minutes.
func TestAProbeThatHangsHoldsNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate(64, 0, 0, newMetrics(nil))
		first, err := gate.enter(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		gate.leave(first, true, time.Second)
		start := time.Now()
		for range 3 { // none of them leaves
			if _, err := gate.enter(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != time.Second+2*probeTurn {
			t.Errorf("three entered in %s, want one a %s after the hold", took, probeTurn)
		}
	})
}

func TestTheOperatorsLimitHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate(64, 10, 5, newMetrics(nil))
		start := time.Now()
		for range 25 {
			w, err := gate.enter(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			gate.leave(w, false, 0)
		}
		if took := time.Since(start); took < 2*time.Second || took > 2100*time.Millisecond {
			t.Errorf("25 calls at 10 a second with a burst of 5 took %s, want 2 s", took)
		}
	})
}
