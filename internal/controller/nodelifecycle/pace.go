package nodelifecycle

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// pauseShare is the share of the time for which a node has been as it is that passes before the cloud is asked for it again.
	pauseShare = 4
	// longestStopped bounds the pause for a node whose instance is shut down: when it runs again, its kubelet says so. longestOther
	// bounds it for others, which may be shut down at any time.
	longestStopped = 2 * time.Minute
	longestOther   = 30 * time.Second
)

// pace says when nodes are asked for whose instances exist: the less often, the longer nothing has changed.
type pace map[types.UID]*pacing

// pacing is what is known of one node.
type pacing struct {
	// shows is what of the node makes a new question necessary when it changes.
	shows shown
	state provider.InstanceState
	// since is when the node, or what the cloud says of it, last changed, and next when it is asked for again.
	since, next time.Time
}

// shown is what a node shows of its kubelet, and of what others want with it.
type shown struct {
	providerID              string
	ready                   corev1.ConditionStatus
	heard, turned           time.Time
	announced, acknowledged bool
}

func shownBy(node *corev1.Node) shown {
	facts := factsOf(node, ours)
	is := shown{providerID: node.Spec.ProviderID, announced: facts.announced, acknowledged: facts.acknowledged}
	if _, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); ready != nil {
		is.ready, is.heard, is.turned = ready.Status, ready.LastHeartbeatTime.Time, ready.LastTransitionTime.Time
	}
	return is
}

// due reports whether a node is to be asked for.
func (p pace) due(node *corev1.Node, now time.Time) bool {
	known := p[node.UID]
	return known == nil || known.shows != shownBy(node) || !now.Before(known.next)
}

// note takes notice of an answer. A node that is not said to be there is asked for in every pass.
func (p pace) note(answer instances.Answer, now time.Time) {
	uid, said := answer.Node.UID, answer.Observation
	if answer.Err != nil || said.Status != instances.Found {
		delete(p, uid)
		return
	}
	known, shows := p[uid], shownBy(answer.Node)
	if known == nil || known.shows != shows || known.state != said.State {
		known = &pacing{shows: shows, state: said.State, since: now}
		p[uid] = known
	}
	longest := longestOther
	if said.State == provider.InstanceStopped {
		longest = longestStopped
	}
	known.next = now.Add(min(longest, now.Sub(known.since)/pauseShare))
}

// forget drops nodes that are not asked for any more.
func (p pace) forget(due map[types.UID]time.Time) {
	maps.DeleteFunc(p, func(uid types.UID, _ *pacing) bool { return due[uid].IsZero() })
}
