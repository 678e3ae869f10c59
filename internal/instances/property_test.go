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

// world plays a scenario. It is the dumb model: it knows at every moment what there is.
type world struct {
	cloudprovider.Interface
	scenario scenario
	start    time.Time

	mu       sync.Mutex
	underway map[string]int
	problems []string
}

func (w *world) exists(instance int, at time.Time) bool {
	age := at.Sub(w.start)
	return age >= w.scenario.from[instance] && age < w.scenario.until[instance]
}

func (w *world) complain(format string, arguments ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, arguments...))
}

// call takes its time and may fail; the cloud's answer is the one of the moment when the call began.
func (w *world) call(ctx context.Context, what string) (time.Time, error) {
	began := time.Now()
	w.mu.Lock()
	w.underway[what]++
	if w.underway[what] > 1 {
		w.problems = append(w.problems, what+" is asked for twice at once")
	}
	w.mu.Unlock()
	defer func() { w.mu.Lock(); defer w.mu.Unlock(); w.underway[what]-- }()
	select {
	case <-time.After(w.scenario.callTime):
	case <-ctx.Done():
		return began, ctx.Err()
	}
	if age := began.Sub(w.start); age >= w.scenario.outage[0] && age < w.scenario.outage[1] {
		return began, errScripted
	}
	return began, nil
}

func (w *world) ProviderName() string                       { return "sim" }
func (w *world) Instances() (cloudprovider.Instances, bool) { return nil, false }
func (w *world) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return worldInstances{world: w}, true
}

func (w *world) Capabilities() provider.Capabilities {
	if !w.scenario.lists {
		return provider.Capabilities{}
	}
	capabilities := provider.Capabilities{ListInstances: func(ctx context.Context, yield func([]provider.Instance) error) error {
		began, err := w.call(ctx, "everything")
		for i := range w.scenario.from {
			if w.exists(i, began.Add(-w.scenario.lag)) { // pages come before the error does
				if err := yield([]provider.Instance{instanceFor(fmt.Sprint(i))}); err != nil {
					return err
				}
			}
		}
		return err
	}}
	if w.scenario.watches {
		capabilities.WatchInstances = w.watch
	}
	return capabilities
}

// watch tells every 100 ms what was true a delay ago, and says so by a mark, until the connection breaks. Nothing is told of a
// change that came and went between two marks.
func (w *world) watch(ctx context.Context, yield func(provider.InstanceEvent) error) error {
	began := time.Since(w.start)
	shown := map[int]bool{}
	for {
		for i := range w.scenario.from {
			event := provider.InstanceEvent{Kind: provider.InstanceSet, Instance: instanceFor(fmt.Sprint(i))}
			exists := w.exists(i, time.Now().Add(-w.scenario.delay))
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
			if w.broken(began) { // before the mark
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
		if w.broken(began) {
			return errScripted
		}
	}
}

// broken reports whether the connection of a watch that began at a time has broken since.
func (w *world) broken(began time.Duration) bool {
	now := time.Since(w.start)
	for _, at := range w.scenario.breaks {
		if began < at && at <= now {
			return true
		}
	}
	return false
}

// existedWithin reports whether an instance was there at any time between two.
func (w *world) existedWithin(instance int, from, to time.Time) bool {
	return to.Sub(w.start) >= w.scenario.from[instance] && from.Sub(w.start) < w.scenario.until[instance]
}

type worldInstances struct {
	cloudprovider.InstancesV2
	world *world
}

func (i worldInstances) InstanceMetadata(ctx context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	began, err := i.world.call(ctx, n.Name)
	if err != nil {
		return nil, err
	}
	if !i.world.exists(int(n.Name[0]-'0'), began) {
		return nil, provider.ErrInstanceNotFound
	}
	return found("sim://" + n.Name)
}

// late is by how much what the cloud says may be behind the truth.
func (w *world) late() time.Duration {
	if w.scenario.watches {
		return max(w.scenario.lag, w.scenario.delay)
	}
	return w.scenario.lag
}

// check holds an answer against the model.
func (w *world) check(q question, asked time.Time, got instances.Observation, err error) {
	switch {
	case errors.Is(err, errScripted):
		if after := asked.Sub(w.start); after >= w.scenario.outage[1]+time.Second+w.scenario.callTime {
			w.complain("%v: an error long after the outage", q)
		}
	case err != nil:
		w.complain("%v: error %v", q, err)
	case got.Status == instances.Found:
		if got.At.Before(asked.Add(-q.maxAge)) {
			w.complain("%v: found by an answer %s older than allowed", q, asked.Add(-q.maxAge).Sub(got.At))
		}
		if late := w.late(); !w.existedWithin(q.instance, got.At.Add(-late), got.At) {
			w.complain("%v: found, but it was not there at %s, nor %s before", q, got.At.Sub(w.start), late)
		}
	case got.Status == instances.NotFound:
		if got.At.Before(asked) {
			w.complain("%v: not found by an answer sought %s before the question", q, asked.Sub(got.At))
		}
		if listed := got.At.Add(-w.scenario.lag); w.exists(q.instance, listed) {
			w.complain("%v: not found, but it was there at %s", q, listed.Sub(w.start))
		}
	default:
		w.complain("%v: %s", q, got.Status)
	}
}

func TestAnswersAreTrueAndYoungEnough(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{scenario: drawScenario(rt), underway: map[string]int{}}
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
