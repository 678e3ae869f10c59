package cloud

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/provider"
)

// What package admission does with refusals at the worst: the least rate, the least one that is only a guess, and a pause for one object.
const leastRate, leastGuess, firstPause = 0.5, 1.0, time.Second

// kinds are the calls of controllers, with the priority that is theirs.
var kinds = map[string]struct {
	call     func(m *misbehaving, ctx context.Context, object string) error
	priority admission.Priority
	group    string
	prefix   string // of the plugin's object
}{
	"node":      {(*misbehaving).node, admission.PriorityNewNode, admission.GroupInstances, ""},
	"refresh":   {(*misbehaving).node, admission.PriorityRefresh, admission.GroupInstances, ""},
	"exists":    {(*misbehaving).exists, admission.PriorityDeletion, admission.GroupInstances, ""},
	"ensure":    {(*misbehaving).ensure, admission.PriorityNewObject, admission.GroupLoadBalancers, ""},
	"get":       {(*misbehaving).get, admission.PriorityRefresh, admission.GroupLoadBalancers, "get "},
	"route":     {(*misbehaving).route, admission.PriorityUpdate, admission.GroupRoutes, ""},
	"balancers": {(*misbehaving).listBalancers, admission.PriorityRefresh, admission.GroupLoadBalancers, ""},
}

// badObject is an object that misbehaves forever.
type badObject struct{ kind, behavior, name string }

// behaviorOf returns what a bad object does. Random is of one object only.
func (m *misbehaving) behaviorOf(name string, random *rand.Rand) behavior {
	refusal := errors.New("ThrottlingException: Rate exceeded")
	switch name {
	case "fails":
		return fails(errors.New("server not found in region"))
	case "panics":
		return panics
	case "exits":
		return exits
	case "hangs":
		return m.hangs
	case "slow":
		return slow(4*time.Minute, nil)
	case "slow and fails":
		return slow(2*time.Minute, errors.New("no address in time"))
	case "throttled":
		return fails(refusal)
	case "throttled for long":
		return fails(&provider.ThrottledError{RetryAfter: 10 * time.Minute, Err: refusal})
	default: // one after the other
		return func(ctx context.Context) error {
			all := []string{"fails", "panics", "hangs", "slow", "throttled", "throttled for long"}
			m.mu.Lock()
			next := all[random.IntN(len(all))]
			m.mu.Unlock()
			return m.behaviorOf(next, random)(ctx)
		}
	}
}

// TestHealthyObjectsAreServed while any mix of others misbehaves, in any group, forever: not after they have healed.
func TestHealthyObjectsAreServed(t *testing.T) {
	healthy := []string{"node", "refresh", "exists", "ensure", "get", "route"}
	rapid.Check(t, func(r *rapid.T) {
		var bad []badObject
		for i := range rapid.IntRange(1, 24).Draw(r, "bad objects") {
			bad = append(bad, badObject{
				kind: rapid.SampledFrom([]string{"node", "refresh", "exists", "ensure", "get", "route", "balancers"}).Draw(r, "kind"),
				behavior: rapid.SampledFrom([]string{
					"fails", "panics", "exits", "hangs", "slow", "slow and fails", "throttled", "throttled for long", "one after the other",
				}).Draw(r, "behavior"),
				name: fmt.Sprint("bad-", i),
			})
		}
		worked := rapid.Bool().Draw(r, "the bad ones worked before")
		pause := rapid.SampledFrom([]time.Duration{7 * time.Second, 3 * time.Minute}).Draw(r, "pause between healthy calls")
		seed := rapid.Uint64().Draw(r, "seed")
		limits := limitsFor(bad, healthy)
		var mu sync.Mutex
		var late []string
		inVirtualTime(t, Options{}, func(t *testing.T, m *misbehaving) {
			m.misbehave(bad, worked, seed)
			for _, kind := range healthy {
				_ = kinds[kind].call(m, m.ctx, "healthy-"+kind)
			}
			// Each is the first for its group to be refused or to hang, which no manager can distinguish from a quota or a slow cloud.
			time.Sleep(3 * time.Minute)
			var all sync.WaitGroup
			for _, kind := range healthy {
				all.Go(func() {
					for range 12 {
						began := time.Now()
						err := kinds[kind].call(m, admission.WithPriority(m.ctx, kinds[kind].priority), "healthy-"+kind)
						if took := time.Since(began); err != nil || took > limits[kinds[kind].group] {
							mu.Lock()
							late = append(late, fmt.Sprintf("%s took %s, limit %s, error %v", kind, took, limits[kinds[kind].group], err))
							mu.Unlock()
						}
						time.Sleep(pause)
					}
				})
			}
			all.Wait()
		})
		if len(late) > 0 {
			r.Fatalf("%d healthy calls came late or failed: %q", len(late), late[:min(3, len(late))])
		}
	})
}

// limitsFor returns how long a healthy object's call may take, by its group: twice its usual time, and the second for which what
// hangs holds its places. Where objects of the group are refused for a quota, which may be the group's, all that wait share a
// call a second; where objects are refused and accepted by turns, as under a real quota, the healthy ones and those may have to
// share the least rate there is.
func limitsFor(bad []badObject, healthy []string) map[string]time.Duration {
	limits, refused, byTurns := map[string]time.Duration{}, map[string]bool{}, map[string]bool{}
	for _, object := range bad {
		group := kinds[object.kind].group
		switch object.behavior {
		case "throttled", "throttled for long":
			refused[group] = true
		case "one after the other":
			refused[group], byTurns[group] = true, true
			limits[group] += 2 * time.Duration(float64(time.Second)/leastRate)
		}
		limits[group] += time.Second / leastGuess
	}
	for _, object := range bad { // each of them may go first
		if group := kinds[object.kind].group; byTurns[group] {
			limits[group] += time.Duration(float64(time.Second) / leastRate)
		}
	}
	for _, kind := range healthy {
		group := kinds[kind].group
		limits[group] += time.Second / leastGuess
		if byTurns[group] {
			limits[group] += time.Duration(float64(time.Second) / leastRate)
		}
	}
	for group := range limits {
		if !refused[group] {
			limits[group] = 0
		}
		limits[group] += 2*usual + firstPause
	}
	return limits
}

// misbehave begins with what the bad objects do.
func (m *misbehaving) misbehave(bad []badObject, worked bool, seed uint64) {
	for i, object := range bad {
		kind := kinds[object.kind]
		if worked {
			_ = kind.call(m, m.ctx, object.name)
		}
		name := kind.prefix + object.name
		if object.kind == "balancers" {
			name = "ListLoadBalancers"
		}
		m.set(m.behaviorOf(object.behavior, rand.New(rand.NewPCG(seed, uint64(i)))), name)
	}
	for _, object := range bad {
		kind := kinds[object.kind]
		call := func(ctx context.Context, name string) error { return kind.call(m, ctx, name) }
		m.manyRetry(call, kind.priority, object.name)
	}
}
