package provider

import (
	"context"

	cloudprovider "k8s.io/cloud-provider"
)

// RouteChange is one change of a cluster's routes: a creation, a deletion, or both as the replacement of a route.
type RouteChange struct {
	// Old is the route to delete or to replace, as ListRoutes returned it; nil for a creation.
	Old *cloudprovider.Route
	// New is the route to make; nil for a deletion. One that replaces another leads to the same destination. Where the provider
	// declares ReplaceRoute, it is put in place of the old one without a moment in which there is none, as by that.
	New *cloudprovider.Route
	// NameHint is what CreateRoute is given besides the route to make.
	NameHint string
}

// ChangeRoutesFunc makes changes of a cluster's routes, which are independent of each other: no two are about destinations that
// overlap, and their order means nothing. There are no more of them than Capabilities.RouteBatch.
//
// It returns what became of each change, in their order: nil for one that is made, and otherwise an error of the kinds that
// CreateRoute, DeleteRoute and ReplaceRoute return. To make a change again that is made already is no error. An error instead of
// results says that nothing is known of any of them, as when the cloud takes all or none, or the answer was lost: they are
// tried again, fewer at a time, until one that cannot be made stands alone.
type ChangeRoutesFunc func(ctx context.Context, clusterName string, changes []RouteChange) ([]error, error)
