package node

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

// passed has a pass over a node end.
func (s *state) passed(node *corev1.Node, ended result, now time.Time) next {
	s.begin(node, now)
	return s.ended(node, ended, now)
}

func TestPausesAreTheReferencesAndHeedTheCloud(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want time.Duration // within a tenth
	}{
		"plain":                      {errors.New("x"), 5 * time.Millisecond},
		"terminal, like any other":   {&provider.TerminalError{Err: errors.New("x")}, 5 * time.Millisecond},
		"retry after":                {&provider.ThrottledError{RetryAfter: time.Minute, Err: errors.New("x")}, time.Minute},
		"retry after less":           {&provider.ThrottledError{RetryAfter: time.Millisecond, Err: errors.New("x")}, 5 * time.Millisecond},
		"retry after far too long":   {&provider.ThrottledError{RetryAfter: 1000 * time.Hour, Err: errors.New("x")}, classify.MaxRetryAfter},
		"a listing, which is shared": {&instances.ListingError{Err: provider.Throttled(time.Hour, errors.New("x"))}, 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			state := newState()
			if delay := state.passed(newNode(), result{kind: failed, err: test.err}, time.Unix(0, 0)).pause; delay < test.want || delay > test.want+test.want/10 {
				t.Errorf("pause %s, want %s", delay, test.want)
			}
			for range 30 {
				state.passed(newNode(), result{kind: failed, err: test.err}, time.Unix(0, 0))
			}
			state.passed(newNode(), result{kind: refreshed}, time.Unix(0, 0))
			if delay := state.passed(newNode(), result{kind: failed, err: test.err}, time.Unix(0, 0)).pause; delay < test.want || delay > test.want+test.want/10 {
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
		if got := state.get(node.UID).answerAge(node, func() time.Duration { return listing }, now); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	check("unknown", start, minAnswerAge)
	state.changed(node, start)
	check("at once", start, minAnswerAge)
	listing = 500 * time.Millisecond
	check("at once, by a listing that is dear", start, 20*time.Second)
	listing = time.Minute
	check("at once, by a listing that is too dear", start, maxAnswerAge/2)
	check("after a while in the queue", start.Add(40*time.Second), 40*time.Second)
	check("after very long in the queue", start.Add(time.Hour), maxAnswerAge)
	state.passed(node, result{kind: failed, err: errors.New("x")}, start.Add(30*time.Second))
	check("after a failure", start.Add(33*time.Second), 3*time.Second)
	state.passed(node, result{kind: waits}, start.Add(40*time.Second))
	check("after it was left alone", start.Add(44*time.Second), 4*time.Second)
	state.changed(node, start.Add(50*time.Second))
	check("after it has changed", start.Add(51*time.Second), maxAnswerAge/2)
}

func TestAnAnswerByNameIsFromAfterTheNodeAppeared(t *testing.T) {
	state, node, start := newState(), newNode(), time.Unix(1000, 0)
	halfASecond := func() time.Duration { return 500 * time.Millisecond }
	check := func(when string, now time.Time, want time.Duration) {
		t.Helper()
		if got := state.get(node.UID).answerAge(node, halfASecond, now); got != want {
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
	state.passed(node, result{kind: failed, err: errors.New("x")}, start.Add(50*time.Second))
	check("after a failure", start.Add(53*time.Second), 3*time.Second)
	state.changed(node, start.Add(time.Hour))
	check("after very long", start.Add(time.Hour), 20*time.Second)
	recreated := newNode(func(n *corev1.Node) { n.UID = "uid-1" })
	state.changed(recreated, start.Add(time.Hour))
	if got := state.get(recreated.UID).answerAge(recreated, halfASecond, start.Add(time.Hour)); got != 0 {
		t.Errorf("another node of the same name: %s, want 0", got)
	}
}

func TestAnotherNodeOfTheSameNameStartsAfresh(t *testing.T) {
	state, node := newState(), newNode()
	for range 5 {
		state.passed(node, result{kind: failed, err: errors.New("x")}, time.Unix(0, 0))
	}
	state.passed(node, result{kind: failed, err: errors.New("x"), wrote: "100"}, time.Unix(0, 0))
	recreated := newNode(func(n *corev1.Node) { n.UID, n.ResourceVersion = "uid-1", "50" })
	if _, over, _ := state.begin(recreated, time.Unix(0, 0)); over {
		t.Error("a new node is taken for an old copy")
	}
	if delay := state.passed(recreated, result{kind: failed, err: errors.New("x")}, time.Unix(0, 0)).pause; delay > 6*time.Millisecond {
		t.Errorf("pause %s, want that after a first failure", delay)
	}
}

func TestACopyOlderThanOurOwnWriteIsStale(t *testing.T) {
	state := newState()
	at := func(version string) *corev1.Node {
		return newNode(func(n *corev1.Node) { n.ResourceVersion = version })
	}
	if _, stale, _ := state.begin(at("1"), time.Unix(0, 0)); stale {
		t.Error("stale before we wrote anything")
	}
	state.passed(at("99"), result{kind: mismatched, err: errors.New("x"), wrote: "100"}, time.Unix(0, 0))
	for version, want := range map[string]bool{"99": true, "100": false, "101": false, "9": true, "1000": false} {
		if _, got, _ := state.begin(at(version), time.Unix(0, 0)); got != want {
			t.Errorf("version %s after our write of 100: stale %t, want %t", version, got, want)
		}
	}
	if _, stale, _ := state.begin(at("99"), time.Unix(0, 0).Add(kit.MaxCacheLag)); stale {
		t.Error("a copy that is older forever is left alone forever")
	}
	state.forget("uid-0")
	if _, stale, _ := state.begin(at("99"), time.Unix(0, 0)); stale {
		t.Error("stale after it was forgotten")
	}
}

// A watch that is cut for a minute: the node is looked at a few times, not fifty times a second, also after the next write.
func TestACacheThatLagsIsLookedAtSeldom(t *testing.T) {
	state := newState()
	at := func(version string) *corev1.Node {
		return newNode(func(n *corev1.Node) { n.ResourceVersion = version })
	}
	state.passed(at("99"), result{kind: refreshed, wrote: "100"}, time.Unix(0, 0))
	passes, last := 0, time.Duration(0)
	for waited := time.Duration(0); waited < time.Minute; passes++ {
		_, stale, delay := state.begin(at("99"), time.Unix(0, 0))
		if !stale || delay < last || delay > kit.ConflictBackoff.Longest {
			t.Fatalf("pass %d: stale %t, the pause is %s after one of %s", passes, stale, delay, last)
		}
		last = delay
		waited += delay
	}
	if passes > 25 {
		t.Errorf("%d passes in a minute", passes)
	}
	state.passed(at("101"), result{kind: refreshed, wrote: "102"}, time.Unix(0, 0))
	if _, stale, delay := state.begin(at("101"), time.Unix(0, 0)); !stale || delay != kit.ConflictBackoff.Longest {
		t.Errorf("after the next write: stale %t, the pause is %s, want %s", stale, delay, kit.ConflictBackoff.Longest)
	}
	if _, stale, _ := state.begin(at("103"), time.Unix(0, 0)); stale {
		t.Error("stale although the cache has caught up")
	}
}

func TestConflictsAreRetriedSoonAndNotForEver(t *testing.T) {
	state, node := newState(), newNode()
	conflicts := func() next {
		return state.passed(node, result{kind: overtaken, err: errors.New("conflict")}, time.Unix(0, 0))
	}
	total := time.Duration(0)
	for i := range kit.MaxConflicts {
		follows := conflicts()
		if total += follows.pause; follows.failure != nil {
			t.Fatalf("conflict %d counts as a failure", i+1)
		}
	}
	if total > 2*time.Second {
		t.Errorf("%d conflicts take %s", kit.MaxConflicts, total)
	}
	if conflicts().failure == nil {
		t.Errorf("conflict %d does not count as a failure", kit.MaxConflicts+1)
	}
	state.passed(node, result{kind: failed, err: errors.New("x")}, time.Unix(0, 0))
	if conflicts().failure != nil {
		t.Error("a first conflict after a failure counts as one")
	}
}

// A pass that our own write brings has nothing to do. A node to which nothing happens has no row.
func TestTheCacheShowsWhatOurOwnWriteLeft(t *testing.T) {
	at := func(version string) *corev1.Node {
		return newNode(func(n *corev1.Node) { n.ResourceVersion = version })
	}
	for name, test := range map[string]struct {
		ended result
		shows string
		over  bool
	}{
		"all was written":        {result{kind: initialized, wrote: "2"}, "2", true},
		"another writer came":    {result{kind: initialized, wrote: "2"}, "3", false},
		"something was left":     {result{kind: initialized, wrote: "2", withoutAddresses: errors.New("x")}, "2", false},
		"the rest does not fit":  {result{kind: mismatched, wrote: "2", err: errors.New("x")}, "2", false},
		"nothing was written":    {result{kind: refreshed}, "1", false},
		"the write was too late": {result{kind: overtaken, wrote: "2", err: errors.New("x")}, "2", false},
	} {
		t.Run(name, func(t *testing.T) {
			state, now := newState(), time.Unix(0, 0)
			state.changed(at("1"), now)
			state.passed(at("1"), test.ended, now)
			if _, over, pause := state.begin(at(test.shows), now); over != test.over || pause != 0 {
				t.Errorf("the pass is over: %t, pause %s; want %t", over, pause, test.over)
			}
			if _, over, _ := state.begin(at("4"), now); over {
				t.Error("a pass is over although the node has changed")
			}
			state.ended(at(test.shows), result{kind: refreshed}, now)
			if len(state.rows) > 0 {
				t.Errorf("there is still the row %+v", state.rows["uid-0"])
			}
		})
	}
}

// What differs from an answer after it was written, others have written, also where the answer did not fit in full.
func TestAnAnswerIsWrittenOnce(t *testing.T) {
	for name, ended := range map[string]result{
		"all of it": {kind: refreshed, wrote: "2"}, "what fits": {kind: mismatched, wrote: "2", err: errors.New("x")},
	} {
		state, node, now := newState(), newNode(), time.Unix(100, 0)
		ended.sought = now.Add(-time.Second)
		state.passed(node, ended, now)
		if known := state.get(node.UID); !known.writtenFrom.Equal(ended.sought) {
			t.Errorf("%s: the node was written from the answer of %v, want %v", name, known.writtenFrom, ended.sought)
		}
	}
}

// A node that was deleted during a pass leaves nothing behind.
func TestADeletedNodeHasNoRow(t *testing.T) {
	state, node, now := newState(), newNode(), time.Unix(0, 0)
	state.begin(node, now)
	state.forget(node.UID)
	state.ended(node, result{kind: failed, err: &instances.ListingError{Err: errors.New("x")}}, now)
	if len(state.rows) > 0 || state.retries.NumRequeues(node.UID) != 0 {
		t.Errorf("rows %v and %d failures", state.rows, state.retries.NumRequeues(node.UID))
	}
}
