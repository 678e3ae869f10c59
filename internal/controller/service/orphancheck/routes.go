package orphancheck

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

// Routes reports routes that lead to no node. The route controller removes those within the cluster's ranges, where it runs; the
// others cost room in the cloud's table. They are only reported: a route does not say by whom it was made, and it may be another
// cluster's of the same name.
type Routes struct {
	Cloud       cloudprovider.Routes
	ClusterName string
	// Period is the pause between two checks.
	Period  time.Duration
	Reader  client.Reader
	Metrics *Metrics

	// seen are those of the last check, reported those that have been reported, by destination and target.
	seen, reported map[string]bool
}

// Run checks until ctx ends.
func (r *Routes) Run(ctx context.Context) {
	for {
		select {
		case <-time.After(r.Period):
		case <-ctx.Done():
			return
		}
		err := r.check(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			logf.FromContext(ctx).V(1).Info("Could not look for routes that lead to no node; trying again", "reason", err.Error())
		}
	}
}

// check reports what two checks in a row have found.
func (r *Routes) check(ctx context.Context) error {
	routes, err := r.Cloud.ListRoutes(cloud.WithPriority(ctx, cloud.PriorityRefresh), r.ClusterName)
	if err != nil {
		return fmt.Errorf("listing routes: %w", err)
	}
	var nodes corev1.NodeList
	if err := r.Reader.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil { // they are only read
		return fmt.Errorf("listing nodes: %w", err)
	}
	seen, reported := map[string]bool{}, map[string]bool{}
	for _, route := range orphans.Routes(routes, nodes.Items, nil) {
		key := route.DestinationCIDR + " " + string(route.TargetNode)
		seen[key] = true
		if !r.seen[key] {
			continue // the first time counts for nothing
		}
		reported[key] = true
		if !r.reported[key] {
			logf.FromContext(ctx).Info("A route in the cloud leads to no node", "route", route.Name,
				"destination", route.DestinationCIDR, "node", route.TargetNode, "blackhole", route.Blackhole)
		}
	}
	r.seen, r.reported = seen, reported
	r.Metrics.routes.Set(float64(len(reported)))
	return nil
}
