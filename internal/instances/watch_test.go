package instances_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

func TestAWatchSavesTheListings(t *testing.T) {
	cloud := newWatchCloud("a", "b")
	watching(t, cloud, func(t *testing.T, inv *instances.Inventory) {
		before := cloud.count()
		cloud.happens(provider.InstanceSet, "new")
		for range 12 { // refreshes within an hour, and a node that joins
			time.Sleep(5 * time.Minute)
			asked := time.Now()
			inv.LookupEach(t.Context(), []*corev1.Node{node("a"), node("b"), node("new")}, 0,
				func(n *corev1.Node, got instances.Observation, err error) {
					if err != nil || got.Status != instances.Found || got.At.Before(asked) {
						t.Errorf("%s: %s at %s, error %v; want found after %s", n.Name, got.Status, got.At, err, asked)
					}
				})
			start := time.Now()
			lookup(t, inv, node("new"), 2*time.Second)
			if took := time.Since(start); took != 0 {
				t.Errorf("a lookup of what the watch shows took %s", took)
			}
		}
		if got := cloud.count() - before; got != 0 || cloud.watched() != 1 {
			t.Errorf("%d listings and %d watches, want none and 1", got, cloud.watched())
		}
	})
}

// What the watch does not show is not gone by its word.
func TestOnlyAListingSaysThatAnInstanceIsGone(t *testing.T) {
	cloud := newWatchCloud("a", "b")
	watching(t, cloud, func(t *testing.T, inv *instances.Inventory) {
		before := cloud.count()
		cloud.tell(provider.InstanceEvent{Kind: provider.InstanceDeleted, Instance: instanceFor("a")}) // a lie
		if got := lookup(t, inv, node("a"), time.Hour); got.Status != instances.Found || cloud.count() != before+1 {
			t.Errorf("%s after %d listings, want found by a listing", got.Status, cloud.count()-before)
		}
		cloud.happens(provider.InstanceDeleted, "b")
		said := map[string]instances.Observation{}
		for range 2 { // as the node lifecycle controller asks: one denial is one observation, and the ready are in it
			last := said["b"]
			asked := time.Now()
			inv.StateEach(t.Context(), []*corev1.Node{node("a"), node("b")}, 5*time.Second,
				func(n *corev1.Node, got instances.Observation, err error) { said[n.Name] = got })
			if said["b"].Status != instances.NotFound || said["b"].At.Before(asked) || !said["b"].At.After(last.At) {
				t.Errorf("%s at %s, want not found by an observation of its own after %s", said["b"].Status, said["b"].At, asked)
			}
			if said["a"].Status != instances.Found || !said["a"].At.Equal(said["b"].At) {
				t.Errorf("the witness is %s at %s, want found by the same listing at %s", said["a"].Status, said["a"].At, said["b"].At)
			}
		}
		if got := cloud.count(); got != before+3 {
			t.Errorf("%d listings, want one for each question", got-before)
		}
	})
}

func TestAnInstanceThatTheWatchDoesNotShowYetIsListed(t *testing.T) {
	cloud := newWatchCloud("a")
	watching(t, cloud, func(t *testing.T, inv *instances.Inventory) {
		cloud.add("late") // and the watch is slow to tell
		if got := lookup(t, inv, node("late"), 2*time.Second); got.Status != instances.Found {
			t.Errorf("%s, want found by a listing", got.Status)
		}
	})
}

