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
				Act: serve,
			},
			{
				Name: "idle", Title: "1,000 nodes, 200 Services, nothing happens for a minute", Only: untuned, Needs: "services-200",
				Limit: 4 * time.Minute, Rests: true,
				// The events of the Services are no part of what a minute costs in which nothing happens.
				Prepare: func(ctx context.Context, e *environment.Environment, _ figures.Size) error { return e.AwaitEvents(ctx) },
				Act:     resting(func(size figures.Size) time.Duration { return size.Idle }),
			},
			{
				Name: figures.NotReady, Title: "1,000 nodes fall silent: half are gone, half are off", Counts: "steps",
				Only: quick, Needs: "services-200", Limit: silentLimit, Prepare: loseMachines, Act: loseNodes,
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

// silentLimit is how long nodes that fall silent may take.
const silentLimit = 5 * time.Minute

// silentOneByOne has nodes fall silent while either manager asks for one at a time, as by default.
func silentOneByOne() Stage {
	return silent("silent-one", Scenario{
		Name: figures.NotReadyOne, Title: "The same, one question at a time (`--concurrent-node-lifecycle-syncs=1`)", Only: []string{figures.ReferenceTuned, figures.MooringPlain},
	}, func(string) []string { return []string{"--concurrent-node-lifecycle-syncs=1"} })
}

// silentAtOnce has nodes fall silent while Mooring believes a second denial as soon as it has it.
func silentAtOnce() Stage {
	return silent("silent-at-once", Scenario{
		Name: figures.NotReadyAtOnce, Title: "The same, without a time between the two denials", Only: quick,
	}, func(variant string) []string {
		if variant == figures.ReferenceTuned {
			return nil // it has no such time
		}
		return []string{"--node-deletion-min-denial-time=0s"}
	})
}

// silent is a cluster with Services whose nodes fall silent, with flags of its own.
func silent(name string, one Scenario, flags func(variant string) []string) Stage {
	one.Counts, one.Limit, one.Act = "steps", silentLimit, loseNodes
	one.Prepare = func(ctx context.Context, e *environment.Environment, size figures.Size) error {
		if err := serve(ctx, e, size, nil); err != nil {
			return err
		}
		return loseMachines(ctx, e, size)
	}
	return Stage{
		Name: name, Instances: func(size figures.Size) int { return size.Nodes }, Replicas: 1, Flags: flags, Scenarios: []Scenario{one},
		Prepare: func(ctx context.Context, e *environment.Environment, size figures.Size) error {
			return e.AddInitialized(ctx, size.Nodes)
		},
	}
}

// serve creates Services and waits until each has an address.
func serve(ctx context.Context, e *environment.Environment, size figures.Size, _ *figures.Result) error {
	if err := e.CreateServices(ctx, size.Services); err != nil {
		return err
	}
	return e.AwaitAddresses(ctx, size.Services)
}

// loseMachines changes the cloud: of the machines, half are gone and half are off. Their nodes still seem ready, so no
// manager asks.
func loseMachines(ctx context.Context, e *environment.Environment, size figures.Size) error {
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
