package scenario

import (
	"context"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/environment"
	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

// cluster is the life of a cluster whose nodes are initialized: Services come, nothing happens, machines go, Services go.
func cluster() Stage {
	return Stage{
		Name: "cluster", Instances: func(size figures.Size) int { return size.Nodes }, Replicas: 1,
		Prepare: func(ctx context.Context, e *environment.Environment, size figures.Size) error {
			return e.AddInitialized(ctx, size.Nodes)
		},
		Scenarios: []Scenario{
			{
				Name: "services-200", Title: "200 Services get an address", Counts: "Services", Limit: 4 * time.Minute,
				Act: func(ctx context.Context, e *environment.Environment, size figures.Size, _ *figures.Result) error {
					if err := e.CreateServices(ctx, size.Services); err != nil {
						return err
					}
					return e.AwaitAddresses(ctx, size.Services)
				},
			},
			{
				Name: "idle", Title: "1,000 nodes, 200 Services, nothing happens for a minute", Only: untuned, Needs: "services-200",
				Limit: 4 * time.Minute, Rests: true,
				// The events of the Services are no part of what a minute costs in which nothing happens.
				Prepare: func(ctx context.Context, e *environment.Environment, _ figures.Size) error { return e.AwaitEvents(ctx) },
				Act:     resting(func(size figures.Size) time.Duration { return size.Idle }),
			},
			{
				Name: "notready-1000", Title: "1,000 nodes fall silent: half are gone, half are off", Counts: "steps",
				Only: quick, Needs: "services-200", Limit: 5 * time.Minute, Prepare: loseMachines, Act: loseNodes,
			},
			{
				Name: "services-deleted", Title: "200 Services are deleted", Counts: "Services", Only: quick, Needs: "services-200",
				Limit: 4 * time.Minute, Prepare: calm,
				Act: func(ctx context.Context, e *environment.Environment, size figures.Size, _ *figures.Result) error {
					if err := e.DeleteServices(ctx, size.Services); err != nil {
						return err
					}
					return e.AwaitNoServices(ctx, size.Services)
				},
			},
		},
	}
}

// loseMachines changes the cloud: of the machines, half are gone and half are off. Their nodes still seem ready, so that no
// manager asks. All nodes are old enough to be deleted.
func loseMachines(ctx context.Context, e *environment.Environment, size figures.Size) error {
	if err := e.AwaitAge(ctx, size.MinimumAge); err != nil {
		return err
	}
	if err := e.AwaitQuiet(ctx); err != nil {
		return err
	}
	return e.Cloud.Remove(ctx, size.Nodes/2, size.Nodes-size.Nodes/2)
}

func loseNodes(ctx context.Context, e *environment.Environment, size figures.Size, _ *figures.Result) error {
	if err := e.FallSilent(ctx, size.Nodes); err != nil {
		return err
	}
	return e.AwaitLosses(ctx, size.Nodes, size.Nodes/2, size.Nodes-size.Nodes/2)
}