func TestChangesAreShown(t *testing.T) {
	cloud := newWatchCloud("a")
	watching(t, cloud, func(t *testing.T, inv *instances.Inventory) {
		changed := instanceFor("a")
		changed.State, changed.Zone, changed.NodeName = provider.InstanceStopped, "z2", "renamed"
		cloud.tell(provider.InstanceEvent{Kind: provider.InstanceSet, Instance: changed})
		got := lookup(t, inv, node("renamed"), time.Minute)
		want := instances.Observation{
			Status: instances.Found, State: provider.InstanceStopped, Answered: "sim://a", Listed: 1, At: got.At,
			Metadata: cloudprovider.InstanceMetadata{ProviderID: "sim://a", InstanceType: "small", Zone: "z2"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("observation (-want +got):\n%s", diff)
		}
		if peeked, known := inv.Peek(node("renamed"), time.Minute); !known || !cmp.Equal(peeked, want) {
			t.Errorf("a peek shows %+v, known: %t", peeked, known)
		}
	})
}

// While there is no watch its last word is used as long as it is young enough; then instances are listed.
func TestAWatchThatEndsFallsBackToListing(t *testing.T) {
	cloud := newWatchCloud("a")
	watching(t, cloud, func(t *testing.T, inv *instances.Inventory) {
		time.Sleep(5 * time.Second) // the cloud has rested since its last listing
		before := cloud.count()
		cloud.set(func(c *watchCloud) { c.refuse = errors.New("connection refused") })
		cloud.breaks(errors.New("connection reset"))
		if lookup(t, inv, node("a"), 2*time.Second); cloud.count() != before {
			t.Error("the last word of the watch was not used")
		}
		start := time.Now()
		lookup(t, inv, node("a"), 0)
		if took := time.Since(start); took != instances.DefaultWindow+cloud.pageTime {
			t.Errorf("a lookup took %s, want the time of a listing: no mark is to be waited for", took)
		}
		before++
		time.Sleep(3 * time.Second)
		if got := lookup(t, inv, node("a"), 2*time.Second); got.Status != instances.Found || cloud.count() != before+1 {
			t.Errorf("%s after %d listings, want found by one", got.Status, cloud.count()-before)
		}
		time.Sleep(time.Hour)
		if got := cloud.watched(); got > 70 || got < 50 {
			t.Errorf("%d watches in an hour of failures, want about one a minute", got)
		}
		cloud.set(func(c *watchCloud) { c.refuse = nil })
		time.Sleep(2 * time.Minute)
		before = cloud.count()
		if got := lookup(t, inv, node("a"), 0); got.Status != instances.Found || cloud.count() != before {
			t.Errorf("%s after %d listings, want found by the watch", got.Status, cloud.count()-before)
		}
	})
}

func TestASilentWatchIsTakenForDead(t *testing.T) {
	cloud := newWatchCloud("a")
	watching(t, cloud, func(t *testing.T, inv *instances.Inventory) {
		cloud.set(func(c *watchCloud) { c.silent = true })
		time.Sleep(20 * time.Second)
		before, start := cloud.count(), time.Now()
		lookup(t, inv, node("a"), 10*time.Second)
		if got := cloud.count(); got != before+1 || time.Since(start) > 5*time.Second {
			t.Errorf("%d listings after %s, want one soon", got-before, time.Since(start))
		}
		time.Sleep(3 * provider.WatchMarkInterval)
		if cloud.watched() < 2 {
			t.Error("no new watch was begun")
		}
	})
}

func TestAWatchThatTellsNothingIsTakenForDead(t *testing.T) {
	cloud := newWatchCloud("a")
	cloud.mute = true
	watching(t, cloud, func(t *testing.T, inv *instances.Inventory) {
		cloud.set(func(c *watchCloud) { c.mute = false })
		time.Sleep(3*provider.WatchMarkInterval + 5*time.Second)
		before := cloud.count()
		if lookup(t, inv, node("a"), 0); cloud.count() != before {
			t.Error("the second watch is not used")
		}
	})
}

func TestAWatchThatExpiresBeginsAnew(t *testing.T) {
	cloud := newWatchCloud("a")
	watching(t, cloud, func(t *testing.T, inv *instances.Inventory) {
		cloud.add("missed")
		cloud.remove("sim://a")
		cloud.breaks(provider.ErrWatchExpired)
		time.Sleep(4 * time.Second)
		before := cloud.count()
		if got := lookup(t, inv, node("missed"), 2*time.Second); got.Status != instances.Found || cloud.count() != before {
			t.Errorf("%s after %d listings, want found by the new watch", got.Status, cloud.count()-before)
		}
		if got := lookup(t, inv, node("a"), time.Second); got.Status != instances.NotFound {
			t.Errorf("%s, want not found: it went between the watches", got.Status)
		}
	})
}

func TestWhoWatchesWhen(t *testing.T) {
	for _, standby := range []bool{true, false} {
		cloud := newWatchCloud("a")
		cloud.standby = standby
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			inv := instances.New(instances.Options{Cloud: cloud})
			var running sync.WaitGroup
			running.Go(func() { _ = inv.Start(ctx) })
			time.Sleep(time.Hour)
			if got := cloud.watched() == 1; got != standby {
				t.Errorf("a provider for standbys: %t; watched before anybody asked: %t", standby, got)
			}
			if listed := cloud.count(); standby && listed > 1 {
				t.Errorf("%d listings beside a watch that is current", listed)
			}
			lookup(t, inv, node("a"), 0)
			time.Sleep(5 * time.Second)
			if got := cloud.watched(); got != 1 {
				t.Errorf("%d watches after the first question, want 1", got)
			}
			stop()
			running.Wait()
		})
	}
}

