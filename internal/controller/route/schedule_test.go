package route

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/provider"
)

// passTimes runs passes that all end alike, and returns when they begin, counted from the first.
func passTimes(p *scheduler, ending result, passes int) []time.Duration {
	now := epoch
	var times []time.Duration
	for range passes {
		now = now.Add(p.early(now))
		p.begin(now)
		times = append(times, now.Sub(epoch))
		now = now.Add(p.end(now, ending))
	}
	return times
}

func seconds(values ...float64) []time.Duration {
	var all []time.Duration
	for _, value := range values {
		all = append(all, time.Duration(value*float64(time.Second)))
	}
	return all
}

func TestComparisonsBecomeRareWhileNothingChanges(t *testing.T) {
	p := newScheduler(DefaultPeriod, DefaultMaxPeriod)
	if diff := cmp.Diff(seconds(0, 30, 90, 210, 450, 750, 1050), passTimes(p, result{}, 7)); diff != "" {
		t.Errorf("idle passes (-want +got):\n%s", diff)
	}
	if got := p.end(epoch, result{changed: true}); got != DefaultPeriod {
		t.Errorf("after a change the next pass is due in %s, want %s", got, DefaultPeriod)
	}
	if got := p.end(epoch, result{}); got != firstIdle {
		t.Errorf("after the first idle pass the next one is due in %s, want %s", got, firstIdle)
	}
}

func TestAPeriodLongerThanTheLongestIsKept(t *testing.T) {
	if diff := cmp.Diff(seconds(0, 600, 1200), passTimes(newScheduler(10*time.Minute, DefaultMaxPeriod), result{}, 3)); diff != "" {
		t.Errorf("idle passes (-want +got):\n%s", diff)
	}
}

func TestFailedComparisonsBackOff(t *testing.T) {
	outage := result{blocked: errors.New("no answer")}
	p := newScheduler(DefaultPeriod, time.Minute)
	if diff := cmp.Diff(seconds(0, 1, 3, 7, 15, 31, 63, 123, 183), passTimes(p, outage, 9)); diff != "" {
		t.Errorf("passes in an outage (-want +got):\n%s", diff)
	}
	p.end(epoch, result{})
	if got := p.end(epoch, outage); got != firstDelay {
		t.Errorf("the first failure after a success delays by %s, want %s", got, firstDelay)
	}
	if got := p.end(epoch, result{blocked: &provider.TerminalError{Err: errors.New("bad credentials")}}); got != time.Minute {
		t.Errorf("a terminal error delays by %s, want the longest pause", got)
	}
}

// What could not be found out or written in pass after pass, and comparisons that failed, have pauses of their own.
func TestPassesThatAreInPartDelayNoFailedComparison(t *testing.T) {
	outage, partial := result{blocked: errors.New("no answer")}, result{partial: errors.New("no write")}
	p := newScheduler(DefaultPeriod, DefaultMaxPeriod)
	passTimes(p, partial, 20)
	if diff := cmp.Diff(seconds(0, 1, 3, 7), passTimes(p, outage, 4)); diff != "" {
		t.Errorf("passes in an outage after passes in part (-want +got):\n%s", diff)
	}
	p.end(epoch, partial) // a comparison, which ends the outage
	if got := p.end(epoch, outage); got != firstDelay {
		t.Errorf("the first failure after a comparison delays by %s, want %s", got, firstDelay)
	}
}

func TestACloudThatSaysHowLongToWaitIsObeyed(t *testing.T) {
	p := newScheduler(DefaultPeriod, DefaultMaxPeriod)
	p.begin(epoch)
	throttled := result{blocked: &provider.ThrottledError{RetryAfter: 90 * time.Second, Err: errors.New("quota")}}
	if got := p.end(epoch, throttled); got != 90*time.Second {
		t.Errorf("the next pass is due in %s, want 1m30s", got)
	}
	now := epoch.Add(20 * time.Second)
	p.noted(now, true) // a change of a node meanwhile does not hurry the cloud
	if got := p.early(now.Add(quiet)); got != 70*time.Second-quiet {
		t.Errorf("a pass for a changed node has to wait for %s, want %s", got, 70*time.Second-quiet)
	}
}

func TestARetryComesWhenItIsDue(t *testing.T) {
	p := newScheduler(DefaultPeriod, DefaultMaxPeriod)
	if got := p.end(epoch, result{retry: epoch.Add(2 * time.Second)}); got != 2*time.Second {
		t.Errorf("the next pass is due in %s, want 2s", got)
	}
	if got := p.When(everything); got != 2*time.Second {
		t.Errorf("the queue is given %s, want 2s", got)
	}
	if got := p.end(epoch, result{changed: true, retry: epoch.Add(time.Minute)}); got != DefaultPeriod {
		t.Errorf("the next pass is due in %s, want %s", got, DefaultPeriod)
	}
	if got := p.end(epoch, result{partial: errors.New("no write"), retry: epoch.Add(time.Minute)}); got != firstDelay {
		t.Errorf("the next pass is due in %s, want %s", got, firstDelay)
	}
}

func TestABurstOfChangesIsOnePass(t *testing.T) {
	p := newScheduler(DefaultPeriod, DefaultMaxPeriod)
	if got := p.noted(epoch, true); got != gathering {
		t.Errorf("the queue is given %s, want %s", got, gathering)
	}
	last := epoch.Add(gathering - time.Millisecond)
	p.noted(last, true)
	if got := p.early(last); got != time.Millisecond {
		t.Errorf("a pass has to wait for %s, want 1ms: others are waited for", got)
	}
	last = epoch.Add(gathering)
	if got := p.early(last); got != 0 {
		t.Errorf("a pass has to wait for %s, want 0: the first has waited for long enough", got)
	}
	p.begin(last)
	if got := p.early(last); got != 0 {
		t.Errorf("a pass has to wait for %s, want 0: all changes have been seen", got)
	}
}

