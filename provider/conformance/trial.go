package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/provider"
)

// grace is how much later than its context a call may end, and how long one may take whose context has ended already.
const grace = 5 * time.Second

// trial is one rule being tried on a subject. It remembers what was seen and what has to be removed.
type trial struct {
	*Subject
	options Options
	rule    string

	findings []string
	removals []removal
	// created and services count what was made, for names.
	created, services int
}

// removal removes one thing that the trial made.
type removal struct {
	what   string
	remove func(ctx context.Context) error
	// once says that it may not be called again when the thing is gone.
	once bool
}

func newTrial(subject *Subject, options Options, rule string) *trial {
	return &trial{Subject: subject, options: options, rule: rule}
}

// unavailableError says that the subject turned out not to offer what the rule needs.
type unavailableError struct{ reason string }

// Error returns what is not offered.
func (e *unavailableError) Error() string { return e.reason }

func unavailable(format string, args ...any) error {
	return &unavailableError{reason: fmt.Sprintf(format, args...)}
}

// brokenError says that a rule could not be tried for a reason that says nothing about the provider.
type brokenError struct {
	what string
	err  error
}

// Error says what broke, and why.
func (e *brokenError) Error() string { return e.what + ": " + e.err.Error() }

// Unwrap returns why it broke.
func (e *brokenError) Unwrap() error { return e.err }

func hookFailed(hook string, err error) error {
	return &brokenError{"the factory's hook " + hook, err}
}

// sawf notes something that breaks the rule.
func (t *trial) sawf(format string, args ...any) {
	t.findings = append(t.findings, fmt.Sprintf(format, args...))
}

// uid returns a UID that no other run has.
func (t *trial) uid(of string) types.UID {
	return types.UID(uuid.NewSHA1(uuid.NameSpaceOID, []byte(t.options.RunID+"/"+t.rule+"/"+of)).String())
}

// withCluster returns a context that carries the UID of the cluster, as the manager's does.
func (t *trial) withCluster(ctx context.Context) context.Context {
	return provider.WithClusterUID(ctx, t.clusterUID())
}

func (t *trial) clusterUID() types.UID { return t.uid("cluster") }

// removeLater has something removed when the trial has ended. It is called before the thing is made. Remove does nothing if that is gone.
func (t *trial) removeLater(what string, remove func(ctx context.Context) error) {
	t.removals = append(t.removals, removal{what: what, remove: remove})
}

// cleanUp removes what was made, the newest first, also after an interrupt. It returns what could not be removed. Cut says that the trial's context
// ended: the cloud may go on with a call that was under way, so what is gone is removed again after a grace period.
func (t *trial) cleanUp(ctx context.Context, cut bool) []string {
	ctx, cancel := context.WithTimeout(t.withCluster(context.WithoutCancel(ctx)), t.options.RuleTimeout)
	defer cancel()
	gone, left := t.remove(ctx, t.removals)
	gone = slices.DeleteFunc(gone, func(r removal) bool { return r.once })
	if !cut || len(gone) == 0 {
		return left
	}
	wait := time.NewTimer(grace)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
	slices.Reverse(gone)
	_, stays := t.remove(ctx, gone)
	return append(left, stays...)
}

// remove makes removals, the last one first. It returns what is gone, in that order, and what is left.
func (t *trial) remove(ctx context.Context, removals []removal) (gone []removal, left []string) {
	for _, r := range slices.Backward(removals) {
		if err := guarded(func() error { return t.eventually(ctx, r.remove) }); err != nil {
			left = append(left, fmt.Sprintf("%s: %v", r.what, err))
			continue
		}
		gone = append(gone, r)
	}
	return gone, left
}

// eventually repeats a look until it returns nil, for as long as the cloud may take to show a change. It returns the last error.
func (t *trial) eventually(ctx context.Context, look func(ctx context.Context) error) error {
	return t.repeat(ctx, look, func(err error) bool {
		var unavailable *unavailableError
		var broken *brokenError
		return !errors.As(err, &unavailable) && !errors.As(err, &broken)
	})
}

