package election

import (
	"context"
	"maps"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// annotatedLeases is the client that client-go's lock reads and writes the Lease by: that lock knows its spec only. Each write of this
// replica as the holder carries the annotation that says where it runs, and every other write takes it away.
type annotatedLeases struct {
	coordinationv1client.LeasesGetter
	lock *Lock
}

func (a annotatedLeases) Leases(namespace string) coordinationv1client.LeaseInterface {
	return annotatedLease{a.LeasesGetter.Leases(namespace), a.lock}
}

type annotatedLease struct {
	coordinationv1client.LeaseInterface
	lock *Lock
}

// Get notes what the annotation says.
func (a annotatedLease) Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error) {
	lease, err := a.LeaseInterface.Get(ctx, name, options)
	if err == nil {
		a.lock.read = lease.Annotations[HolderPodAnnotation]
	}
	return lease, err
}

func (a annotatedLease) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return a.LeaseInterface.Create(ctx, a.annotated(ctx, lease), options)
}

func (a annotatedLease) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return a.LeaseInterface.Update(ctx, a.annotated(ctx, lease), options)
}

// annotated returns the lease with the annotation that goes with its holder.
func (a annotatedLease) annotated(ctx context.Context, lease *coordinationv1.Lease) *coordinationv1.Lease {
	annotation := ""
	if ptr.Deref(lease.Spec.HolderIdentity, "") == a.lock.Identity() {
		annotation = a.lock.announcePod(ctx)
	}
	if lease.Annotations[HolderPodAnnotation] == annotation {
		return lease
	}
	written := *lease
	written.Annotations = maps.Clone(lease.Annotations)
	if written.Annotations == nil {
		written.Annotations = map[string]string{}
	}
	if written.Annotations[HolderPodAnnotation] = annotation; annotation == "" {
		delete(written.Annotations, HolderPodAnnotation)
	}
	return &written
}
