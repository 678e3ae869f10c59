package instances_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

var errScripted = errors.New("the script says so")

// scenario is a life of four instances, times at which the cloud fails, and questions.
type scenario struct {
	from, until [4]time.Duration
	outage      [2]time.Duration
	lists       bool
	watches     bool
	delay       time.Duration // of what the watch tells
	breaks      []time.Duration
	lag         time.Duration // of lists behind the truth
	callTime    time.Duration
	questions   []question
}

type question struct {
	at, maxAge time.Duration
	instance   int
}

func drawScenario(t *rapid.T) scenario {
	ms := func(label string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, label)) * time.Millisecond
	}
	s := scenario{lists: rapid.Bool().Draw(t, "lists"), callTime: ms("callTime", 900)}
	if s.lists {
		s.lag = ms("lag", 1500)
		s.watches = rapid.Bool().Draw(t, "watches")
	}
	s.delay = ms("delay", 1500)
	for at := time.Duration(0); at < 15*time.Second; {
		at += ms("unbroken", 6000) + time.Millisecond
		s.breaks = append(s.breaks, at)
	}
	for i := range s.from {
		s.from[i] = ms("from", 8000)
		s.until[i] = s.from[i] + ms("lifetime", 8000)
	}
	s.outage[0] = ms("outage", 8000)
	s.outage[1] = s.outage[0] + ms("outageTime", 1500)
	for range rapid.IntRange(1, 25).Draw(t, "questions") {
		s.questions = append(s.questions, question{
			at: ms("at", 10000), maxAge: ms("maxAge", 3000), instance: rapid.IntRange(0, 3).Draw(t, "instance"),
		})
	}
	return s
}

// environment plays a scenario. It is the dumb model: it knows at every moment what there is.
type environment struct {
	cloudprovider.Interface
	scenario scenario
	start    time.Time

	mu       sync.Mutex
	underway map[string]int
	problems []string
}

func (e *environment) exists(instance int, at time.Time) bool {
	age := at.Sub(e.start)
	return age >= e.scenario.from[instance] && age < e.scenario.until[instance]
}

func (e *environment) complain(format string, arguments ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.problems = append(e.problems, fmt.Sprintf(format, arguments...))
}

// call takes its time and may fail; the cloud's answer is the one of the moment when the call began.
func (e *environment) call(ctx context.Context, what string) (time.Time, error) {
	began := time.Now()
	e.mu.Lock()
	e.underway[what]++
	if e.underway[what] > 1 {
		e.problems = append(e.problems, what+" is asked for twice at once")
	}
	e.mu.Unlock()
	defer func() { e.mu.Lock(); defer e.mu.Unlock(); e.underway[what]-- }()
	select {
	case <-time.After(e.scenario.callTime):
	case <-ctx.Done():
		return began, ctx.Err()
	}
	if age := began.Sub(e.start); age >= e.scenario.outage[0] && age < e.scenario.outage[1] {
		return began, errScripted
	}
	return began, nil
}

func (e *environment) ProviderName() string                       { return "sim" }
func (e *environment) Instances() (cloudprovider.Instances, bool) { return nil, false }
func (e *environment) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return environmentInstances{environment: e}, true
}

func (e *environment) Capabilities() provider.Capabilities {
	if !e.scenario.lists {
		return provider.Capabilities{}
	}
	capabilities := provider.Capabilities{ListInstances: func(ctx context.Context, yield func([]provider.Instance) error) error {
		began, err := e.call(ctx, "everything")
		for i := range e.scenario.from {
			if e.exists(i, began.Add(-e.scenario.lag)) { // pages come before the error does
				if err := yield([]provider.Instance{instanceFor(fmt.Sprint(i))}); err != nil {
					return err
				}
			}
		}
		return err
	}}
	if e.scenario.watches {
		capabilities.WatchInstances = e.watch
	}
	return capabilities
}

