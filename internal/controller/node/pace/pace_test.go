package pace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

var (
	epoch       = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	defaultPace = New(5*time.Minute, 6*time.Hour)
)

// Two of the reasons that only who watches nodes knows.
const needReady, needChanged Cause = "ready", "changed"

// The pause grows with the time since which nothing has happened, from the shortest to the longest doubling that the period holds.
func TestPausesDouble(t *testing.T) {
	const m, hour, day = time.Minute, time.Hour, 24 * time.Hour
	for name, test := range map[string]struct {
		longest, quiet time.Duration
		want           time.Duration
	}{
		"something happens just now":        {6 * hour, 0, 5 * m},
		"by a clock that is ahead":          {6 * hour, -time.Minute, 5 * m},
		"less than two pauses ago":          {6 * hour, 4 * m, 5 * m},
		"19 minutes ago":                    {6 * hour, 19 * m, 10 * m},
		"an hour ago":                       {6 * hour, 65 * m, 40 * m},
		"a day ago":                         {6 * hour, day, 320 * m},
		"years ago":                         {6 * hour, 9000 * day, 320 * m},
		"years ago, a period of doublings":  {80 * m, 9000 * day, 80 * m},
		"years ago, hardly more than once":  {9 * m, 9000 * day, 5 * m},
		"years ago, a period of many years": {100_000 * day, 50 * day, 5 * m << 13},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(5*m, test.longest)
			for i := range 50 {
				at := next(epoch, test.want, phaseOf(uid(i)))
				last, settled := at.Add(-test.want), at.Add(-test.quiet)
				if got := p.slot(last, settled, uid(i), test.longest); !got.Equal(at) && !settled.After(last) {
					t.Fatalf("node %d: after %s the pause is %s, want %s", i, test.quiet, got.Sub(last), test.want)
				}
				if got := p.slot(last, settled, uid(i), test.longest); got.Sub(last) > 2*test.want {
					t.Fatalf("node %d: after %s the pause is %s, want about %s", i, test.quiet, got.Sub(last), test.want)
				}
			}
		})
	}
}

func uid(i int) types.UID { return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)) }

// What is due follows from a node's history.
func TestDue(t *testing.T) {
	const m, hour = time.Minute, time.Hour
	at := func(ago time.Duration) time.Time { return epoch.Add(-ago) }
	old := at(1000 * hour)
	for name, test := range map[string]struct {
		history     History
		settled     time.Time
		least, most time.Duration // from now
		why         Cause
	}{
		"a node that was never looked up":     {history: History{since: epoch}, settled: old, least: 1, most: FirstRound, why: First},
		"a young one":                         {history: History{since: epoch}, settled: at(m), least: 1, most: FirstRound, why: First},
		"one that has just joined":            {history: History{since: epoch, joined: true}, settled: epoch, least: m, most: 5 * m, why: Age},
		"an old node":                         {history: History{since: old, began: epoch}, settled: old, least: 5 * m, most: 320 * m, why: Age},
		"a young node":                        {history: History{since: old, began: epoch}, settled: epoch, least: 5 * m, most: 5 * m, why: Age},
		"an old one that has become young":    {history: History{since: old, began: at(5 * hour)}, settled: epoch, least: 1, most: 5 * m, why: Age},
		"settled by a clock that is ahead":    {history: History{since: old, began: epoch}, settled: at(-1000 * hour), least: 5 * m, most: 320 * m, why: Age},
		"a need after a long time":            {history: History{since: old, began: at(3 * hour), need: needReady, needed: epoch, spent: at(3*hour - 5*m)}, settled: epoch, why: needReady},
		"a need a moment after a lookup":      {history: History{since: old, began: at(m), need: needReady, needed: epoch, spent: at(-4 * m)}, settled: epoch, why: needReady},
		"another need a moment later":         {history: History{since: old, began: at(m), need: needReady, needed: epoch, spent: at(-9 * m)}, settled: epoch, least: 4 * m, most: 4 * m, why: needReady},
		"a need of a node never looked up":    {history: History{since: at(m), need: needChanged, needed: epoch}, settled: old, why: needChanged},
		"a failure":                           {history: History{since: old, began: at(m), failed: true, retry: at(-2 * m)}, settled: old, least: 2 * m, most: 2 * m, why: Retry},
		"a need of a node whose lookups fail": {history: History{since: old, began: at(m), failed: true, retry: at(-2 * m), need: needReady, needed: epoch}, settled: old, least: 2 * m, most: 2 * m, why: Retry},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range 50 {
				test.history.uid = uid(i)
				before := test.history
				before.need = ""
				if due, _ := defaultPace.Due(before, old); !due.After(epoch) && !before.failed {
					continue // it was looked up meanwhile
				}
				due, why := defaultPace.Due(test.history, test.settled)
				if wait := due.Sub(epoch); wait < test.least || wait > test.most || why != test.why {
					t.Fatalf("node %d is due after %s because of %q, want %s to %s because of %q", i, wait, why, test.least, test.most, test.why)
				}
			}
		})
	}
}

