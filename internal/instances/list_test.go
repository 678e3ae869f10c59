package instances_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/cloud/guard"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

func TestABurstOfLookupsSharesOneListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		burst, names := nodes(1000)
		cloud := newListingCloud(names...)
		inv := instances.New(instances.Options{Cloud: cloud})
		var waiting sync.WaitGroup
		for i, n := range burst {
			waiting.Go(func() {
				time.Sleep(time.Duration(i) * 20 * time.Microsecond) // 1,000 within 20 ms
				if observation := lookup(t, inv, n, 2*time.Second); observation.Metadata.ProviderID != "sim://"+n.Name {
					t.Errorf("%s: found %q", n.Name, observation.Metadata.ProviderID)
				}
			})
		}
		waiting.Wait()
		if got := cloud.count(); got != 1 {
			t.Errorf("%d listings, want 1", got)
		}
	})
}

// A listing that takes long holds up no node that is there, and is neither ended nor repeated. That one is not there is the listing's to say.
func TestANodeIsAskedForAloneWhileAListingTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &bothCloud{listingCloud: newListingCloud("a")}
		cloud.pageTime = 10 * time.Minute
		inv := instances.New(instances.Options{Cloud: cloud})
		began := time.Now()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if said := lookup(t, inv, node("a"), 0); said.Status != instances.Found || time.Since(began) > 15*time.Second {
				t.Errorf("a: %s after %s", said.Status, time.Since(began))
			}
		})
		waiting.Go(func() {
			if said := lookup(t, inv, node("b"), 0); said.Status != instances.NotFound || time.Since(began) < cloud.pageTime {
				t.Errorf("b: %s after %s", said.Status, time.Since(began))
			}
		})
		waiting.Wait()
		if listings, singles := cloud.asked(); listings != 1 || singles != 2 || cloud.stopped != 0 {
			t.Errorf("%d listings, of which %d were ended, and %d questions for single nodes; want 1, 0, 2", listings, cloud.stopped, singles)
		}
		cloud.pageTime = time.Minute
		for range 2 { // the second waits as long as the first one took, and longer
			lookup(t, inv, node("a"), 0)
		}
		if listings, singles := cloud.asked(); listings != 3 || singles != 2 {
			t.Errorf("%d listings and %d questions: a listing as long as those before asks for nothing else", listings, singles)
		}
	})
}

// No listing is made while an earlier one has not returned. That holds up no node that is there.
func TestANodeIsAskedForAloneAfterAListingThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := &bothCloud{listingCloud: newListingCloud("a")}
		plugin.failWith(func() error { return &guard.StillRunningError{Operation: "ListInstances"} })
		inv := instances.New(instances.Options{Cloud: plugin})
		if said := lookup(t, inv, node("a"), 0); said.Status != instances.Found {
			t.Errorf("a: %s", said.Status)
		}
		if said, err := inv.Lookup(t.Context(), node("b"), 0); !errors.Is(err, classify.ErrStillRunning) {
			t.Errorf("b: %s, %v", said.Status, err)
		}
	})
}

func TestAPositiveAnswerServesUntilItIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newListingCloud("a")
		inv := instances.New(instances.Options{Cloud: cloud})
		first := lookup(t, inv, node("a"), 0)

		time.Sleep(time.Until(first.At.Add(10 * time.Second)))
		if again := lookup(t, inv, node("a"), 10*time.Second); !again.At.Equal(first.At) || cloud.count() != 1 {
			t.Errorf("10s old, 10s allowed: listed anew (%d listings)", cloud.count())
		}
		time.Sleep(time.Nanosecond)
		if again := lookup(t, inv, node("a"), 10*time.Second); again.At.Equal(first.At) || cloud.count() != 2 {
			t.Errorf("older than allowed: not listed anew (%d listings)", cloud.count())
		}
	})
}

func TestNotFoundNeedsAListingThatBeganAfterTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newListingCloud("a")
		inv := instances.New(instances.Options{Cloud: cloud})
		lookup(t, inv, node("a"), 0)

		cloud.add("b") // the snapshot does not know it
		if observation := lookup(t, inv, node("b"), time.Hour); observation.Status != instances.Found || cloud.count() != 2 {
			t.Errorf("%s after %d listings, want found after 2", observation.Status, cloud.count())
		}
		asked := time.Now()
		if observation := lookup(t, inv, node("c"), time.Hour); observation.Status != instances.NotFound || observation.At.Before(asked) {
			t.Errorf("%s by a listing that began at %s, want not found by one after %s", observation.Status, observation.At, asked)
		}
	})
}

