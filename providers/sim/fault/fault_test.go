package fault

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// taken are the effects on some calls, empty for a call that works.
func taken(rules *Rules[string, string], calls ...string) (effects []string) {
	for _, call := range calls {
		effect, _ := rules.Take(call)
		if effect == nil {
			effect = new(string)
		}
		effects = append(effects, *effect)
	}
	return effects
}

func is(name string) func(string) bool { return func(call string) bool { return call == name } }

func TestWhichCallsMisbehave(t *testing.T) {
	rules := NewRules[string, string]()
	rules.Add(Rule[string, string]{Matches: is("get"), Skip: 1, Count: 2, Effect: "limited"})
	remove := rules.Add(Rule[string, string]{Matches: is("put"), Effect: "endless"})
	rules.Add(Rule[string, string]{Effect: "any"})
	if diff := cmp.Diff([]string{"", "limited", "endless", "any"}, taken(rules, "get", "get", "put", "list")); diff != "" {
		t.Errorf("the effects (-want +got):\n%s", diff)
	}
	if left := rules.List(); len(left) != 3 || left[0].Skip != 0 || left[0].Count != 1 {
		t.Errorf("left are %+v", left)
	}
	if diff := cmp.Diff([]string{"limited", "any", "endless"}, taken(rules, "get", "get", "put")); diff != "" {
		t.Errorf("after the rule was used up (-want +got):\n%s", diff)
	}
	remove()
	remove()
	if diff := cmp.Diff([]string{"any"}, taken(rules, "put")); diff != "" {
		t.Errorf("after one was removed (-want +got):\n%s", diff)
	}
	rules.Clear()
	if diff := cmp.Diff([]string{""}, taken(rules, "put")); diff != "" {
		t.Errorf("after all were cleared (-want +got):\n%s", diff)
	}
}

func TestWhatEndsACallThatHangs(t *testing.T) {
	const second, hour = time.Second, time.Hour
	for name, test := range map[string]struct {
		release func(*Rules[string, string])
		call    func(ctx context.Context, released <-chan struct{}) error
		want    error
		after   time.Duration
	}{
		"its context":          {func(*Rules[string, string]) {}, Hang, context.DeadlineExceeded, hour},
		"Clear":                {(*Rules[string, string]).Clear, Hang, ErrReleased, second},
		"Close":                {(*Rules[string, string]).Close, Hang, ErrReleased, second},
		"Close and then Clear": {func(r *Rules[string, string]) { r.Close(); r.Clear() }, Hang, ErrReleased, second},
		"its delay":            {(*Rules[string, string]).Close, delay(second / 2), nil, second / 2},
		"Close before that":    {(*Rules[string, string]).Close, delay(hour / 2), ErrReleased, second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rules, began := NewRules[string, string](), time.Now()
				rules.Add(Rule[string, string]{Count: 1})
				_, released := rules.Take("call") // which uses the rule up
				time.AfterFunc(second, func() { test.release(rules) })
				ctx, cancel := context.WithTimeout(t.Context(), hour)
				defer cancel()
				if err := test.call(ctx, released); !errors.Is(err, test.want) || time.Since(began) != test.after {
					t.Errorf("it ends with %v after %s, want %v after %s", err, time.Since(began), test.want, test.after)
				}
			})
		})
	}
}

func delay(d time.Duration) func(context.Context, <-chan struct{}) error {
	return func(ctx context.Context, released <-chan struct{}) error { return Delay(ctx, d, released) }
}

// After Close nothing hangs, and after Clear it does.
func TestLaterCalls(t *testing.T) {
	rules := NewRules[string, string]()
	rules.Clear()
	if _, released := rules.Take("call"); errors.Is(Delay(t.Context(), 0, released), ErrReleased) {
		t.Error("a call after Clear is released at once")
	}
	rules.Close()
	rules.Close()
	if _, released := rules.Take("call"); !errors.Is(Hang(t.Context(), released), ErrReleased) {
		t.Error("a call after Close hangs")
	}
}