func TestSettled(t *testing.T) {
	created, ready, changed := epoch, epoch.Add(time.Hour), epoch.Add(2*time.Hour)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}
	if got := new(History).Settled(node); !got.Equal(created) {
		t.Errorf("a node without conditions is settled since %s, want its creation", got)
	}
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, LastTransitionTime: metav1.NewTime(changed)}, {Type: corev1.NodeReady, LastTransitionTime: metav1.NewTime(ready)},
	}
	if got := new(History).Settled(node); !got.Equal(ready) {
		t.Errorf("a node is settled since %s, want the transition of its readiness", got)
	}
	if got := (&History{changed: changed}).Settled(node); !got.Equal(changed) {
		t.Errorf("a node is settled since %s, want the last difference", got)
	}
}

// watched is an observer that knows no pauses: when nodes were looked up, and for which.
type watched struct {
	all  []time.Time
	each map[int][]time.Time
}

// live has nodes be looked up when they are due, for a time after they joined or after a change of leader, each by an answer that shows nothing new.
func live(p Pace, settled []time.Time, joined bool, from time.Time, lasts time.Duration) watched {
	seen := watched{each: map[int][]time.Time{}}
	for i := range settled {
		h := History{uid: uid(i), since: from, joined: joined}
		for {
			at, _ := p.Due(h, settled[i])
			if at.Sub(from) >= lasts {
				break
			}
			h.Begin(p, at)
			h.End(defaultPace, at, false, true)
			seen.all, seen.each[i] = append(seen.all, at), append(seen.each[i], at)
		}
	}
	slices.SortFunc(seen.all, time.Time.Compare)
	return seen
}

// most returns the most lookups within any time of a length, of those from a time on.
func (w watched) most(within time.Duration, from time.Time) (most int) {
	first := 0
	for last := range w.all {
		for w.all[first].Before(from) || w.all[last].Sub(w.all[first]) >= within {
			if first == last {
				break
			}
			first++
		}
		if !w.all[last].Before(from) {
			most = max(most, last-first+1)
		}
	}
	return most
}

// longest returns the longest time without a lookup of one node.
func (w watched) longest(from time.Time, lasts time.Duration) (longest time.Duration) {
	for _, times := range w.each {
		last := from
		for _, at := range append(times, from.Add(lasts)) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	return longest
}

// 5,000 nodes of any ages cost at most 1,500 calls in any hour after the first, and each is looked up within the full period.
func TestADayOf5000Nodes(t *testing.T) {
	const nodes, day = 5000, 24 * time.Hour
	for seed, days := range []int{1, 1, 2, 3, 7, 30, 100, 400} {
		t.Run(fmt.Sprintf("up to %d days old, %d", days, seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 0))
			from := epoch.Add(time.Duration(random.Int64N(int64(day))))
			settled := make([]time.Time, nodes)
			for i := range settled {
				settled[i] = from.Add(-time.Duration(random.Int64N(int64(days) * int64(day))))
			}
			seen := live(defaultPace, settled, false, from, day)
			if got := seen.most(time.Hour, from.Add(time.Hour)); got > 1500 || got < nodes/6 {
				t.Errorf("%d calls in an hour of %d nodes, want at most 1,500", got, nodes)
			}
			if len(seen.each) != nodes {
				t.Fatalf("%d nodes were looked up, want all", len(seen.each))
			}
			if got := seen.longest(from, day); got > defaultPace.Longest {
				t.Errorf("a node was not looked up for %s, want at most %s", got, defaultPace.Longest)
			}
			for i, times := range seen.each {
				if times[0].Sub(from) > FirstRound {
					t.Errorf("node %d was looked up first after %s, want at most %s", i, times[0].Sub(from), FirstRound)
				}
			}
		})
	}
}

