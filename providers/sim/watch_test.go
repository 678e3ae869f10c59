package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// told is what a watch that runs has told so far.
type told struct {
	mu     sync.Mutex
	events []string
	marks  int
	ended  error
}

func (w *told) take(event provider.InstanceEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if event.Kind == provider.InstancesCurrent {
		w.marks++
		return nil
	}
	w.events = append(w.events, fmt.Sprint(event.Kind, " ", event.Instance.ProviderID, " ", event.Instance.State))
	return nil
}

func (w *told) is(want ...string) func(context.Context) bool {
	return func(context.Context) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.marks > 0 && slices.Equal(w.events, want)
	}
}

// startWatch starts a cloud whose config asks for a watch, and watches it until the test ends.
func startWatch(t *testing.T, options cloudsim.Options) (*simtest.Cloud, *told, func() error) {
	simulated := simtest.Start(t, options)
	config, err := os.ReadFile(simulated.ConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	cloud := newCloud(t, tempFile(t, string(config)+"watch: true\n"))
	told, done := &told{}, make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		told.ended = cloud.Capabilities().WatchInstances(ctx, told.take)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return simulated, told, func() error {
		select {
		case <-done:
			return told.ended
		case <-time.After(poll.Deadline):
			return errors.New("the watch did not end")
		}
	}
}

func TestWatchIsOfferedIfTheConfigSaysSo(t *testing.T) {
	_, cloud := start(t, cloudsim.Options{})
	if cloud.Capabilities().WatchInstances != nil {
		t.Error("offered without the config's word")
	}
}

func TestWatchTellsOfAllAndThenOfChanges(t *testing.T) {
	knobs := api.Knobs{Latency: metav1.Duration{Duration: 20 * time.Millisecond}}
	knobs.InstanceDelay.Duration = 100 * time.Millisecond
	simulated, told, _ := startWatch(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2), Knobs: knobs})
	first := []string{"set sim://i-00000001 running", "set sim://i-00000002 running"}
	simtest.Eventually(t, "all instances", told.is(first...))

	simulated.Change(t, "node-001", func(spec *api.InstanceSpec) { spec.Power = api.PowerOff })
	simulated.Delete(t, "node-002")
	simulated.Create(t, cloudsim.DefaultInstance(3)) // is pending for a while, and then changes by itself
	simtest.Eventually(t, "the changes", told.is(append(first,
		"set sim://i-00000001 stopped", "deleted sim://i-00000002 unknown",
		"set sim://i-00000003 running", "set sim://i-00000003 running")...))
	if got := simulated.Service.Counts().Operations[api.OpWatchInstances].Received; got != 1 {
		t.Errorf("%d calls, want one for the whole watch", got)
	}
}

