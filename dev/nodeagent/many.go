package nodeagent

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// RegisterMany registers nodes with one client and so many workers at a time, and returns their agents in the order of
// specs. Each node then is registered and ready; it has a Lease once its agent runs. The first error ends it.
func RegisterMany(ctx context.Context, config *rest.Config, specs []Options, workers int) ([]*Agent, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("register %d nodes: %w", len(specs), err)
	}
	agents := make([]*Agent, len(specs))
	for i, spec := range specs {
		if agents[i], err = newAgent(client, spec); err != nil {
			return nil, err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, workers))
	for _, agent := range agents {
		group.Go(func() error { return agent.Register(ctx) })
	}
	return agents, group.Wait()
}

// RunAll keeps nodes alive until ctx ends. It returns when all have stopped.
func RunAll(ctx context.Context, agents []*Agent) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, agent := range agents {
		group.Go(func() error { return agent.Run(ctx) })
	}
	return group.Wait()
}