func TestALookupDuringAListing(t *testing.T) {
	tests := []struct {
		name     string
		maxAge   time.Duration
		node     string
		listings int
	}{
		{"waits for it if it is young enough", 600 * time.Millisecond, "a", 1},
		{"shares the next if it is not", 400 * time.Millisecond, "a", 2},
		{"asks again if it does not show the instance", 600 * time.Millisecond, "late", 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newListingCloud("a")
				inv := instances.New(instances.Options{Cloud: cloud})
				var waiting sync.WaitGroup
				waiting.Go(func() { lookup(t, inv, node("a"), 0) })
				time.Sleep(instances.DefaultWindow + 500*time.Millisecond)
				cloud.add("late")
				for range 10 {
					waiting.Go(func() {
						if observation := lookup(t, inv, node(test.node), test.maxAge); observation.Status != instances.Found {
							t.Errorf("%s, want found", observation.Status)
						}
					})
				}
				waiting.Wait()
				if got := cloud.count(); got != test.listings {
					t.Errorf("%d listings, want %d", got, test.listings)
				}
				if cloud.overlap {
					t.Error("two listings were under way at once")
				}
			})
		})
	}
}

func TestListingsRestLongerThanTheyTook(t *testing.T) {
	for name, takes := range map[string]time.Duration{"of a large cloud": time.Second, "of a small one": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newListingCloud()
				cloud.pageTime = takes
				inv := instances.New(instances.Options{Cloud: cloud})
				const listings = 40
				start := time.Now()
				for range listings {
					lookup(t, inv, node("missing"), 0)
				}
				// A rest is three times as long as a listing, but that small ones may lack a second of it in all.
				most := instances.DefaultWindow + listings*takes + (listings-1)*3*takes
				least := most - time.Second
				if takes >= time.Second {
					least = most
				}
				if took := time.Since(start); took < least || took > most {
					t.Errorf("%d listings of %s took %s, want from %s to %s", listings, takes, took, least, most)
				}
				if took := inv.ListingTime(); took != takes {
					t.Errorf("a listing is said to take %s, want %s", took, takes)
				}
			})
		})
	}
}

// A longer rest serves sharing: it is over early when no other caller comes, and the cloud has what it lacked later.
func TestAListingBeginsWhenABurstIsOver(t *testing.T) {
	const took, quiet = 200 * time.Millisecond, 100 * time.Millisecond
	tests := map[string]struct {
		others int // one every 50 ms
		want   time.Duration
	}{
		"no other call comes": {0, quiet + took},
		"four more come":      {4, 4*50*time.Millisecond + quiet + took},
		"they keep coming":    {100, 3*took + took},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newListingCloud("a")
				cloud.pageTime = took
				inv := instances.New(instances.Options{Cloud: cloud})
				lookup(t, inv, node("a"), 0)
				start := time.Now()
				var waiting sync.WaitGroup
				for i := range test.others {
					waiting.Go(func() {
						time.Sleep(time.Duration(i+1) * 50 * time.Millisecond)
						lookup(t, inv, node("a"), 0)
					})
				}
				lookup(t, inv, node("a"), 0)
				if got := time.Since(start); got != test.want {
					t.Errorf("the answer came after %s, want %s", got, test.want)
				}
				waiting.Wait()
			})
		})
	}
}

// Of a rest that is longer than all pauses may lack, no more than that is left out.
func TestALongRestLacksNoMoreThanItsEnd(t *testing.T) {
	for comes, want := range map[time.Duration]time.Duration{
		time.Second:             3*time.Second + time.Second, // 1.9 s of the rest would be left
		2500 * time.Millisecond: 2600*time.Millisecond + time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			cloud := newListingCloud("a")
			inv := instances.New(instances.Options{Cloud: cloud})
			lookup(t, inv, node("a"), 0)
			ended := time.Now()
			time.Sleep(comes)
			lookup(t, inv, node("a"), 0)
			if got := time.Since(ended); got != want {
				t.Errorf("who came %s after a listing of 1s had the answer after %s, want %s", comes, got, want)
			}
		})
	}
}

