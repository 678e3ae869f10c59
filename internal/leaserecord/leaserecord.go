// Package leaserecord keeps a record of the manager in an annotation of a Lease of its own. A kubelet may write its Node, and no such Lease.
package leaserecord

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// ErrOutdated says that another replica has written the record since it was read. Nothing was written.
var ErrOutdated = errors.New("the record has changed since it was read")

// Record says where a record is.
type Record struct {
	// Leases reaches the Leases of Namespace.
	Leases coordinationv1client.LeasesGetter
	// Namespace and Name identify the Lease. Write creates it.
	Namespace, Name string
	// Annotation is the key that holds the text.
	Annotation string
}

// String returns the Lease as namespace/name.
func (r Record) String() string { return r.Namespace + "/" + r.Name }

// Version is a record as the API server had it. The zero value stands for a Lease that does not exist.
type Version struct{ lease *coordinationv1.Lease }

// Lease returns the object, which is only read, for events; nil if it does not exist.
func (v Version) Lease() *coordinationv1.Lease { return v.lease }

// Read returns the text of the record, empty if there is none, and the version to write the next one after.
func (r Record) Read(ctx context.Context) (text string, read Version, err error) {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	lease, err := r.Leases.Leases(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	switch {
	case kit.Gone(err, coordinationv1.Resource("leases"), r.Name):
		return "", Version{}, nil
	case err != nil:
		return "", Version{}, fmt.Errorf("reading the Lease %s: %w", r, err)
	}
	return lease.Annotations[r.Annotation], Version{lease}, nil
}

// Write stores a text in place of the one that was read, and returns its version. It is an ErrOutdated if that has changed.
func (r Record) Write(ctx context.Context, after Version, text string, now time.Time) (Version, error) {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	leases := r.Leases.Leases(r.Namespace)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
	save := func() (*coordinationv1.Lease, error) { return leases.Create(ctx, lease, metav1.CreateOptions{}) }
	if after.lease != nil {
		lease = after.lease.DeepCopy()
		save = func() (*coordinationv1.Lease, error) { return leases.Update(ctx, lease, metav1.UpdateOptions{}) }
	}
	renewed := metav1.NewMicroTime(now)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, r.Annotation, text)
	lease.Spec.RenewTime = &renewed
	saved, err := save()
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return Version{}, fmt.Errorf("writing the Lease %s: %w: %w", r, ErrOutdated, err)
	case err != nil:
		return Version{}, fmt.Errorf("writing the Lease %s: %w", r, err)
	}
	return Version{saved}, nil
}
