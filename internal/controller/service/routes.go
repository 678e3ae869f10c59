package service

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/orphans"
)

// strays reports routes that lead to no node. The route controller removes those within the cluster's ranges, where it runs;
// what is left costs room in the cloud's table. They are only reported: a route does not say by whom it was made, and it may
// be another cluster's of the same name.
type strays struct {
	routes      cloudprovider.Routes
	clusterName string
	period      time.Duration
	reader      client.Reader
	metrics     *metrics
	// seen are those of the last look, told those that have been told of, by destination and target.
	seen, told map[string]bool
}

// run looks until ctx ends.
func (s *strays) run(ctx context.Context) {
	for {
		select {
		case <-time.After(s.period):
		case <-ctx.Done():
			return
		}
		err := s.look(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			logf.FromContext(ctx).V(1).Info("Could not look for routes that lead to no node; trying again", "reason", err.Error())
		}
	}
}

// look reports what two looks in a row have found.
func (s *strays) look(ctx context.Context) error {
	routes, err := s.routes.ListRoutes(cloud.WithPriority(ctx, cloud.PriorityRefresh), s.clusterName)
	if err != nil {
		return fmt.Errorf("listing routes: %w", err)
	}
	var nodes corev1.NodeList
	if err := s.reader.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil { // they are only read
		return fmt.Errorf("listing nodes: %w", err)
	}
	seen, told := map[string]bool{}, map[string]bool{}
	for _, route := range orphans.Routes(routes, nodes.Items, nil) {
		key := route.DestinationCIDR + " " + string(route.TargetNode)
		seen[key] = true
		if !s.seen[key] {
			continue // the first time counts for nothing
		}
		told[key] = true
		if !s.told[key] {
			logf.FromContext(ctx).Info("A route in the cloud leads to no node", "route", route.Name,
				"destination", route.DestinationCIDR, "node", route.TargetNode, "blackhole", route.Blackhole)
		}
	}
	s.seen, s.told = seen, told
	s.metrics.strayRoutes.Set(float64(len(told)))
	return nil
}
