package provider

import (
	"context"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// Replica is what the part of a provider that runs on every replica is given.
type Replica struct {
	// Client talks to the API server as the manager does. On a replica that does not lead it is for reading only.
	Client kubernetes.Interface
	// Informers are this part's own: no other part asks them for anything, and the part that runs on every replica starts them.
	Informers informers.SharedInformerFactory
	// Registerer takes metrics that the secure port serves.
	Registerer prometheus.Registerer
	// ClusterCIDRs are --cluster-cidr, at most one of each IP family; none without that flag.
	ClusterCIDRs []netip.Prefix
	// ReportConfig says whether the cloud config as it is now is in force: nil if it is, or else why the one before still is. A provider
	// that follows its config calls it after every change; the manager makes events of it that kubectl shows. It returns at once.
	ReportConfig func(error)
}

// RunOnEveryReplicaFunc does what a provider does whether or not its replica leads, until ctx ends: announcing addresses to
// routers, for example. It writes nothing to Kubernetes and changes nothing for which two replicas would compete.
//
// It is called once in the life of a process, as soon as the API server has answered, and is the last to end: ctx ends after
// the controllers, the plugin and the lease. A replica that loses its lease because it is cut off from the API server stops
// its controllers and goes on with this until the API server answers again; only then does the process end, to begin anew. If the
// controllers have not stopped before the lease expires, the process ends by then, and this is not waited for. An error before
// ctx ends ends the process as a controller's does.
type RunOnEveryReplicaFunc func(ctx context.Context, replica Replica) error
