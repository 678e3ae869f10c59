package election

import (
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// observation is what this process has seen of the lease, and since when it has not changed. The zero value has seen nothing.
type observation struct {
	record *resourcelock.LeaderElectionRecord
	since  time.Time
}

// see takes in the lease as it is at now. Only a change of the record starts its duration anew; a label or annotation that
// another writer put on the Lease is no sign of life from its holder.
func (o *observation) see(record *resourcelock.LeaderElectionRecord, now time.Time) {
	if o.record != nil && apiequality.Semantic.DeepEqual(o.record, record) {
		return
	}
	seen := *record
	o.record, o.since = &seen, now
}

// expiry is when the lease expires if it is not renewed before.
func (o *observation) expiry() time.Time {
	return o.since.Add(time.Duration(o.record.LeaseDurationSeconds) * time.Second)
}

// freeFor reports whether a replica with the given identity may try to take the lease at now.
func (o *observation) freeFor(identity string, now time.Time) bool {
	holder := o.record.HolderIdentity
	return holder == "" || holder == identity || !now.Before(o.expiry())
}

// heldByAnother reports whether the lease has a holder, and not the one that it had.
func (o *observation) heldByAnother(than string) bool {
	return o.record.HolderIdentity != "" && o.record.HolderIdentity != than
}