// Nodes of one age do not become due together, whether they have joined together just now or are old.
func TestNodesOfOneAgeAreSpread(t *testing.T) {
	const nodes = 5000
	for name, test := range map[string]struct {
		age    time.Duration
		joined bool
		after  time.Duration // from when on the bound holds
		most   int           // lookups a minute
	}{
		"just joined: never more than a fourth":  {0, true, 0, nodes/4 + 100},
		"just joined, an hour later":             {0, true, time.Hour, 2 * nodes / 40},
		"just joined, half a day later":          {0, true, 12 * time.Hour, 2 * nodes / 320},
		"old, when the first round has ended":    {1000 * time.Hour, false, time.Minute, 6 * nodes / 320},
		"old, an hour later":                     {1000 * time.Hour, false, time.Hour, 2 * nodes / 320},
		"an hour old, when the first has ended":  {time.Hour, false, time.Minute, 6 * nodes / 40},
		"all of them a day old, after two hours": {24 * time.Hour, false, 2 * time.Hour, 2 * nodes / 320},
	} {
		t.Run(name, func(t *testing.T) {
			settled := make([]time.Time, nodes)
			for i := range settled {
				settled[i] = epoch.Add(-test.age)
			}
			seen := live(defaultPace, settled, test.joined, epoch, 24*time.Hour)
			if got := seen.most(time.Minute, epoch.Add(test.after)); got > test.most || got == 0 {
				t.Errorf("%d lookups within a minute, want at most %d", got, test.most)
			}
		})
	}
}

// Whatever happens to a node and however often, it is looked up once in each shortest pause in the long run, and once more; what fails is
// retried at pauses that grow to the shortest.
func TestLookupsOfOneNodeAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New(5*time.Minute, 6*time.Hour)
		h := History{uid: uid(rapid.IntRange(0, 1000).Draw(t, "node")), since: epoch}
		var lookups []time.Time
		for now, end := epoch, epoch.Add(5*time.Hour); now.Before(end); {
			if at, _ := p.Due(h, h.changed); !at.After(now) {
				h.Begin(p, now)
				lookups = append(lookups, now)
				h.End(defaultPace, now, false, rapid.Bool().Draw(t, "as it should be"))
			}
			if rapid.Bool().Draw(t, "happens") {
				h.Note(needReady, now)
			}
			now = now.Add(time.Duration(rapid.Int64Range(1, int64(3*time.Minute)).Draw(t, "passes")))
		}
		for i := range lookups {
			for j := i; j < len(lookups); j++ {
				if within := lookups[j].Sub(lookups[i]); j-i+1 > int(within/p.Shortest)+2 {
					t.Fatalf("%d lookups within %s", j-i+1, within)
				}
			}
		}
	})
}

// What fails is repeated after the shortest pause, and what succeeds is due by its age again.
func TestFailuresAreRetried(t *testing.T) {
	h, now := History{uid: uid(0), since: epoch.Add(-time.Hour)}, epoch
	for failure := range 13 {
		h.Begin(defaultPace, now)
		h.End(defaultPace, now, true, false)
		at, why := defaultPace.Due(h, now)
		if want := defaultPace.Shortest; why != Retry || at.Sub(now) != want {
			t.Fatalf("after %d failures it is due in %s because of %q, want %s", failure+1, at.Sub(now), why, want)
		}
		now = at
	}
	h.Begin(defaultPace, now)
	h.End(defaultPace, now, false, true)
	if _, why := defaultPace.Due(h, now); why != Age {
		t.Errorf("after a success the reason is %q", why)
	}
}
