package service

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/controller/service/writelimit"
)

// lanes are the write limiters. As in the reference, as many changes of targets as of Services go on at once, so that a Service whose calls are
// slow and fail keeps no other from following the nodes. Where the provider declares how many changes it bears, both lanes are one.
type lanes struct{ services, targets *writelimit.Limiter }

func newLanes(places int, shared bool, admit func(types.NamespacedName)) lanes {
	all := lanes{services: writelimit.New(places, admit)}
	if all.targets = all.services; !shared {
		all.targets = writelimit.New(places, admit)
	}
	return all
}

// of returns the lane of an action.
func (l lanes) of(act action) *writelimit.Limiter {
	if act.verb == verbRetarget {
		return l.targets
	}
	return l.services
}

// cancel says that a pass has ended and does not want to write.
func (l lanes) cancel(key types.NamespacedName) { l.cancelBut(nil, key) }

// cancelBut says that a pass wants to write in no other lane.
func (l lanes) cancelBut(kept *writelimit.Limiter, key types.NamespacedName) {
	for _, lane := range l.all() {
		if lane != kept {
			lane.Cancel(key)
		}
	}
}

// places returns how many changes may be under way at once.
func (l lanes) places() (sum int) {
	for _, lane := range l.all() {
		sum += lane.Places()
	}
	return sum
}

// waiting returns how many wait for a place.
func (l lanes) waiting() (sum int) {
	for _, lane := range l.all() {
		sum += lane.CountWaiting()
	}
	return sum
}

func (l lanes) stop() {
	for _, lane := range l.all() {
		lane.Stop()
	}
}

func (l lanes) all() []*writelimit.Limiter {
	if l.services == l.targets {
		return []*writelimit.Limiter{l.services}
	}
	return []*writelimit.Limiter{l.services, l.targets}
}