// watch tells every 100 ms what was true a delay ago, and says so by a mark, until the connection breaks. Nothing is told of a
// change that came and went between two marks.
func (e *environment) watch(ctx context.Context, yield func(provider.InstanceEvent) error) error {
	began := time.Since(e.start)
	shown := map[int]bool{}
	for {
		for i := range e.scenario.from {
			event := provider.InstanceEvent{Kind: provider.InstanceSet, Instance: instanceFor(fmt.Sprint(i))}
			exists := e.exists(i, time.Now().Add(-e.scenario.delay))
			if exists == shown[i] {
				continue
			}
			shown[i] = exists
			if !exists {
				event.Kind = provider.InstanceDeleted
			}
			if err := yield(event); err != nil {
				return err
			}
			if e.broken(began) { // before the mark
				return errScripted
			}
		}
		if err := yield(provider.InstanceEvent{Kind: provider.InstancesCurrent}); err != nil {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		if e.broken(began) {
			return errScripted
		}
	}
}

// broken reports whether the connection of a watch that began at a time has broken since.
func (e *environment) broken(began time.Duration) bool {
	now := time.Since(e.start)
	for _, at := range e.scenario.breaks {
		if began < at && at <= now {
			return true
		}
	}
	return false
}

// existedWithin reports whether an instance was there at any time between two.
func (e *environment) existedWithin(instance int, from, to time.Time) bool {
	return to.Sub(e.start) >= e.scenario.from[instance] && from.Sub(e.start) < e.scenario.until[instance]
}

type environmentInstances struct {
	cloudprovider.InstancesV2
	environment *environment
}

func (i environmentInstances) InstanceMetadata(ctx context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	began, err := i.environment.call(ctx, n.Name)
	if err != nil {
		return nil, err
	}
	if !i.environment.exists(int(n.Name[0]-'0'), began) {
		return nil, provider.ErrInstanceNotFound
	}
	return found("sim://" + n.Name)
}

// late is by how much what the cloud says may be behind the truth.
func (e *environment) late() time.Duration {
	if e.scenario.watches {
		return max(e.scenario.lag, e.scenario.delay)
	}
	return e.scenario.lag
}

// check holds an answer against the model.
func (e *environment) check(q question, asked time.Time, got instances.Observation, err error) {
	switch {
	case errors.Is(err, errScripted):
		if after := asked.Sub(e.start); after >= e.scenario.outage[1]+time.Second+e.scenario.callTime {
			e.complain("%v: an error long after the outage", q)
		}
	case err != nil:
		e.complain("%v: error %v", q, err)
	case got.Status == instances.Found:
		if got.At.Before(asked.Add(-q.maxAge)) {
			e.complain("%v: found by an answer %s older than allowed", q, asked.Add(-q.maxAge).Sub(got.At))
		}
		if late := e.late(); !e.existedWithin(q.instance, got.At.Add(-late), got.At) {
			e.complain("%v: found, but it was not there at %s, nor %s before", q, got.At.Sub(e.start), late)
		}
	case got.Status == instances.NotFound:
		if got.At.Before(asked) {
			e.complain("%v: not found by an answer sought %s before the question", q, asked.Sub(got.At))
		}
		if listed := got.At.Add(-e.scenario.lag); e.exists(q.instance, listed) {
			e.complain("%v: not found, but it was there at %s", q, listed.Sub(e.start))
		}
	default:
		e.complain("%v: %s", q, got.Status)
	}
}

func TestAnswersAreTrueAndYoungEnough(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &environment{scenario: drawScenario(rt), underway: map[string]int{}}
		synctest.Test(t, func(t *testing.T) {
			w.start = time.Now()
			inv := instances.New(instances.Options{Cloud: w})
			var waiting, running sync.WaitGroup
			ctx, stop := context.WithCancel(t.Context())
			running.Go(func() { _ = inv.Start(ctx) })
			for _, q := range w.scenario.questions {
				waiting.Go(func() {
					time.Sleep(q.at)
					asked := time.Now()
					got, err := inv.Lookup(t.Context(), node(fmt.Sprint(q.instance)), q.maxAge)
					w.check(q, asked, got, err)
				})
			}
			waiting.Wait()
			stop()
			running.Wait()
		})
		if len(w.problems) > 0 {
			rt.Fatalf("%v", w.problems)
		}
	})
}
