package inventory_test

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

	"github.com/mooring-ccm/mooring/internal/inventory"
	"github.com/mooring-ccm/mooring/provider"
)

var errScripted = errors.New("the script says so")

// scenario is a life of four instances, times at which the cloud fails, and questions.
type scenario struct {
	from, until [4]time.Duration
	outage      [2]time.Duration
	lists       bool
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
	return provider.Capabilities{ListInstances: func(ctx context.Context, yield func([]provider.Instance) error) error {
		began, err := w.call(ctx, "everything")
		for i := range w.scenario.from {
			if w.exists(i, began) { // pages come before the error does
				if err := yield([]provider.Instance{instanceFor(fmt.Sprint(i))}); err != nil {
					return err
				}
			}
		}
		return err
	}}
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

// check holds an answer against the model.
func (w *world) check(q question, asked time.Time, got inventory.Observation, err error) {
	switch {
	case errors.Is(err, errScripted):
		if after := asked.Sub(w.start); after >= w.scenario.outage[1]+time.Second+w.scenario.callTime {
			w.complain("%v: an error long after the outage", q)
		}
	case err != nil:
		w.complain("%v: error %v", q, err)
	case got.Status == inventory.Found:
		if got.At.Before(asked.Add(-q.maxAge)) {
			w.complain("%v: found by an answer %s older than allowed", q, asked.Add(-q.maxAge).Sub(got.At))
		}
		if !w.exists(q.instance, got.At) {
			w.complain("%v: found, but it was not there at %s", q, got.At.Sub(w.start))
		}
	case got.Status == inventory.NotFound:
		if got.At.Before(asked) {
			w.complain("%v: not found by an answer sought %s before the question", q, asked.Sub(got.At))
		}
		if w.exists(q.instance, got.At) {
			w.complain("%v: not found, but it was there at %s", q, got.At.Sub(w.start))
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
			inv := inventory.New(inventory.Options{Cloud: w})
			var waiting sync.WaitGroup
			for _, q := range w.scenario.questions {
				waiting.Go(func() {
					time.Sleep(q.at)
					asked := time.Now()
					got, err := inv.Lookup(t.Context(), node(fmt.Sprint(q.instance)), q.maxAge)
					w.check(q, asked, got, err)
				})
			}
			waiting.Wait()
		})
		if len(w.problems) > 0 {
			rt.Fatalf("%v", w.problems)
		}
	})
}
