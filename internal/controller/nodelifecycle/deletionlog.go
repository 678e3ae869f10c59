package nodelifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/message"
)

// annotationDeletions on the Lease of a DeletionLog holds the deletions that count against the limit, as JSON.
const annotationDeletions = "mooring.dev/node-deletions"

// DeletionLog is where deletions are noted before they happen, so that the limit holds over restarts and changes of the leader:
// an annotation on a Lease of its own. The Lease is created when the first deletion is noted.
//
// See ADR 21.
type DeletionLog struct {
	// Leases reaches the Leases of Namespace.
	Leases coordinationv1client.LeasesGetter
	// Namespace and Name identify the Lease. Each cloud controller manager of a cluster needs one of its own.
	Namespace, Name string

	// DryRun says that nothing is deleted, and so nothing noted.
	DryRun bool

	// lease is what was last read or written, or nil if the Lease does not exist.
	lease *coordinationv1.Lease
}

// String returns the Lease as namespace/name.
func (l *DeletionLog) String() string { return l.Namespace + "/" + l.Name }

// read returns the deletions that were noted. None from the future: the clock of another replica may have been ahead of ours. Such
// a time is noted anew, or else it would count from the beginning with each leader until it has come.
func (l *DeletionLog) read(ctx context.Context, now time.Time) ([]spending, error) {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	lease, err := l.Leases.Leases(l.Namespace).Get(ctx, l.Name, metav1.GetOptions{})
	if kit.Gone(err, coordinationv1.Resource("leases"), l.Name) {
		l.lease = nil
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record of node deletions from Lease %s: %w", l, err)
	}
	l.lease = lease
	noted := lease.Annotations[annotationDeletions]
	if noted == "" {
		return nil, nil
	}
	spent, err := parseSpending(noted)
	if err != nil {
		return nil, fmt.Errorf("the annotation %s of Lease %s, %q, is not a record of node deletions (remove the Lease to start anew): %w",
			annotationDeletions, l, message.Line(noted, 200), message.Bound(err, 200))
	}
	current := notAfter(spent, now)
	if slices.Equal(current, spent) {
		return spent, nil
	}
	if err := l.write(ctx, current, now); err != nil {
		return nil, fmt.Errorf("deletions were noted by a clock that was ahead of ours: %w", err)
	}
	return current, nil
}

// maxNoted is more than any number of deletions, and so small that no sum of them overflows.
const maxNoted = 1 << 30

// parseSpending reads what was noted. A number below zero would allow as many deletions more than the limit.
func parseSpending(noted string) ([]spending, error) {
	var spent []spending
	if err := json.Unmarshal([]byte(noted), &spent); err != nil {
		return nil, err
	}
	for i, one := range spent {
		if one.Count < 0 || one.Count > maxNoted {
			return nil, fmt.Errorf("[%d].count is %d", i, one.Count)
		}
	}
	return spent, nil
}

// write notes deletions in place of those that were noted before. It fails if anybody else has written since the last read.
func (l *DeletionLog) write(ctx context.Context, spent []spending, now time.Time) error {
	if l.DryRun {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	noted, err := json.Marshal(spent)
	if err != nil {
		return fmt.Errorf("encoding the record of node deletions: %w", err)
	}
	renewed := metav1.NewMicroTime(now)
	leases := l.Leases.Leases(l.Namespace)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}}
	save := func() (*coordinationv1.Lease, error) { return leases.Create(ctx, lease, metav1.CreateOptions{}) }
	if l.lease != nil {
		lease = l.lease.DeepCopy()
		save = func() (*coordinationv1.Lease, error) { return leases.Update(ctx, lease, metav1.UpdateOptions{}) }
	}
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationDeletions, string(noted))
	lease.Spec.RenewTime = &renewed
	saved, err := save()
	if err != nil {
		return fmt.Errorf("noting node deletions in Lease %s: %w", l, err)
	}
	l.lease = saved
	return nil
}
