package node

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

func TestPausesAreTheReferencesAndHeedTheCloud(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want time.Duration // within a tenth
	}{
		"plain":                      {errors.New("x"), 5 * time.Millisecond},
		"terminal, like any other":   {&provider.TerminalError{Err: errors.New("x")}, 5 * time.Millisecond},
		"retry after":                {&provider.ThrottledError{RetryAfter: time.Minute, Err: errors.New("x")}, time.Minute},
		"retry after less":           {&provider.ThrottledError{RetryAfter: time.Millisecond, Err: errors.New("x")}, 5 * time.Millisecond},
		"retry after far too long":   {&provider.ThrottledError{RetryAfter: 1000 * time.Hour, Err: errors.New("x")}, cloud.MaxRetryAfter},
		"a listing, which is shared": {&instances.ListingError{Err: provider.Throttled(time.Hour, errors.New("x"))}, 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			state := newState()
			if delay := state.failed(newNode(), test.err, time.Unix(0, 0)); delay < test.want || delay > test.want+test.want/10 {
				t.Errorf("pause %s, want %s", delay, test.want)
			}
			for range 30 {
				state.failed(newNode(), test.err, time.Unix(0, 0))
			}
			state.succeeded(newNode())
			if delay := state.failed(newNode(), test.err, time.Unix(0, 0)); delay < test.want || delay > test.want+test.want/10 {
				t.Errorf("pause %s after a success, want %s", delay, test.want)
			}
		})
	}
}

