package service

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/controller/service/writelimit"
)

// pools are the write limiters. As in the reference, as many changes of targets as of Services go on at once, so a Service whose calls are
// slow and fail keeps no other from following the nodes. Where the provider declares how many changes it bears, both pools are one.
type pools struct{ services, targets *writelimit.Limiter }

func newPools(places int, shared bool, admit func(types.NamespacedName)) pools {
	all := pools{services: writelimit.New(places, admit)}
	if all.targets = all.services; !shared {
		all.targets = writelimit.New(places, admit)
	}
	return all
}

// of returns the pool of an action.
func (l pools) of(act action) *writelimit.Limiter {
	if act.verb == verbRetarget {
		return l.targets
	}
	return l.services
}

// cancelBut says that a pass has ended and wants to write in no other pool than those in which it waits.
func (l pools) cancelBut(waits []*writelimit.Limiter, key types.NamespacedName) {
	for _, pool := range l.all() {
		if !slices.Contains(waits, pool) {
			pool.Cancel(key)
		}
	}
}

// only says that a pass writes in one pool, so no place in the other is reserved for it meanwhile. It keeps its turn where it waits. The function that
// is returned ends that.
func (l pools) only(pool *writelimit.Limiter, key types.NamespacedName) (done func()) {
	done = func() {}
	for _, other := range l.all() {
		if other != pool {
			other.Hold(key)
			done = func() { other.Resume(key) }
		}
	}
	return done
}

// apart reports whether the targets of a pass that waits for the place of its Service have places of their own.
func (l pools) apart(waits []*writelimit.Limiter) bool {
	return l.services != l.targets && slices.Contains(waits, l.services)
}

// places returns how many changes may be under way at once.
func (l pools) places() (sum int) {
	for _, pool := range l.all() {
		sum += pool.Places()
	}
	return sum
}

// waiting returns how many wait for a place.
func (l pools) waiting() (sum int) {
	for _, pool := range l.all() {
		sum += pool.CountWaiting()
	}
	return sum
}

func (l pools) stop() {
	for _, pool := range l.all() {
		pool.Stop()
	}
}

func (l pools) all() []*writelimit.Limiter {
	if l.services == l.targets {
		return []*writelimit.Limiter{l.services}
	}
	return []*writelimit.Limiter{l.services, l.targets}
}
