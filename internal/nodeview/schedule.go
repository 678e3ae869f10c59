package nodeview

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// pauseShare is the share of the time for which a node has been as it is that passes before the cloud is asked for it again.
	pauseShare = 4
	// ManyOff is how many machines that are off are asked for within admission.MaxGroupPause: 20 questions a second.
	ManyOff = 600
)

// failurePauses are the pauses of a node for which the cloud returns errors, where each node is a question of its own.
var failurePauses = kit.Backoff{First: instances.AnswerWait, Longest: admission.MaxGroupPause}

// next returns when the cloud is to be asked again for a node that is wanted: the less often, the longer nothing has changed, and, of machines that
// are off, the more of these there are. One that may be shut down at any time waits at most for as long as a cloud is left alone that fails all calls.
// A node for which there is no answer is asked for in every pass that its failures allow.
func next(row Row, node *corev1.Node, off int) time.Time {
	switch {
	case !row.says():
		return time.Time{}
	case !row.expected.IsZero():
		return row.expected
	}
	longest := admission.MaxGroupPause
	if row.Observation.State == provider.InstanceStopped {
		longest = kit.LongestRetry // when it runs again, its kubelet says so
	}
	pause := min(longest, row.asked.Sub(row.changed)/pauseShare)
	if row.isOff(node) {
		pause = max(pause, admission.MaxGroupPause*time.Duration(min(off, ManyOff))/ManyOff)
	}
	return row.asked.Add(pause)
}
