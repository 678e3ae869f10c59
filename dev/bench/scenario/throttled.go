package scenario

import (
	"context"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/environment"
	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

const (
	// refusalsLimit is how long refusals are waited for. A manager that holds back its calls after the first ones gets no more.
	refusalsLimit = 2 * time.Minute
	// retryAfter is the time that the throttled API asks to wait, once it says any.
	retryAfter = 10 * time.Second
	// throttledLimit is for all rounds of a scenario, and what comes before each.
	throttledLimit = 8 * time.Minute
)

// throttled has the same nodes join an empty cluster, undisturbed and then while the cloud refuses to create the load balancers
// of some Services. It serves the calls for nodes at once, both times.
func throttled() Stage {
	return Stage{
		Name: "throttled", Instances: func(size figures.Size) int { return size.ThrottledNodes }, Replicas: 1,
		Scenarios: []Scenario{
			{
				Name: figures.Join300, Title: "300 nodes join", Counts: "nodes", Only: quick, Limit: throttledLimit, Act: joiningAfter(empty),
			},
			{
				Name: figures.Throttled300, Title: "300 nodes join while five Services are throttled", Counts: "nodes",
				Only: quick, Needs: figures.Join300, Limit: throttledLimit, Act: joiningAfter(throttleServices),
			},
		},
	}
}

// joiningAfter has the nodes join several times and times each join: one that takes a second says little. What comes before
// each is not timed.
func joiningAfter(prepare func(context.Context, *environment.Environment, figures.Size) error,
) func(context.Context, *environment.Environment, figures.Size, *figures.Result) error {
	join := joining(func(size figures.Size) int { return size.ThrottledNodes })
	return func(ctx context.Context, e *environment.Environment, size figures.Size, result *figures.Result) error {
		for range size.Rounds {
			if err := prepare(ctx, e, size); err != nil {
				return err
			}
			began := time.Now()
			err := join(ctx, e, size, result)
			result.Rounds = append(result.Rounds, time.Since(began).Seconds())
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// empty deletes all nodes and Services, and waits until the manager has nothing to do.
func empty(ctx context.Context, e *environment.Environment, _ figures.Size) error {
	if err := e.RemoveNodes(ctx); err != nil {
		return err
	}
	if err := e.RemoveServices(ctx); err != nil {
		return err
	}
	return e.AwaitQuiet(ctx)
}

// throttleServices empties the cluster and creates Services. The cloud refuses to create their load balancers, until it has refused each several
// times. It creates new Services each time, because a manager retries a refused Service ever more rarely. The first half of the refusals do not say
// how long to wait, and all later ones do. There are clouds of both kinds.
func throttleServices(ctx context.Context, e *environment.Environment, size figures.Size) error {
	if err := empty(ctx, e, size); err != nil {
		return err
	}
	refusals := size.ThrottledServices * size.Refusals
	if err := e.Cloud.ThrottleBalancers(refusals/2, retryAfter); err != nil {
		return err
	}
	before := e.Cloud.Refused()
	if err := e.CreateServices(ctx, size.ThrottledServices); err != nil {
		return err
	}
	return e.AwaitRefusals(ctx, before, refusals, refusalsLimit)
}