// retried repeats a call for as long as its error asks for it by an api.RetryError of k8s.io/cloud-provider.
func (t *trial) retried(ctx context.Context, call func(ctx context.Context) error) error {
	return t.repeat(ctx, call, func(err error) bool {
		var retry *cloudproviderapi.RetryError
		return errors.As(err, &retry)
	})
}

// repeat repeats a call while its error is worth it and there is time. The propagation timeout ends the repetition, and not a call that
// is under way: an answer says more than that the time was over.
func (t *trial) repeat(ctx context.Context, call func(ctx context.Context) error, retryable func(error) bool) error {
	over := time.NewTimer(t.options.PropagationTimeout)
	defer over.Stop()
	tick := time.NewTicker(min(max(t.options.PropagationTimeout/100, 10*time.Millisecond), 5*time.Second))
	defer tick.Stop()
	for {
		err := call(ctx)
		if err == nil || !retryable(err) {
			return err
		}
		select {
		case <-tick.C:
		case <-over.C:
			return fmt.Errorf("still after %s: %w", t.options.PropagationTimeout, err)
		case <-ctx.Done():
			return fmt.Errorf("still when the time for the rule was over: %w", err)
		}
	}
}

// promptly makes a call whose context ends, or has ended, and returns its error. A call that does not return is left behind
// and seen as such.
func (t *trial) promptly(ctx context.Context, name string, call func(ctx context.Context) error) (err error, returned bool) {
	done := make(chan error, 1)
	go func() { done <- guarded(func() error { return call(ctx) }) }()
	late := time.NewTimer(untilEnd(ctx) + grace)
	defer late.Stop()
	select {
	case err := <-done:
		return err, true
	case <-late.C:
		t.sawf("%s had not returned %s after its context ended", name, grace)
		return nil, false
	}
}

func untilEnd(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(time.Until(deadline), 0)
}

// faulty makes the cloud fail while work is done.
func (t *trial) faulty(ctx context.Context, fault Fault, work func()) error {
	end, err := t.Hooks.InjectFault(ctx, fault)
	if err != nil {
		return hookFailed("InjectFault", err)
	}
	defer end()
	work()
	return nil
}

// errAnswered stands for a call that returned the right answer, and no error: a provider may know it without its cloud.
var errAnswered = errors.New("the right answer")

// untold is what a call returns that should have returned an error.
const untold = "no error, and not the right answer"

// named is a call with its name, for rules that hold for many. The call returns errAnswered if what it returned is right, and nil
// for a wrong answer without an error.
type named struct {
	name string
	call func(ctx context.Context) error
}

// answered returns errAnswered for a right answer, and the error of the call otherwise.
func answered(right bool, err error) error {
	if err == nil && right {
		return errAnswered
	}
	return err
}

// endWithContext tries that each call returns, with an error or the right answer, when its context has ended already.
func (t *trial) endWithContext(ctx context.Context, calls []named) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, c := range calls {
		if err, returned := t.promptly(ended, c.name, c.call); returned && err == nil {
			t.sawf("%s: %s, although its context had been canceled before the call", c.name, untold)
		}
	}
}

// endWithDeadline tries that each call returns by its deadline, with an error or the right answer, when the cloud does not answer.
func (t *trial) endWithDeadline(ctx context.Context, calls []named) error {
	return t.faulty(ctx, FaultHang, func() {
		for _, c := range calls {
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			if err, returned := t.promptly(short, c.name, c.call); returned && err == nil {
				t.sawf("%s: %s, although the cloud did not answer", c.name, untold)
			}
			cancel()
		}
	})
}

// failWithCloud tries that each call returns an error or the right answer when the cloud fails.
func (t *trial) failWithCloud(ctx context.Context, fault Fault, calls []named) error {
	return t.faulty(ctx, fault, func() {
		for _, c := range calls {
			if err := c.call(ctx); err == nil {
				t.sawf("%s: %s, although the cloud failed", c.name, untold)
			}
		}
	})
}