func TestAnAnswerIsFreshSinceTheNodeGaveReason(t *testing.T) {
	state, node, start := newState(), newNode(withID("sim://1")), time.Unix(1000, 0)
	var listing time.Duration
	check := func(when string, now time.Time, want time.Duration) {
		t.Helper()
		if got := state.answerAge(node, listing, now); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	check("unknown", start, minAnswerAge)
	state.changed(node, start)
	check("at once", start, minAnswerAge)
	listing = 500 * time.Millisecond
	check("at once, by a listing that is dear", start, 20*time.Second)
	listing = time.Minute
	check("at once, by a listing that is too dear", start, maxListingTrust)
	check("after a while in the queue", start.Add(40*time.Second), 40*time.Second)
	check("after very long in the queue", start.Add(time.Hour), maxAnswerAge)
	state.failed(node, errors.New("x"), start.Add(30*time.Second))
	check("after a failure", start.Add(33*time.Second), 3*time.Second)
	state.waited(node, nil, start.Add(40*time.Second))
	check("after it was left alone", start.Add(44*time.Second), 4*time.Second)
	state.changed(node, start.Add(50*time.Second))
	check("after it has changed", start.Add(51*time.Second), maxListingTrust)
	if got := state.answerAge(newNode(withID("sim://1"), func(n *corev1.Node) { n.UID = "uid-1" }), listing, start.Add(time.Hour)); got != minAnswerAge {
		t.Errorf("another node of the same name: %s, want %s", got, minAnswerAge)
	}
}

func TestAnAnswerByNameIsFromAfterTheNodeAppeared(t *testing.T) {
	state, node, start := newState(), newNode(), time.Unix(1000, 0)
	check := func(when string, now time.Time, want time.Duration) {
		t.Helper()
		if got := state.answerAge(node, 500*time.Millisecond, now); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	check("unknown", start, 0)
	state.changed(node, start)
	check("at once", start, 0)
	check("a second later", start.Add(time.Second), time.Second)
	state.changed(node, start.Add(10*time.Second))
	check("after it has changed", start.Add(11*time.Second), 11*time.Second)
	check("after long in the queue", start.Add(40*time.Second), 30*time.Second)
	state.failed(node, errors.New("x"), start.Add(50*time.Second))
	check("after a failure", start.Add(53*time.Second), 3*time.Second)
	state.changed(node, start.Add(time.Hour))
	check("after very long", start.Add(time.Hour), 20*time.Second)
	recreated := newNode(func(n *corev1.Node) { n.UID = "uid-1" })
	state.changed(recreated, start.Add(time.Hour))
	if got := state.answerAge(recreated, time.Minute, start.Add(time.Hour)); got != 0 {
		t.Errorf("another node of the same name: %s, want 0", got)
	}
}

func TestAnotherNodeOfTheSameNameStartsAfresh(t *testing.T) {
	state, node := newState(), newNode()
	for range 5 {
		state.failed(node, errors.New("x"), time.Unix(0, 0))
	}
	state.wrote(node, "100", time.Unix(0, 0))
	recreated := newNode(func(n *corev1.Node) { n.UID, n.ResourceVersion = "uid-1", "50" })
	if _, stale := state.stale(recreated, time.Unix(0, 0)); stale {
		t.Error("a new node is taken for an old copy")
	}
	if delay := state.failed(recreated, errors.New("x"), time.Unix(0, 0)); delay > 6*time.Millisecond {
		t.Errorf("pause %s, want that after a first failure", delay)
	}
}

func TestACopyOlderThanOurOwnWriteIsStale(t *testing.T) {
	state := newState()
	at := func(version string) *corev1.Node {
		return newNode(func(n *corev1.Node) { n.ResourceVersion = version })
	}
	if _, stale := state.stale(at("1"), time.Unix(0, 0)); stale {
		t.Error("stale before we wrote anything")
	}
	state.wrote(at("99"), "100", time.Unix(0, 0))
	state.succeeded(at("99"))
	for version, want := range map[string]bool{"99": true, "100": false, "101": false, "9": true, "1000": false} {
		if _, got := state.stale(at(version), time.Unix(0, 0)); got != want {
			t.Errorf("version %s after our write of 100: stale %t, want %t", version, got, want)
		}
	}
	if _, stale := state.stale(at("99"), time.Unix(0, 0).Add(kit.MaxCacheLag)); stale {
		t.Error("a copy that is older forever is left alone forever")
	}
	state.forget("node0")
	if _, stale := state.stale(at("99"), time.Unix(0, 0)); stale {
		t.Error("stale after it was forgotten")
	}
}

// A watch that is cut for a minute: the node is looked at a few times, not fifty times a second, and soon again after the next write.
func TestACacheThatLagsIsLookedAtLessAndLessOften(t *testing.T) {
	state := newState()
	at := func(version string) *corev1.Node {
		return newNode(func(n *corev1.Node) { n.ResourceVersion = version })
	}
	state.wrote(at("99"), "100", time.Unix(0, 0))
	passes, last := 0, time.Duration(0)
	for waited := time.Duration(0); waited < time.Minute; passes++ {
		delay, stale := state.stale(at("99"), time.Unix(0, 0))
		if !stale || delay < last || delay > kit.ConflictBackoff.Longest {
			t.Fatalf("pass %d: stale %t, the pause is %s after one of %s", passes, stale, delay, last)
		}
		last = delay
		waited += delay
	}
	if passes > 25 {
		t.Errorf("%d passes in a minute", passes)
	}
	state.wrote(at("100"), "101", time.Unix(0, 0))
	if delay, stale := state.stale(at("100"), time.Unix(0, 0)); !stale || delay != kit.ConflictBackoff.First {
		t.Errorf("after the next write: stale %t, the pause is %s, want %s", stale, delay, kit.ConflictBackoff.First)
	}
	if _, stale := state.stale(at("101"), time.Unix(0, 0)); stale {
		t.Error("stale although the cache has caught up")
	}
}

func TestConflictsAreRetriedSoonAndNotForEver(t *testing.T) {
	state, node := newState(), newNode()
	total := time.Duration(0)
	for i := range kit.MaxConflicts {
		delay, worthIt := state.conflicted(node, nil)
		if total += delay; !worthIt {
			t.Fatalf("conflict %d counts as a failure", i+1)
		}
	}
	if total > 2*time.Second {
		t.Errorf("%d conflicts take %s", kit.MaxConflicts, total)
	}
	if _, worthIt := state.conflicted(node, nil); worthIt {
		t.Errorf("conflict %d does not count as a failure", kit.MaxConflicts+1)
	}
	state.failed(node, errors.New("x"), time.Unix(0, 0))
	if _, worthIt := state.conflicted(node, nil); !worthIt {
		t.Error("a first conflict after a failure counts as one")
	}
}
