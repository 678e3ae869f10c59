package conformance_test

import (
	"context"
	"errors"
	"slices"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

type rightRoutes = cloudprovider.Routes

// routeLists returns a mutation of what ListRoutes answers.
func routeLists(change func([]*cloudprovider.Route, error) ([]*cloudprovider.Route, error)) func(*mutant) {
	return func(m *mutant) {
		m.route.list = func(ctx context.Context, right rightRoutes, cluster string) ([]*cloudprovider.Route, error) {
			return change(right.ListRoutes(ctx, cluster))
		}
	}
}

// creates returns a mutation of CreateRoute.
func creates(create func(ctx context.Context, right rightRoutes, cluster, hint string, route *cloudprovider.Route) error,
) func(*mutant) {
	return func(m *mutant) { m.route.create = create }
}

// changeRoutes makes changes as the right provider does.
type changeRoutes func(changes []provider.RouteChange) ([]error, error)

// changesRoutes returns a mutation of ChangeRoutes.
func changesRoutes(change func(ctx context.Context, right changeRoutes, changes []provider.RouteChange) ([]error, error)) func(*mutant) {
	return func(m *mutant) {
		m.capabilities = func(c *provider.Capabilities) {
			right := c.ChangeRoutes
			c.ChangeRoutes = func(ctx context.Context, cluster string, changes []provider.RouteChange) ([]error, error) {
				return change(ctx, func(changes []provider.RouteChange) ([]error, error) { return right(ctx, cluster, changes) }, changes)
			}
		}
	}
}

// deleteMatching deletes the routes of a cluster for which matches holds, and reports whether there were any.
func deleteMatching(ctx context.Context, right rightRoutes, cluster string, matches func(*cloudprovider.Route) bool) (bool, error) {
	routes, err := right.ListRoutes(ctx, cluster)
	errs, found := []error{err}, false
	for _, route := range routes {
		if matches(route) {
			found = true
			errs = append(errs, right.DeleteRoute(ctx, cluster, route))
		}
	}
	return found, errors.Join(errs...)
}

func routeMutations() []mutation {
	return []mutation{
		{"routes-created", "every route is a black hole",
			routeLists(func(routes []*cloudprovider.Route, err error) ([]*cloudprovider.Route, error) {
				for _, route := range routes {
					route.Blackhole = true
				}
				return routes, err
			})},
		{"routes-several", "a node has one route",
			creates(func(ctx context.Context, right rightRoutes, cluster, hint string, route *cloudprovider.Route) error {
				_, err := deleteMatching(ctx, right, cluster, func(r *cloudprovider.Route) bool { return r.TargetNode == route.TargetNode })
				return errors.Join(err, right.CreateRoute(ctx, cluster, hint, route))
			})},
		{"routes-created-again", "a route that exists is deleted",
			creates(func(ctx context.Context, right rightRoutes, cluster, hint string, route *cloudprovider.Route) error {
				found, err := deleteMatching(ctx, right, cluster, func(r *cloudprovider.Route) bool {
					return r.DestinationCIDR == route.DestinationCIDR
				})
				if found {
					return err
				}
				return right.CreateRoute(ctx, cluster, hint, route)
			})},
		{"routes-name-ignored", "the route with that name is replaced",
			creates(func(ctx context.Context, right rightRoutes, cluster, hint string, route *cloudprovider.Route) error {
				_, err := deleteMatching(ctx, right, cluster, func(r *cloudprovider.Route) bool { return r.Name == route.Name })
				return errors.Join(err, right.CreateRoute(ctx, cluster, hint, route))
			})},
		{"routes-deleted", "nothing is deleted", func(m *mutant) {
			m.route.remove = func(context.Context, rightRoutes, string, *cloudprovider.Route) error { return nil }
		}},
		{"routes-delete-absent", "other routes of the node are deleted instead", func(m *mutant) {
			m.route.remove = func(ctx context.Context, right rightRoutes, cluster string, route *cloudprovider.Route) error {
				found, err := deleteMatching(ctx, right, cluster, func(r *cloudprovider.Route) bool { return r.Name == route.Name })
				if !found {
					_, err = deleteMatching(ctx, right, cluster, func(r *cloudprovider.Route) bool { return r.TargetNode == route.TargetNode })
				}
				return err
			}
		}},
		{"routes-black-hole", "no route is a black hole",
			routeLists(func(routes []*cloudprovider.Route, err error) ([]*cloudprovider.Route, error) {
				for _, route := range routes {
					route.Blackhole = false
				}
				return routes, err
			})},
		{"routes-replaced", "the old target stays", func(m *mutant) {
			m.capabilities = func(c *provider.Capabilities) {
				c.ReplaceRoute = func(context.Context, string, *cloudprovider.Route, *cloudprovider.Route) error { return nil }
			}
		}},
		{"routes-concurrent", "the second of two at once is lost", func(m *mutant) {
			m.route.create = func(ctx context.Context, right rightRoutes, cluster, hint string, route *cloudprovider.Route) error {
				if m.meet(ctx) == 2 {
					return nil
				}
				return right.CreateRoute(ctx, cluster, hint, route)
			}
		}},
		{"routes-changed", "deletions are left out", changesRoutes(func(_ context.Context, right changeRoutes, changes []provider.RouteChange) ([]error, error) {
			kept := slices.DeleteFunc(slices.Clone(changes), func(c provider.RouteChange) bool { return c.New == nil })
			_, err := right(kept)
			return make([]error, len(changes)), err
		})},
		{"routes-changed", "one more result than changes", changesRoutes(func(_ context.Context, right changeRoutes, changes []provider.RouteChange) ([]error, error) {
			results, err := right(changes)
			return append(results, nil), err
		})},
		{"routes-changed-again", "what is there is an error", func(m *mutant) {
			changesRoutes(func(_ context.Context, right changeRoutes, changes []provider.RouteChange) ([]error, error) {
				results, err := right(changes)
				if m.count() > 1 {
					results[0] = errors.New("there is no such route")
				}
				return results, err
			})(m)
		}},
		{"routes-changed-in-part", "all are reported as made", changesRoutes(func(_ context.Context, right changeRoutes, changes []provider.RouteChange) ([]error, error) {
			_, err := right(changes)
			return make([]error, len(changes)), err
		})},
		{"routes-changed-in-part", "none is made when one fails", changesRoutes(func(_ context.Context, _ changeRoutes, changes []provider.RouteChange) ([]error, error) {
			results := make([]error, len(changes))
			results[1] = errors.New("there is no such instance")
			return results, nil
		})},
		{"routes-failure", "a batch that failed is reported as made", changesRoutes(func(_ context.Context, right changeRoutes, changes []provider.RouteChange) ([]error, error) {
			_, _ = right(changes)
			return make([]error, len(changes)), nil
		})},
		{"routes-other-cluster", "the cluster's name is ignored", sameCluster},
		{"routes-failure", "a failure is reported as a short list",
			routeLists(func(routes []*cloudprovider.Route, _ error) ([]*cloudprovider.Route, error) { return routes, nil })},
		{"routes-context", "the context is ignored",
			creates(func(ctx context.Context, right rightRoutes, cluster, hint string, route *cloudprovider.Route) error {
				return right.CreateRoute(context.WithoutCancel(ctx), cluster, hint, route)
			})},
		{"routes-deadline", "the deadline is ignored",
			creates(func(ctx context.Context, right rightRoutes, cluster, hint string, route *cloudprovider.Route) error {
				return right.CreateRoute(context.WithoutCancel(ctx), cluster, hint, route)
			})},
	}
}
