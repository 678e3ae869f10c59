package nodelifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/mooring-ccm/mooring/internal/leaserecord"
	"github.com/mooring-ccm/mooring/internal/message"
)

// annotationDeletions on the Lease of a DeletionLog holds the deletions that count against the limit, as JSON.
const annotationDeletions = "mooring.dev/node-deletions"

// DeletionLog is where deletions are noted before they happen, so the limit holds over restarts and changes of the leader:
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

	// version is what was last read or written.
	version leaserecord.Version
}

// String returns the Lease as namespace/name.
func (l *DeletionLog) String() string { return l.record().String() }

func (l *DeletionLog) record() leaserecord.Record {
	return leaserecord.Record{Leases: l.Leases, Namespace: l.Namespace, Name: l.Name, Annotation: annotationDeletions}
}

// read returns the deletions that were noted. None from the future: the clock of another replica may have been ahead of ours. Such
// a time is noted anew, or else it would count from the beginning with each leader until it has come.
func (l *DeletionLog) read(ctx context.Context, now time.Time) ([]spending, error) {
	noted, version, err := l.record().Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("the record of node deletions: %w", err)
	}
	if l.version = version; noted == "" {
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

// write records deletions in place of the earlier record. It fails if another client has written since the last read.
func (l *DeletionLog) write(ctx context.Context, spent []spending, now time.Time) error {
	if l.DryRun {
		return nil
	}
	noted, err := json.Marshal(spent)
	if err != nil {
		return fmt.Errorf("encoding the record of node deletions: %w", err)
	}
	version, err := l.record().Write(ctx, l.version, string(noted), now)
	if err != nil {
		return fmt.Errorf("the record of node deletions: %w", err)
	}
	l.version = version
	return nil
}
