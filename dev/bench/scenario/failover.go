package scenario

import (
	"context"
	"syscall"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/environment"
	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

// failover has the leader stop while a standby waits and a node joins.
func failover() Stage {
	return Stage{
		Name: "failover", Instances: func(size figures.Size) int { return size.Nodes + 2 }, Replicas: 2,
		Prepare: func(ctx context.Context, e *environment.Environment, size figures.Size) error {
			return e.AddInitialized(ctx, size.Nodes)
		},
		Scenarios: []Scenario{
			{
				Name: "idle-replicas", Title: "1,000 nodes, two replicas, nothing happens for a minute", Only: untuned,
				Limit: 4 * time.Minute, Prepare: calm, Rests: true, Act: resting(func(size figures.Size) time.Duration { return size.Idle }),
			},
			{
				Name: "leader-sigterm", Title: "The leader gets SIGTERM, and a node joins", Counts: "nodes", Limit: 2 * time.Minute,
				Act: succession(syscall.SIGTERM, 1),
			},
			{
				Name: "leader-sigkill", Title: "The leader's container is killed, and a node joins", Counts: "nodes", Limit: 2 * time.Minute,
				Prepare: func(ctx context.Context, e *environment.Environment, _ figures.Size) error {
					return e.StartManager(ctx)
				},
				Act: succession(syscall.SIGKILL, 2),
			},
		},
	}
}

// succession stops the leader, then joins a node. It waits until the next leader has initialized this node.
func succession(signal syscall.Signal, offset int) func(context.Context, *environment.Environment, figures.Size, *figures.Result) error {
	return func(ctx context.Context, e *environment.Environment, size figures.Size, result *figures.Result) error {
		began := time.Now()
		before, err := e.StopLeader(signal)
		if err != nil {
			return err
		}
		if err := e.Join(ctx, size.Nodes+offset, 1); err != nil {
			return err
		}
		if signal == syscall.SIGKILL {
			if err := e.ReportKilled(ctx); err != nil {
				return err
			}
		}
		if err := e.AwaitNextLeader(ctx, before); err != nil {
			return err
		}
		result.LeaseSeconds = time.Since(began).Seconds()
		return e.AwaitInitializedNode(ctx, size.Nodes+offset)
	}
}
