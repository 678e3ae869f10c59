package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/environment"
	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

const (
	// growthLimit bounds what takes minutes at 15,000 nodes.
	growthLimit = 10 * time.Minute
	// settleTime is how long a manager is left alone after it has started and is quiet: it waits for some things before it does them.
	settleTime = 5 * time.Second
)

// restFlags have the manager do within a minute of rest once all that it does regularly. figures.RestPeriods has the defaults.
var restFlags = []string{
	fmt.Sprintf("--node-status-update-frequency=%s", figures.RestPeriod), fmt.Sprintf("--load-balancer-drift-check-period=%s", figures.RestPeriod),
}

// Growth returns the stages of growing clusters: for each of some numbers of nodes, the life of a cluster with a plugin that lists, and
// for each of others a cluster whose cloud grants few calls to one that does not.
func Growth(size figures.Size) []Stage {
	var stages []Stage
	for _, nodes := range size.Growth {
		stages = append(stages, grown(nodes))
	}
	for _, nodes := range size.QuotaGrowth {
		stages = append(stages, grownUnderQuota(nodes))
	}
	return stages
}

// grown has nodes join, then Services come, and then nothing happens.
func grown(nodes int) Stage {
	services := nodes / figures.NodesAService
	only := []string{figures.MooringBulk}
	return Stage{
		Name: fmt.Sprintf("grown-%d", nodes), Instances: func(figures.Size) int { return nodes }, Replicas: 1, Inspect: true,
		Nodes: nodes, Services: services,
		Scenarios: []Scenario{
			{
				Name: figures.GrowthJoin, Title: "Nodes join", Counts: "nodes", Only: only, Limit: growthLimit,
				Act: func(ctx context.Context, e *environment.Environment, size figures.Size, _ *figures.Result) error {
					targets := min(size.Targets, nodes)
					if err := e.Join(ctx, 1, targets); err != nil {
						return err
					}
					if err := e.JoinAside(ctx, targets+1, nodes-targets); err != nil {
						return err
					}
					return e.AwaitInitialized(ctx, nodes)
				},
			},
			{
				Name: figures.GrowthServices, Title: "Services get an address", Counts: "Services", Needs: figures.GrowthJoin, Only: only,
				Limit: growthLimit, Prepare: calm,
				Act: func(ctx context.Context, e *environment.Environment, _ figures.Size, _ *figures.Result) error {
					if err := e.CreateServices(ctx, services); err != nil {
						return err
					}
					return e.AwaitAddresses(ctx, services)
				},
			},
			{
				Name: figures.GrowthRest, Title: "Nothing happens", Needs: figures.GrowthServices, Only: only, Limit: growthLimit,
				Prepare: restart, Rests: true, Act: resting(func(size figures.Size) time.Duration { return size.Idle }),
			},
		},
	}
}

// restart has another process take over, which has no events left to write, and waits until it has nothing to do.
func restart(ctx context.Context, e *environment.Environment, _ figures.Size) error {
	if err := e.Restart(ctx, restFlags...); err != nil {
		return err
	}
	if err := e.Pause(ctx, settleTime); err != nil {
		return err
	}
	return e.AwaitQuiet(ctx)
}

// grownUnderQuota has nodes join while the cloud grants few calls.
func grownUnderQuota(nodes int) Stage {
	return Stage{
		Name: fmt.Sprintf("grown-quota-%d", nodes), Instances: func(figures.Size) int { return nodes }, Replicas: 1, Inspect: true,
		Nodes: nodes,
		Scenarios: []Scenario{{
			Name: figures.GrowthQuota, Title: "Nodes join under a quota", Counts: "nodes", Only: []string{figures.MooringPlain},
			Limit: growthLimit,
			Prepare: func(_ context.Context, e *environment.Environment, size figures.Size) error {
				return e.Cloud.Limit(size.QuotaRate, size.QuotaBurst)
			},
			Act: joining(func(figures.Size) int { return nodes }),
		}},
	}
}