func TestAWatchThatCannotBeTrueIsEnded(t *testing.T) {
	registry := prometheus.NewRegistry()
	cloud := newWatchCloud("a")
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		inv := instances.New(instances.Options{Cloud: cloud, Registerer: registry})
		var running sync.WaitGroup
		running.Go(func() { _ = inv.Start(ctx) })
		lookup(t, inv, node("a"), 0)
		time.Sleep(5 * time.Second)
		before := cloud.watched()
		cloud.tell(provider.InstanceEvent{Instance: instanceFor("a")})
		time.Sleep(5 * time.Second)
		if got := cloud.watched(); got != before+1 {
			t.Errorf("%d watches, want a new one", got-before)
		}
		stop()
		running.Wait()
	})
	if got := testutil.CollectAndCount(registry, "mooring_inventory_watch_ends_total"); got != 1 {
		t.Errorf("%d reasons counted, want one: error", got)
	}
}

// cutCloud is a cloud whose watches are as is set.
type cutCloud struct {
	*watchCloud
	watches provider.WatchInstancesFunc
}

func (c *cutCloud) Capabilities() provider.Capabilities {
	return provider.Capabilities{ListInstances: c.list, WatchInstances: c.watches}
}

// For an hour each watch is cut right after it has shown all instances. They are not read each second because of that, nor does the log alternate.
func TestAWatchThatIsCutAfterItsFirstMark(t *testing.T) {
	for _, end := range []error{errors.New("connection reset"), provider.ErrWatchExpired} {
		cuts, ended, again := atomic.Bool{}, atomic.Int32{}, atomic.Int32{}
		cuts.Store(true)
		plugin := &cutCloud{watchCloud: newWatchCloud("a")}
		plugin.watches = func(ctx context.Context, yield func(provider.InstanceEvent) error) error {
			return plugin.watch(ctx, func(event provider.InstanceEvent) error {
				if err := yield(event); err != nil || event.Kind != provider.InstancesCurrent || !cuts.Load() {
					return err
				}
				return end
			})
		}
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			inv := instances.New(instances.Options{Cloud: plugin, Logger: funcr.New(func(_, line string) {
				if strings.Contains(line, "watch of the cloud's instances ended") {
					ended.Add(1)
				}
				if strings.Contains(line, "instances is current again") {
					again.Add(1)
				}
			}, funcr.Options{})})
			var running sync.WaitGroup
			running.Go(func() { _ = inv.Start(ctx) })
			for start := time.Now(); time.Since(start) < time.Hour; time.Sleep(10 * time.Second) {
				began := time.Now()
				if got := lookup(t, inv, node("a"), 2*time.Second); got.Status != instances.Found || time.Since(began) > time.Minute {
					t.Errorf("%s after %s", got.Status, time.Since(began))
				}
			}
			logged := int32(1)
			if errors.Is(end, provider.ErrWatchExpired) {
				logged = 0
			}
			if watches := plugin.watched(); watches > 100 || ended.Load() != logged || again.Load() != 0 {
				t.Errorf("%v: %d watches, %d lines that they ended and %d that they are current", end, watches, ended.Load(), again.Load())
			}
			cuts.Store(false)
			time.Sleep(5 * time.Minute)
			before := plugin.watched()
			if lookup(t, inv, node("a"), 2*time.Second); plugin.watched() != before || again.Load() != logged {
				t.Errorf("%v is over: %d new watches, %d lines that it is current", end, plugin.watched()-before, again.Load())
			}
			stop()
			running.Wait()
		})
	}
}

// A listing shows what the watch does not. A mark of the watch takes that back.
func TestAMarkHidesWhatAListingShowed(t *testing.T) {
	cloud := newWatchCloud("a")
	watching(t, cloud, func(t *testing.T, inv *instances.Inventory) {
		cloud.add("late") // and the watch does not tell
		inv.LookupEach(t.Context(), []*corev1.Node{node("a"), node("late")}, 0, func(n *corev1.Node, got instances.Observation, err error) {
			if err != nil || got.Status != instances.Found {
				t.Errorf("%s: %s, error %v", n.Name, got.Status, err)
			}
		})
		if got, known := inv.Peek(node("late"), 10*time.Minute); !known || got.Status != instances.Found {
			t.Errorf("at once: %s, known: %t", got.Status, known)
		}
		time.Sleep(1500 * time.Millisecond)
		if got, known := inv.Peek(node("late"), 10*time.Minute); !known || got.Status != instances.Found {
			t.Errorf("after a mark: %s, known: %t", got.Status, known)
		}
	})
}