// TestCallsOfALastingJoinGrowWithTheCluster has nodes appear one after the other, so one of them always needs a new listing: twice as many
// nodes take twice as long, and each listing has twice as many pages.
func TestCallsOfALastingJoinGrowWithTheCluster(t *testing.T) {
	const anode = 5 * time.Millisecond
	pagesOf := func(count int) (pages int) {
		synctest.Test(t, func(t *testing.T) {
			_, names := nodes(count)
			cloud := newListingCloud(names...)
			cloud.pageTime = 50 * time.Millisecond
			inv := instances.New(instances.Options{Cloud: cloud})
			for start := time.Now(); time.Since(start) < time.Duration(count)*anode; {
				lookup(t, inv, node("missing"), 0)
			}
			pages = cloud.count() * count / cloud.pageSize
		})
		return pages
	}
	small, large := pagesOf(1000), pagesOf(15000)
	if large > 15*small*11/10 {
		t.Errorf("1,000 nodes cost %d pages, and 15,000 cost %d", small, large)
	}
}

func TestAListIsCompleteOrAnError(t *testing.T) {
	outage := errors.New("connection reset")
	synctest.Test(t, func(t *testing.T) {
		cloud := newListingCloud("a", "b", "c")
		cloud.pageSize = 1
		turns := 0
		cloud.failWith(func() error {
			if turns++; turns == 3 {
				return outage
			}
			return nil
		})
		inv := instances.New(instances.Options{Cloud: cloud})
		var waiting sync.WaitGroup
		for _, name := range []string{"a", "b", "c", "d"} { // a and b were on pages that came
			waiting.Go(func() {
				if observation, err := inv.Lookup(t.Context(), node(name), time.Hour); !errors.Is(err, outage) {
					t.Errorf("%s: %s, error %v; want the cloud's error", name, observation.Status, err)
				}
			})
		}
		waiting.Wait()
		if got := cloud.count(); got != 1 {
			t.Errorf("%d listings, want 1 for all who waited", got)
		}
		if _, known := inv.Peek(node("a"), time.Hour); known {
			t.Error("a listing that failed is remembered")
		}
	})
}

func TestAnOutageCostsOneListingASecond(t *testing.T) {
	outage := errors.New("connection refused")
	synctest.Test(t, func(t *testing.T) {
		cloud := newListingCloud("a")
		cloud.pageTime = time.Millisecond
		cloud.failWith(func() error { return outage })
		inv := instances.New(instances.Options{Cloud: cloud})
		end := time.Now().Add(10 * time.Second)
		for time.Now().Before(end) {
			if _, err := inv.Lookup(t.Context(), node("a"), 0); !errors.Is(err, outage) {
				t.Fatalf("error %v, want the cloud's", err)
			}
		}
		if got := cloud.count(); got > 10 {
			t.Errorf("%d listings in 10s of outage, want 10 at most", got)
		}
		cloud.failWith(nil)
		time.Sleep(time.Second)
		lookup(t, inv, node("a"), 0)
	})
}

// What a cloud asks for by its Retry-After, its client holds to, and so does each caller that asks for a list.
func TestNoCallReachesACloudThatAskedToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := newListingCloud("a", "b")
		plugin.failWith(func() error {
			return &provider.ThrottledError{RetryAfter: 30 * time.Second, Err: errors.New("quota")}
		})
		inv := instances.New(instances.Options{Cloud: cloud.Decorate(plugin, cloud.Options{})})
		for range 3 {
			if _, err := inv.Lookup(t.Context(), node("a"), 0); !provider.IsThrottled(err) {
				t.Errorf("error %v, want the refusal", err)
			}
			time.Sleep(9 * time.Second)
		}
		if got := plugin.count(); got != 1 {
			t.Errorf("%d listings within the 30s for which the cloud asked, want 1", got)
		}
		plugin.failWith(nil)
		time.Sleep(10 * time.Second)
		lookup(t, inv, node("b"), 0)
	})
}

