package route

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// The reasons of the events on a Node; all but the first are warnings.
const (
	// ReasonWaitingForCloud says that the call for the node's route waits to be let in, and for what.
	ReasonWaitingForCloud = "WaitingForCloud"
	// ReasonFailedToCreateRoute says that a route to a pod CIDR of the node could not be made. It is the reference's event.
	ReasonFailedToCreateRoute = "FailedToCreateRoute"
	// ReasonPodCIDRConflict says that another node has the pod CIDR, and the route to it.
	ReasonPodCIDRConflict = string(podCIDRConflict)
	// ReasonRouteTableFull says that there is no room for the node's route.
	ReasonRouteTableFull = string(routeTableFull)
	// ReasonRouteTableNearlyFull says that the node's route was one of the last for which there is room.
	ReasonRouteTableNearlyFull = string(routeTableNearlyFull)
	// ReasonPodCIDROutsideClusterCIDRs says that the node's route will stay when the node is gone.
	ReasonPodCIDROutsideClusterCIDRs = string(outsideClusterCIDRs)
)

// teller writes events on nodes: failures once in a while, and everything else once for as long as it holds.
type teller struct {
	recorder record.EventRecorder
	failures kit.EventLimiter

	mu   sync.Mutex
	said map[saying]bool
}

type saying struct {
	want    key
	problem problem
}

func newTeller(recorder record.EventRecorder) *teller {
	return &teller{recorder: recorder, said: map[saying]bool{}}
}

// failed tells a node that its route could not be made. A route that could not be deleted is no node's concern any more.
func (t *teller) failed(action action, err error) {
	if action.want != nil && t.failures.Allow(action.want.uid, ReasonFailedToCreateRoute, time.Now()) {
		t.warn(*action.want, ReasonFailedToCreateRoute, fmt.Sprintf("Could not make the route to %s: %v", action.want.cidr, err))
	}
}

// waiting tells a node what the call for its route waits for.
func (t *teller) waiting(action action, reason string) {
	if action.want != nil && t.failures.Allow(action.want.uid, ReasonWaitingForCloud, time.Now()) {
		t.event(*action.want, corev1.EventTypeNormal, ReasonWaitingForCloud,
			fmt.Sprintf("Waiting to %s the route to %s: %s", action.kind, action.want.cidr, reason))
	}
}

// tell says what is new among the notices of a plan. What is not among them any more may be said again later.
func (t *teller) tell(notices []notice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.said
	t.said = make(map[saying]bool, len(notices))
	for _, notice := range notices {
		said := saying{notice.want.key(), notice.problem}
		t.said[said] = true
		if !before[said] {
			t.warn(notice.want, string(notice.problem), notice.message)
		}
	}
}

func (t *teller) warn(w want, reason, message string) {
	t.event(w, corev1.EventTypeWarning, reason, message)
}

func (t *teller) event(w want, kind, reason, message string) {
	t.recorder.Event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: string(w.node), UID: w.uid}, kind, reason, kit.EventMessage(message))
}
