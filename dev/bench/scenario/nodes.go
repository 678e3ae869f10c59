package scenario

import (
	"context"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/environment"
	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

// join has nodes join an empty cluster, in which an idle manager leads: first without pod CIDRs, then with.
func join() Stage {
	nodes := func(size figures.Size) int { return size.Nodes }
	return Stage{
		Name: "join", Instances: nodes, Replicas: 1,
		Scenarios: []Scenario{
			{
				Name: "join-1000", Title: "1,000 nodes join", Counts: "nodes", Limit: 4 * time.Minute, Act: joining(nodes), Again: empty,
				Once: []string{figures.ReferenceDefault, figures.MooringDefault},
			},
			{
				Name: figures.JoinRouted, Title: "1,000 nodes with pod CIDRs join and get a route", Counts: "nodes", Limit: 4 * time.Minute,
				Only: quick, Prepare: empty, Act: joiningWithRoutes, Again: empty,
			},
		},
	}
}

// joiningWithRoutes creates nodes with pod CIDRs, notes when all are initialized, and waits until all have a route as well.
func joiningWithRoutes(ctx context.Context, e *environment.Environment, size figures.Size, result *figures.Result) error {
	began := time.Now()
	if err := e.JoinWithCIDR(ctx, 1, size.Nodes); err != nil {
		return err
	}
	if err := e.AwaitInitialized(ctx, size.Nodes); err != nil {
		return err
	}
	result.InitializedRounds = append(result.InitializedRounds, time.Since(began).Seconds())
	return e.AwaitRouted(ctx, size.Nodes)
}

// joinMany is join with more nodes, and what they cost once they are there.
func joinMany() Stage {
	nodes := func(size figures.Size) int { return size.ManyNodes }
	return Stage{
		Name: "join-many", Instances: nodes, Replicas: 1,
		Scenarios: []Scenario{
			{
				Name: "join-5000", Title: "5,000 nodes join", Counts: "nodes", Only: quick, Limit: 3 * time.Minute, Act: joining(nodes),
			},
			{
				Name: "steady-5000", Title: "5,000 nodes, nothing happens for 5 minutes", Needs: "join-5000",
				Only: []string{figures.MooringBulk}, Limit: 10 * time.Minute, Prepare: calm, Rests: true,
				Act: resting(func(size figures.Size) time.Duration { return size.Steady }),
			},
		},
	}
}

// quota has nodes join while the cloud grants few calls.
func quota() Stage {
	nodes := func(size figures.Size) int { return size.QuotaNodes }
	return Stage{
		Name: "quota", Instances: nodes, Replicas: 1,
		Scenarios: []Scenario{{
			Name: "quota-600", Title: "600 nodes join under a quota of 20 calls a second", Counts: "nodes", Limit: 4 * time.Minute,
			Prepare: func(_ context.Context, e *environment.Environment, size figures.Size) error {
				return e.Cloud.Limit(size.QuotaRate, size.QuotaBurst)
			},
			Act: joining(nodes),
		}},
	}
}

// routes has nodes appear that wait for nothing but a route.
func routes() Stage {
	return Stage{
		Name: "routes", Instances: func(size figures.Size) int { return size.Nodes }, Replicas: 1,
		Scenarios: []Scenario{{
			Name: "routes-1000", Title: "Routes to 1,000 nodes", Counts: "nodes", Only: quick,
			Limit: 4 * time.Minute, Prepare: halfWay,
			Act: func(ctx context.Context, e *environment.Environment, size figures.Size, _ *figures.Result) error {
				if err := e.AddInitializedUnrouted(ctx, size.Nodes); err != nil {
					return err
				}
				return e.AwaitRouted(ctx, size.Nodes)
			},
		}},
	}
}

// halfWay waits until a manager that compares routes by the clock is half way to its next time, which is how long nodes wait
// for it on average. One that does not list by the clock is not waited for for long.
func halfWay(ctx context.Context, e *environment.Environment, _ figures.Size) error {
	const period = 10 * time.Second // --route-reconciliation-period
	if err := e.AwaitListedRoutes(ctx, period+period/2); err != nil {
		return err
	}
	return e.Pause(ctx, period/2)
}

// joining creates nodes and waits until all are initialized.
func joining(nodes func(figures.Size) int) func(context.Context, *environment.Environment, figures.Size, *figures.Result) error {
	return func(ctx context.Context, e *environment.Environment, size figures.Size, _ *figures.Result) error {
		if err := e.Join(ctx, 1, nodes(size)); err != nil {
			return err
		}
		return e.AwaitInitialized(ctx, nodes(size))
	}
}

// resting lets time pass.
func resting(duration func(figures.Size) time.Duration) func(context.Context, *environment.Environment, figures.Size, *figures.Result) error {
	return func(ctx context.Context, e *environment.Environment, size figures.Size, _ *figures.Result) error {
		return e.Pause(ctx, duration(size))
	}
}

// calm waits until the manager has nothing to do.
func calm(ctx context.Context, e *environment.Environment, _ figures.Size) error {
	return e.AwaitQuiet(ctx)
}
