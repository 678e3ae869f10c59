package route

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
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

func TestComparisonsAreRarerWhileNothingChanges(t *testing.T) {
	p := newScheduler(DefaultPeriod, 0)
	if diff := cmp.Diff(seconds(0, 30, 60, 90), passTimes(p, result{}, 4)); diff != "" {
		t.Errorf("idle passes (-want +got):\n%s", diff)
	}
	for _, ending := range []result{{changed: true}, {doubtful: true}} {
		if got := p.end(epoch, ending); got != DefaultPeriod {
			t.Errorf("after %+v the next pass is due in %s, want %s", ending, got, DefaultPeriod)
		}
	}
}

// With the reference's feature gate only changes of nodes, failures and resyncs are a reason for a pass.
func TestComparisonsThatOnlyChangesAreAReasonFor(t *testing.T) {
	const resync = 12 * time.Hour
	p := newScheduler(DefaultPeriod, resync)
	for _, ending := range []result{{}, {changed: true}} {
		p.begin(epoch)
		if got := p.end(epoch, ending); got != resync {
			t.Errorf("after %+v the next pass is due in %s, want %s", ending, got, resync)
		}
	}
	now := epoch.Add(time.Hour)
	p.noted(now)
	if got := p.early(now.Add(kit.NodesQuiet)); got != 0 {
		t.Errorf("a pass for a change has to wait for %s, want 0", got)
	}
	if got := p.begin(now); got != triggerNodeChange {
		t.Errorf("the trigger is %s", got)
	}
	p.noted(now)
	if got := p.early(now.Add(kit.NodesQuiet)); got < DefaultPeriod-kit.NodesQuiet || got > DefaultPeriod {
		t.Errorf("the next one has to wait for %s, want the rest of the period", got)
	}
}

func TestFailedComparisonsBackOff(t *testing.T) {
	outage := result{blocked: errors.New("no answer")}
	p := newScheduler(DefaultPeriod, 0)
	if diff := cmp.Diff(seconds(0, 10, 30, 60, 90), passTimes(p, outage, 5)); diff != "" {
		t.Errorf("passes in an outage (-want +got):\n%s", diff)
	}
	p.end(epoch, result{})
	if got := p.end(epoch, outage); got != DefaultPeriod {
		t.Errorf("the first failure after a success delays by %s, want %s", got, DefaultPeriod)
	}
	if got := p.end(epoch, result{blocked: &provider.TerminalError{Err: errors.New("bad credentials")}}); got != idlePeriods*DefaultPeriod {
		t.Errorf("a terminal error delays by %s, want the longest pause", got)
	}
}

// What could not be found out or written in pass after pass, and comparisons that failed, have pauses of their own.
func TestPassesThatAreInPartDelayNoFailedComparison(t *testing.T) {
	outage, partial := result{blocked: errors.New("no answer")}, result{partial: errors.New("no write")}
	p := newScheduler(DefaultPeriod, 0)
	passTimes(p, partial, 20)
	if diff := cmp.Diff(seconds(0, 10, 30, 60), passTimes(p, outage, 4)); diff != "" {
		t.Errorf("passes in an outage after passes in part (-want +got):\n%s", diff)
	}
	p.end(epoch, partial) // a comparison, which ends the outage
	if got := p.end(epoch, outage); got != DefaultPeriod {
		t.Errorf("the first failure after a comparison delays by %s, want %s", got, DefaultPeriod)
	}
}

func TestACloudThatSaysHowLongToWaitIsObeyed(t *testing.T) {
	p := newScheduler(DefaultPeriod, 0)
	p.begin(epoch)
	throttled := result{blocked: &provider.ThrottledError{RetryAfter: 90 * time.Second, Err: errors.New("quota")}}
	if got := p.end(epoch, throttled); got != 90*time.Second {
		t.Errorf("the next pass is due in %s, want 1m30s", got)
	}
	now := epoch.Add(20 * time.Second)
	p.noted(now) // a change of a node meanwhile does not hurry the cloud
	if got := p.early(now.Add(kit.NodesQuiet)); got != 70*time.Second-kit.NodesQuiet {
		t.Errorf("a pass for a changed node has to wait for %s, want %s", got, 70*time.Second-kit.NodesQuiet)
	}
}

func TestARetryComesWhenItIsDue(t *testing.T) {
	p := newScheduler(DefaultPeriod, 0)
	if got := p.end(epoch, result{retry: epoch.Add(2 * time.Second)}); got != 2*time.Second {
		t.Errorf("the next pass is due in %s, want 2s", got)
	}
	if got := p.When(everything); got != 2*time.Second {
		t.Errorf("the queue is given %s, want 2s", got)
	}
	if got := p.end(epoch, result{changed: true, retry: epoch.Add(time.Minute)}); got != DefaultPeriod {
		t.Errorf("the next pass is due in %s, want %s", got, DefaultPeriod)
	}
	if got := p.end(epoch, result{partial: errors.New("no write"), retry: epoch.Add(time.Minute)}); got != DefaultPeriod {
		t.Errorf("the next pass is due in %s, want %s", got, DefaultPeriod)
	}
}

func TestABurstOfChangesIsOnePass(t *testing.T) {
	p := newScheduler(DefaultPeriod, 0)
	if got := p.noted(epoch); got != kit.NodesQuiet {
		t.Errorf("the queue is given %s, want %s", got, kit.NodesQuiet)
	}
	last := epoch
	for ; last.Sub(epoch) < DefaultPeriod; last = last.Add(kit.NodesQuiet / 2) {
		p.noted(last)
		if got := p.early(last); got == 0 {
			t.Fatalf("a pass begins %s after the first of nodes that join", last.Sub(epoch))
		}
	}
	p.noted(last)
	if got := p.early(last); got != 0 {
		t.Errorf("a pass has to wait for %s, want 0: the first has waited for a period", got)
	}
	p.begin(last)
	if got := p.early(last); got != 0 {
		t.Errorf("a pass has to wait for %s, want 0: all changes have been seen", got)
	}
	p.noted(last)
	if got := p.early(last); got != kit.NodesQuiet {
		t.Errorf("a pass has to wait for %s, want %s", got, kit.NodesQuiet)
	}
}

// However nodes change, there are no more passes than a handful and one per period, and none is put off for longer than that.
func TestPassesAreBoundedWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newScheduler(DefaultPeriod, 0)
		now, passes, waiting := epoch, 0, time.Time{}
		for range rapid.IntRange(1, 200).Draw(t, "changes") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "pause")) * time.Millisecond)
			p.noted(now)
			if waiting.IsZero() {
				waiting = now
			}
			at := now.Add(kit.NodesQuiet)
			if p.early(at) > 0 {
				if put := at.Sub(waiting); put > 2*DefaultPeriod {
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
