package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-ccm/mooring/internal/tool/words"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

const (
	// podCIDRs is where kube-controller-manager takes the nodes' pod CIDRs from, and where the manager may have routes.
	podCIDRs = "10.244.0.0/16"
	// routePeriod is --route-reconciliation-period of the replicas, 10 s by default. A deleted route is made again after four periods.
	routePeriod = 2 * time.Second
	// cloudPoll is how often the cloud is asked for what has no watch.
	cloudPoll = 50 * time.Millisecond
)

// routes has the cloud send the packets for pods to their nodes.
func routes() section {
	return section{name: "routes", title: "Routes", steps: []step{
		{
			name: "made", title: "the cloud has a route to the pods of every node, and every node knows that", deadline: stepDeadline,
			run: awaitRoutes,
		},
		{name: "repaired", title: "a route is deleted in the cloud, and is made again", deadline: stepDeadline, run: deleteRoute},
	}}
}

// awaitNetworks waits until all nodes know that their pods are reached, and returns the nodes.
func awaitNetworks(ctx context.Context, s *environment) (nodes map[string]*corev1.Node, err error) {
	err = s.observed.await(ctx, func(v view) error {
		nodes = maps.Clone(v.nodes)
		return eachOf(slices.Sorted(maps.Keys(v.nodes)), func(name string) error { return networkAvailable(v.nodes[name]) })
	})
	return nodes, err
}

func awaitRoutes(ctx context.Context, s *environment) (string, error) {
	nodes, err := awaitNetworks(ctx, s)
	if err != nil {
		return "", err
	}
	found, err := s.awaitCloudRoutes(ctx, func(found []api.Route) error {
		return eachOf(slices.Sorted(maps.Keys(nodes)), func(name string) error {
			leads := func(r api.Route) bool { return r.TargetName == name && r.DestinationCIDR == nodes[name].Spec.PodCIDR }
			if !slices.ContainsFunc(found, leads) {
				return fmt.Errorf("the route to %s on %s", nodes[name].Spec.PodCIDR, name)
			}
			return nil
		})
	})
	if err != nil {
		return "", err
	}
	// The next step deletes one. A route that no list has shown yet may be one that lists show late, and is not made again at once.
	listed := s.cloud.Counts().Received(api.OpListRoutes)
	err = awaitCloud(ctx, func() error {
		if s.cloud.Counts().Received(api.OpListRoutes) < listed+2 { // the manager has the first of two when it asks for the second
			return errors.New("a list of the routes for the leader")
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, for example to %s by way of %s", words.Count(len(found), "route", "routes"), found[0].DestinationCIDR, found[0].TargetName), nil
}

// networkAvailable returns an error unless a node has a pod CIDR and the condition that there are routes to it.
func networkAvailable(node *corev1.Node) error {
	if node.Spec.PodCIDR == "" {
		return fmt.Errorf("%s, which has no pod CIDR", node.Name)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeNetworkUnavailable && condition.Status == corev1.ConditionFalse {
			return nil
		}
	}
	return fmt.Errorf("%s, which does not say that its network is available", node.Name)
}

func deleteRoute(ctx context.Context, s *environment) (string, error) {
	all, err := s.cloudRoutes(ctx)
	if err != nil {
		return "", err
	}
	deleted := all[0]
	if err := s.client.DeleteRoute(ctx, deleted.ID); err != nil {
		return "", err
	}
	began := time.Now()
	_, err = s.awaitCloudRoutes(ctx, func(found []api.Route) error {
		again := func(r api.Route) bool {
			return r.TargetInstance == deleted.TargetInstance && r.DestinationCIDR == deleted.DestinationCIDR && r.ID != deleted.ID
		}
		if !slices.ContainsFunc(found, again) {
			return fmt.Errorf("there is no route to %s by way of %s", deleted.DestinationCIDR, deleted.TargetName)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("to %s by way of %s, after %s; the replicas compare the routes every %s", deleted.DestinationCIDR,
		deleted.TargetName, seconds(time.Since(began)), routePeriod), nil
}

// cloudRoutes returns the routes that the cloud has for the cluster, in the order of the nodes.
func (s *environment) cloudRoutes(ctx context.Context) (found []api.Route, err error) {
	err = s.client.ListRoutes(ctx, clusterName, func(page []api.Route) error {
		found = append(found, page...)
		return nil
	})
	if err == nil && len(found) == 0 {
		err = errors.New("the cloud has no routes for the cluster")
	}
	slices.SortFunc(found, func(a, b api.Route) int { return cmp.Compare(a.TargetName, b.TargetName) })
	return found, err
}

// awaitCloudRoutes waits until nothing is missing among the cloud's routes, and returns them.
func (s *environment) awaitCloudRoutes(ctx context.Context, missing func([]api.Route) error) (found []api.Route, err error) {
	err = awaitCloud(ctx, func() error {
		if found, err = s.cloudRoutes(ctx); err != nil {
			return err
		}
		return missing(found)
	})
	return found, err
}

// awaitCloud waits until the cloud lacks nothing, and returns what it lacked last when ctx ends before.
func awaitCloud(ctx context.Context, lacks func() error) error {
	var lacking error
	err := wait.PollUntilContextCancel(ctx, cloudPoll, true, func(context.Context) (bool, error) {
		lacking = lacks()
		return lacking == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), lacking)
	}
	return nil
}