func TestANodeIsFoundByProviderIDElseByName(t *testing.T) {
	shared := instanceFor("a")
	shared.ProviderID = "sim://other"
	unnamed := instanceFor("")
	unnamed.ProviderID = "sim://unnamed"
	listed := []provider.Instance{instanceFor("a"), shared, instanceFor("b"), unnamed}
	tests := []struct {
		name      string
		node      *corev1.Node
		found     string
		ambiguous bool
	}{
		{"by provider ID", nodeWithID("whatever", "sim://b"), "sim://b", false},
		{"by provider ID although the name is ambiguous", nodeWithID("a", "sim://other"), "sim://other", false},
		{"a provider ID that the cloud does not know, with a name that it knows", nodeWithID("b", "sim://gone"), "", false},
		{"by name", node("b"), "sim://b", false},
		{"by a name that two claim", node("a"), "", true},
		{"an instance without a name is not found by name", node(""), "", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inv := instances.New(instances.Options{Cloud: &fixedList{listed: listed}})
				observation, err := inv.Lookup(t.Context(), test.node, 0)
				var ambiguous *instances.AmbiguousNameError
				if errors.As(err, &ambiguous) != test.ambiguous {
					t.Fatalf("error %v, want ambiguous: %t", err, test.ambiguous)
				}
				if observation.Metadata.ProviderID != test.found || (observation.Status == instances.Found) != (test.found != "") {
					t.Errorf("%s %q, want %q", observation.Status, observation.Metadata.ProviderID, test.found)
				}
				if test.ambiguous && !slices.Equal(ambiguous.ProviderIDs, []string{"sim://a", "sim://other"}) {
					t.Errorf("the error names %q", ambiguous.ProviderIDs)
				}
			})
		})
	}
}

func TestAnEmptyListIsReportedAsSuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inv := instances.New(instances.Options{Cloud: newListingCloud()})
		if observation := lookup(t, inv, node("a"), 0); observation.Status != instances.NotFound || observation.Listed != 0 {
			t.Errorf("%s of %d listed, want not found of 0", observation.Status, observation.Listed)
		}
	})
}

func TestLookupEachCostsOneListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, names := nodes(50)
		cloud := newListingCloud(names[:40]...) // ten nodes have no instance
		inv := instances.New(instances.Options{Cloud: cloud})
		lookup(t, inv, all[0], 0)
		statuses := map[instances.Status]int{}
		asked := time.Now()
		inv.LookupEach(t.Context(), all, time.Hour, func(n *corev1.Node, observation instances.Observation, err error) {
			if err != nil {
				t.Errorf("%s: %v", n.Name, err)
			}
			if observation.Status == instances.NotFound && observation.At.Before(asked) {
				t.Errorf("%s is not found by a listing from before the question", n.Name)
			}
			statuses[observation.Status]++
		})
		if statuses[instances.Found] != 40 || statuses[instances.NotFound] != 10 {
			t.Errorf("statuses %v, want 40 found and 10 not found", statuses)
		}
		if got := cloud.count(); got != 2 {
			t.Errorf("%d listings, want one more than before", got)
		}
		inv.LookupEach(t.Context(), all[:40], time.Hour, func(*corev1.Node, instances.Observation, error) {})
		if got := cloud.count(); got != 2 {
			t.Errorf("%d listings, want no further one for instances that are known", got)
		}
	})
}

func TestPeekNeverAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newListingCloud("a")
		inv := instances.New(instances.Options{Cloud: cloud})
		if _, known := inv.Peek(node("a"), time.Hour); known {
			t.Error("something is known before anybody asked")
		}
		first := lookup(t, inv, node("a"), 0)
		if observation, known := inv.Peek(node("a"), time.Hour); !known || observation.Status != instances.Found {
			t.Errorf("known: %t, %s; want found", known, observation.Status)
		}
		time.Sleep(time.Until(first.At.Add(time.Minute + 1)))
		if _, known := inv.Peek(node("a"), time.Minute); known {
			t.Error("an answer older than allowed is shown")
		}
		if got := cloud.count(); got != 1 {
			t.Errorf("%d listings, want 1", got)
		}
	})
}

func TestAStandbyLeavesTheCloudAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newListingCloud("a")
		cloud.standby = true
		inv := instances.New(instances.Options{Cloud: cloud})
		if err := inv.Start(t.Context()); err != nil {
			t.Error(err)
		}
		if got := cloud.count(); got != 0 {
			t.Errorf("%d listings, want none", got)
		}
		if inv.NeedLeaderElection() {
			t.Error("a standby would not run it")
		}
	})
}