// A pass is put off while nodes are being initialized, but neither forever nor by a node that only waits.
func TestRoutesComeAfterNodesThatJoin(t *testing.T) {
	p, now := newScheduler(DefaultPeriod, DefaultMaxPeriod), epoch
	for ; now.Sub(epoch) < joining; now = now.Add(quiet / 2) {
		p.awaits("joins", false, now)
		p.noted(now, true)
		if p.early(now) == 0 {
			t.Fatalf("a pass begins %s after the first of nodes that join", now.Sub(epoch))
		}
	}
	p.awaits("joins", false, now)
	p.noted(now, true)
	if got := p.early(now); got != 0 {
		t.Errorf("a pass has to wait for %s, want 0: it has been put off for %s", got, joining)
	}

	p.begin(now)
	p.noted(now, true)
	p.awaits("waits", true, now.Add(quiet))
	if got := p.early(now.Add(quiet)); got != 0 {
		t.Errorf("a pass has to wait for %s, want 0: one node waits, and nothing else changes", got)
	}
	for end := now.Add(gathering); now.Before(end); now = now.Add(quiet / 2) {
		p.noted(now, true)
	}
	p.noted(now.Add(quiet), true)
	if got := p.early(now.Add(quiet)); got != 0 {
		t.Errorf("a pass has to wait for %s, want 0: no node joins", got)
	}
}

// A pause in the initialization of many nodes is not its end, but many that wait in vain hold up the routes of others once only.
func TestRoutesComeAfterManyNodesThatWait(t *testing.T) {
	p, now := newScheduler(DefaultPeriod, DefaultMaxPeriod), epoch
	for i := range mass {
		p.awaits(types.UID(strconv.Itoa(i)), true, now)
	}
	p.noted(now, true)
	for ; now.Sub(epoch) < joining; now = now.Add(quiet) {
		if p.early(now) == 0 {
			t.Fatalf("a pass begins %s after the first of nodes that join", now.Sub(epoch))
		}
	}
	if got := p.early(now); got != 0 {
		t.Errorf("a pass has to wait for %s, want 0: it has been put off for %s", got, joining)
	}
	p.begin(now)
	p.noted(now, true)
	if got := p.early(now.Add(quiet)); got != 0 {
		t.Errorf("a pass has to wait for %s, want 0: the others have waited in vain", got)
	}
}

// The routes of a mass of nodes are made as soon as all of them are initialized.
func TestRoutesOfAMassOfNodesDoNotWaitLonger(t *testing.T) {
	p, now := newScheduler(DefaultPeriod, DefaultMaxPeriod), epoch
	for _, waits := range []bool{true, false} {
		for i := range 2 * mass {
			p.awaits(types.UID(strconv.Itoa(i)), waits, now)
		}
	}
	p.noted(now, true)
	if got := p.early(now); got != quiet {
		t.Errorf("a pass has to wait for %s, want %s", got, quiet)
	}
}

// Nodes that go while others join are no reason to begin with the routes of those that have joined.
func TestRoutesOfNodesThatGoDoNotInterruptAJoin(t *testing.T) {
	p, now := newScheduler(DefaultPeriod, DefaultMaxPeriod), epoch
	for ; now.Sub(epoch) < joining-quiet; now = now.Add(quiet / 2) {
		p.noted(now, false)
		p.awaits("joins", true, now)
	}
	first := now
	for ; now.Sub(first) < joining; now = now.Add(quiet / 2) {
		p.noted(now, true)
		p.awaits("joins", true, now)
		if p.early(now) == 0 {
			t.Fatalf("a pass begins %s after the first node that waits for a route", now.Sub(first))
		}
	}
	p.noted(now, true)
	p.awaits("joins", true, now)
	if got := p.early(now); got != 0 {
		t.Errorf("a pass has to wait for %s, want 0: nodes have waited for %s", got, joining)
	}
}

// However nodes change, there are no more passes than a handful and one per period, and none is put off for longer than that.
func TestPassesAreBoundedWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newScheduler(DefaultPeriod, DefaultMaxPeriod)
		now, passes, waiting := epoch, 0, time.Time{}
		for range rapid.IntRange(1, 200).Draw(t, "changes") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "pause")) * time.Millisecond)
			p.noted(now, rapid.Bool().Draw(t, "waits"))
			for range rapid.IntRange(0, 2*mass).Draw(t, "joins") {
				p.awaits(types.UID(rapid.StringMatching("[a-z]{1,3}").Draw(t, "node")), rapid.Bool().Draw(t, "waits for initialization"), now)
			}
			if waiting.IsZero() {
				waiting = now
			}
			at := now.Add(quiet)
			if p.early(at) > 0 {
				if put := at.Sub(waiting); put > DefaultPeriod+2*joining {
					t.Fatalf("a change waits for %s already", put)
				}
				continue
			}
			now, waiting = at, time.Time{}
			p.begin(now)
			passes++
			p.end(now, result{changed: true})
		}
		if most := burst + int(now.Sub(epoch)/DefaultPeriod) + 1; passes > most {
			t.Fatalf("%d passes in %s, want %d at most", passes, now.Sub(epoch), most)
		}
	})
}