// A connection that breaks is mended from the last mark on: nothing is missed, and nothing begins anew.
func TestWatchMendsABrokenConnection(t *testing.T) {
	simulated, told, _ := startWatch(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	simtest.Eventually(t, "two marks", func(context.Context) bool { told.mu.Lock(); defer told.mu.Unlock(); return told.marks >= 2 })
	fault(t, simulated, api.Fault{Mode: api.FaultTruncate})
	simulated.Delete(t, "node-001")
	simtest.Eventually(t, "the deletion", told.is("set sim://i-00000001 running", "deleted sim://i-00000001 unknown"))
	if got := simulated.Service.Counts().Operations[api.OpWatchInstances].Received; got != 2 {
		t.Errorf("%d calls, want 2", got)
	}
}

func TestWatchEndsWithWhatTheCloudSays(t *testing.T) {
	throttled := api.Fault{Mode: api.FaultStatus, Status: 429, RetryAfter: metav1.Duration{Duration: 7 * time.Second}}
	for name, test := range map[string]struct {
		fault api.Fault
		is    func(error) bool
	}{
		"throttled": {throttled, func(err error) bool {
			after, ok := provider.RetryAfter(err)
			return ok && after == 7*time.Second
		}},
		"no credentials":      {api.Fault{Mode: api.FaultStatus, Status: 401}, provider.IsTerminal},
		"cut off at once":     {api.Fault{Mode: api.FaultTruncate}, func(err error) bool { return err != nil }},
		"malformed":           {api.Fault{Mode: api.FaultMalformed}, func(err error) bool { return err != nil }},
		"malformed, later on": {api.Fault{Mode: api.FaultMalformed, Skip: 1}, func(err error) bool { return err != nil }},
	} {
		t.Run(name, func(t *testing.T) {
			simulated, _ := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
			fault(t, simulated, test.fault)
			cloud := newCloud(t, simulated.ConfigFile)
			if err := cloud.watchInstances(t.Context(), (&told{}).take); !test.is(err) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestWatchThatHangsIsSilent(t *testing.T) {
	simulated, told, _ := startWatch(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	fault(t, simulated, api.Fault{Mode: api.FaultHang, Skip: 1}) // after the next mark
	simtest.Eventually(t, "a call that hangs", func(context.Context) bool { return len(simulated.Service.Faults()) == 0 })
	simulated.Delete(t, "node-001")
	if !told.is("set sim://i-00000001 running")(t.Context()) {
		t.Error("the stream tells although it hangs")
	}
	simulated.Service.ClearFaults()
	simtest.Eventually(t, "the deletion", told.is("set sim://i-00000001 running", "deleted sim://i-00000001 unknown"))
}

func TestYieldEndsTheWatch(t *testing.T) {
	_, cloud := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	enough := errors.New("enough")
	if err := cloud.watchInstances(t.Context(), func(provider.InstanceEvent) error { return enough }); err != enough {
		t.Errorf("error %v, want yield's, as it is", err)
	}
}

// The revision outlives the process. What happened before does not, and is an error for who asks for it.
func TestRevisionsPersist(t *testing.T) {
	options := cloudsim.Options{StateFile: t.TempDir() + "/state.db", Seed: cloudsim.DefaultSeed(1)}
	options.Token = cloudsim.StaticToken(simtest.Token)
	before, err := cloudsim.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	simulated := simtest.Start(t, options)
	simulated.Delete(t, "node-001")
	enough := errors.New("enough")
	watch := func(since int64) (got []api.InstanceChange, err error) {
		err = simulated.Client.WatchInstances(t.Context(), since, func(change api.InstanceChange) error {
			got = append(got, change)
			if change.Kind == api.ChangeMark {
				return enough
			}
			return nil
		})
		return got, err
	}
	got, err := watch(0)
	want := []api.InstanceChange{{Kind: api.ChangeDeleted, Revision: 1, ID: "i-00000001"}, {Kind: api.ChangeMark, Revision: 1}}
	if diff := cmp.Diff(want, got); diff != "" || err != enough {
		t.Errorf("error %v; changes (-want +got):\n%s", err, diff)
	}
	for _, unknown := range []int64{2, 1000} {
		if _, err := watch(unknown); !api.HasCode(err, api.CodeRevisionExpired) {
			t.Errorf("since %d: error %v, want that it has expired", unknown, err)
		}
	}
	if _, err := watch(-7); !api.HasCode(err, api.CodeInvalid) {
		t.Errorf("error %v, want that -7 is invalid", err)
	}
}

// An expired revision ends the provider's watch with an error by which the next begins anew at once.
func TestExpiredRevision(t *testing.T) {
	simulated, told, end := startWatch(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	simtest.Eventually(t, "two marks", func(context.Context) bool { told.mu.Lock(); defer told.mu.Unlock(); return told.marks >= 2 })
	fault(t, simulated, api.Fault{Mode: api.FaultTruncate})
	fault(t, simulated, api.Fault{Mode: api.FaultStatus, Status: 410})
	if err := end(); !errors.Is(err, provider.ErrWatchExpired) {
		t.Errorf("error %v, want ErrWatchExpired", err)
	}
}

// fault has the next message of a watch go wrong.
func fault(t *testing.T, simulated *simtest.Cloud, fault api.Fault) {
	t.Helper()
	fault.Operation, fault.Count = api.OpWatchInstances, 1
	if err := simulated.Service.AddFault(fault); err != nil {
		t.Fatal(err)
	}
}
