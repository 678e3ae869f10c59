package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-ccm/mooring/provider"
)

func watchRules() []Rule {
	return []Rule{
		{
			ID:   "watch-begins-whole",
			Text: "A watch reports every instance that exists, and then sets its first mark.",
			Source: Source{"provider.WatchInstancesFunc",
				"It begins with everything: an InstanceSet for each instance that exists, in any order, and then the first mark"},
			Needs: []Need{NeedWatchInstances, NeedInstance},
			check: checkWatchBegins,
		},
		{
			ID:   "watch-reports-changes",
			Text: "A watch reports an instance that is created, then stopped, then deleted, in that order.",
			Source: Source{"provider.WatchInstancesFunc",
				"From then on it reports each change, those of one instance in the order in which they happened"},
			Needs: []Need{NeedWatchInstances, NeedCreate, NeedStop, NeedDelete},
			check: checkWatchChanges,
		},
		{
			ID:     "watch-marks",
			Text:   "A watch in which nothing happens sets its marks in time.",
			Source: Source{"provider.WatchInstancesFunc", "of its progress by further marks, no more than WatchMarkInterval apart"},
			Needs:  []Need{NeedWatchInstances},
			check:  checkWatchMarks,
		},
		{
			ID:     "watch-yield-error",
			Text:   "An error of yield ends the watch and is returned.",
			Source: Source{"provider.WatchInstancesFunc", "An error of yield ends the watch and is returned as it is."},
			Needs:  []Need{NeedWatchInstances},
			check:  checkWatchYieldError,
		},
		{
			ID:   "watch-context",
			Text: "A watch ends soon after its context, with an error: it never ends as if everything had been reported.",
			Source: Source{"provider.WatchInstancesFunc",
				"WatchInstancesFunc calls yield for all instances, and then for every change, until ctx ends."},
			Needs: []Need{NeedWatchInstances},
			check: checkWatchContext,
		},
	}
}

// watching is a watch that runs until it is stopped.
type watching struct {
	events chan provider.InstanceEvent
	done   chan error
	stop   context.CancelFunc
}

// watch starts a watch.
func (t *trial) watch(ctx context.Context) *watching {
	ctx, cancel := context.WithCancel(ctx)
	w := &watching{events: make(chan provider.InstanceEvent), done: make(chan error, 1), stop: cancel}
	go func() {
		w.done <- guarded(func() error {
			return provider.CapabilitiesOf(t.Cloud).WatchInstances(ctx, func(event provider.InstanceEvent) error {
				select {
				case w.events <- event:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		})
	}()
	return w
}

// until takes events until one is wanted, for at most that long.
func (w *watching) until(patience time.Duration, wanted func(provider.InstanceEvent) bool) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case event := <-w.events:
			if wanted(event) {
				return nil
			}
		case err := <-w.done:
			w.done <- err
			return fmt.Errorf("the watch ended: %w", orNil(err))
		case <-late.C:
			return fmt.Errorf("not reported within %s", patience)
		}
	}
}

// ended waits for the end of a watch whose context has ended.
func (w *watching) ended() error {
	late := time.NewTimer(grace)
	defer late.Stop()
	for {
		select {
		case <-w.events:
		case err := <-w.done:
			return orNil(err)
		case <-late.C:
			return fmt.Errorf("it had not returned %s after its context ended", grace)
		}
	}
}

// errNil stands for no error where there has to be one.
var errNil = errors.New("no error")

func orNil(err error) error {
	if err == nil {
		return errNil
	}
	return err
}

func isMark(event provider.InstanceEvent) bool { return event.Kind == provider.InstancesCurrent }

func checkWatchBegins(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	w := t.watch(ctx)
	defer w.stop()
	reported := map[string]bool{}
	err = w.until(t.options.PropagationTimeout, func(event provider.InstanceEvent) bool {
		if event.Kind == provider.InstanceSet {
			reported[event.Instance.ProviderID] = true
		}
		return isMark(event)
	})
	if err != nil {
		t.sawf("the first mark of WatchInstances: %v", err)
	} else if !reported[instance.ProviderID] {
		t.sawf("WatchInstances set its first mark without having reported %s, which exists; it reported %d", instance.ProviderID, len(reported))
	}
	return nil
}

func checkWatchChanges(ctx context.Context, t *trial) error {
	w := t.watch(ctx)
	defer w.stop()
	if err := w.until(t.options.PropagationTimeout, isMark); err != nil {
		return fmt.Errorf("the first mark of WatchInstances: %w", err)
	}
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	reported := func(kind provider.InstanceEventKind, state provider.InstanceState) func(provider.InstanceEvent) bool {
		return func(event provider.InstanceEvent) bool {
			return event.Kind == kind && event.Instance.ProviderID == instance.ProviderID &&
				(kind == provider.InstanceDeleted || event.Instance.State == state)
		}
	}
	if err := w.until(t.options.PropagationTimeout, reported(provider.InstanceSet, provider.InstanceRunning)); err != nil {
		return fmt.Errorf("that %s was created: %w", instance.ProviderID, err)
	}
	if err := t.stop(ctx, instance); err != nil {
		return err
	}
	if err := w.until(t.options.PropagationTimeout, reported(provider.InstanceSet, provider.InstanceStopped)); err != nil {
		return fmt.Errorf("that %s was stopped: %w", instance.ProviderID, err)
	}
	if err := t.delete(ctx, instance); err != nil {
		return err
	}
	if err := w.until(t.options.PropagationTimeout, reported(provider.InstanceDeleted, provider.InstanceStateUnknown)); err != nil {
		return fmt.Errorf("that %s was deleted: %w", instance.ProviderID, err)
	}
	return nil
}

func checkWatchMarks(ctx context.Context, t *trial) error {
	w := t.watch(ctx)
	defer w.stop()
	if err := w.until(t.options.PropagationTimeout, isMark); err != nil {
		return fmt.Errorf("the first mark of WatchInstances: %w", err)
	}
	if err := w.until(min(t.options.PropagationTimeout, provider.WatchMarkInterval), isMark); err != nil {
		return fmt.Errorf("the second mark of WatchInstances: %w", err)
	}
	return nil
}

func checkWatchYieldError(ctx context.Context, t *trial) error {
	calls := 0
	ctx, cancel := context.WithTimeout(ctx, t.options.PropagationTimeout)
	defer cancel()
	err, returned := t.promptly(ctx, "WatchInstances", func(ctx context.Context) error {
		return provider.CapabilitiesOf(t.Cloud).WatchInstances(ctx, func(provider.InstanceEvent) error { calls++; return errOfYield })
	})
	if returned && (calls != 1 || !errors.Is(err, errOfYield)) {
		t.sawf("WatchInstances called yield %d times, which returned %q each time, and returned: %v", calls, errOfYield, err)
	}
	return nil
}

func checkWatchContext(ctx context.Context, t *trial) error {
	w := t.watch(ctx)
	defer w.stop()
	if err := w.until(t.options.PropagationTimeout, isMark); err != nil {
		return fmt.Errorf("the first mark of WatchInstances: %w", err)
	}
	w.stop()
	if err := w.ended(); !errors.Is(err, context.Canceled) {
		t.sawf("WatchInstances, after its context was canceled: %v", err)
	}
	return nil
}
