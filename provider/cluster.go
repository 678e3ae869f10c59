package provider

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// clusterUIDKey is the key of the cluster's UID in a context.
type clusterUIDKey struct{}

// WithClusterUID returns a context that carries the UID of the cluster on whose behalf the cloud is called. The methods of
// cloudprovider.LoadBalancer have a name of the cluster among their parameters, and no room for more.
func WithClusterUID(ctx context.Context, uid types.UID) context.Context {
	return context.WithValue(ctx, clusterUIDKey{}, uid)
}

// ClusterUID returns the UID of the cluster on whose behalf a call is made, empty if that is not known. No two clusters have
// the same, whatever their names. A provider that writes it to the cloud with each load balancer that it makes, and returns it
// in LoadBalancer.ClusterUID, has its orphans deleted.
func ClusterUID(ctx context.Context) types.UID {
	uid, _ := ctx.Value(clusterUIDKey{}).(types.UID)
	return uid
}
