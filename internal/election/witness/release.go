package witness

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// released returns the lease as client-go's elector releases it (LeaderElector.release in k8s.io/client-go/tools/leaderelection), with the
// resource version that was read. It reports false if anybody else than the identity holds the lease, or nobody.
func released(lease *coordinationv1.Lease, identity string, now time.Time) (*coordinationv1.Lease, bool) {
	if identity == "" || ptr.Deref(lease.Spec.HolderIdentity, "") != identity {
		return nil, false
	}
	free := lease.DeepCopy()
	free.Spec.HolderIdentity = ptr.To("")
	free.Spec.LeaseDurationSeconds = ptr.To[int32](1)
	free.Spec.AcquireTime, free.Spec.RenewTime = ptr.To(metav1.NewMicroTime(now)), ptr.To(metav1.NewMicroTime(now))
	return free, true
}

const (
	// firstPause is between the first two attempts to release a lease. Each further pause is twice as long, up to longestPause.
	firstPause   = 100 * time.Millisecond
	longestPause = time.Second
)

// release releases a lease that the identity holds, and reports whether it did. It tries until ctx ends. A lease that is not the
// identity's, or gone, needs no release.
func release(ctx context.Context, leases coordinationv1client.LeaseInterface, of Lease) (bool, error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		done, err := attempt(ctx, leases, of)
		if err == nil {
			return done, nil
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return false, err
		}
	}
}

// attempt reads the lease and releases it if it is the identity's. An update of what has changed since is refused by the API server.
func attempt(ctx context.Context, leases coordinationv1client.LeaseInterface, of Lease) (bool, error) {
	lease, err := leases.Get(ctx, of.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the lease %s: %w", of, err)
	}
	free, ours := released(lease, of.Identity, time.Now())
	if !ours {
		return false, nil
	}
	if _, err := leases.Update(ctx, free, metav1.UpdateOptions{}); err != nil {
		return false, fmt.Errorf("release the lease %s: %w", of, err)
	}
	return true, nil
}
