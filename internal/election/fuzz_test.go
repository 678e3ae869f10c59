package election

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
)

// FuzzLease has another writer put anything into the Lease. Whatever its times say, it is free for another replica from the end of its duration
// on, by this process's clock since the last change of the record, and not before, unless it names no holder.
func FuzzLease(f *testing.F) {
	f.Add("other", int32(15), int64(0), int32(0), uint32(14), uint32(1), false)
	f.Add("other", int32(15), int64(0), int32(0), uint32(15), uint32(15), false)
	f.Add("", int32(15), int64(-1), int32(-1), uint32(0), uint32(0), false)
	f.Add("us", int32(0), int64(253402300800), int32(1<<30), uint32(1), uint32(1), false)
	f.Add("other", int32(-1<<31), int64(-1<<62), int32(7), uint32(0), uint32(3), true)
	f.Add("other\x00\xff", int32(1<<31-1), int64(1<<62), int32(7), uint32(1<<31), uint32(3), true)
	f.Fuzz(func(t *testing.T, holder string, duration int32, renewed int64, transitions int32, first, then uint32, bare bool) {
		spec := coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &duration}
		if !bare {
			at := metav1.NewMicroTime(time.Unix(renewed, 0))
			spec.AcquireTime, spec.RenewTime, spec.LeaseTransitions = &at, &at, ptr.To(transitions)
		}
		start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		var seen observation
		seen.see(resourcelock.LeaseSpecToLeaderElectionRecord(&spec), start)
		// The same record again, read later: no sign of life.
		at := start.Add(time.Duration(first) * time.Second)
		seen.see(resourcelock.LeaseSpecToLeaderElectionRecord(&spec), at)
		want := holder == "" || holder == "us" || int64(first) >= int64(duration)
		if free := seen.freeFor("us", at); free != want {
			t.Errorf("%d s after it was seen, a lease of %q for %d s is free: %t", first, holder, duration, free)
		}
		// Another one is a sign of life, also if it says less.
		spec.LeaseTransitions = ptr.To(transitions ^ 1)
		seen.see(resourcelock.LeaseSpecToLeaderElectionRecord(&spec), at)
		want = holder == "" || holder == "us" || int64(then) >= int64(duration)
		if free := seen.freeFor("us", at.Add(time.Duration(then)*time.Second)); free != want {
			t.Errorf("%d s after it was renewed, a lease of %q for %d s is free: %t", then, holder, duration, free)
		}
	})
}
