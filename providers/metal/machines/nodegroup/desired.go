package nodegroup

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
)

// want is what a machine is to be.
type want string

const (
	// awake is a machine that is to be on. One of which nothing is recorded is, too.
	awake want = "Awake"
	// asleep is a machine that is to be off.
	asleep want = "Asleep"
)

// intent is what is recorded of a machine. Times are by the clock of the leader that wrote them.
type intent struct {
	Want want `json:"want"`
	// Since is when that was decided.
	Since time.Time `json:"since,omitzero"`
	// Waking says that the machine is to be turned on, and has not been seen to be on since.
	Waking bool `json:"waking,omitempty"`
	// Cycle is when the machine was last turned on by us.
	Cycle time.Time `json:"cycle,omitzero"`
	// Off is since when a machine that is asleep is known to be off; zero as long as that is not confirmed.
	Off time.Time `json:"off,omitzero"`
	// Held says why a machine that is asleep is not turned on by us. It ends when an operator turns it on.
	Held string `json:"held,omitempty"`
}

// sleeps reports whether the machine is asleep, as its BMC has confirmed.
func (i intent) sleeps() bool { return i.Want == asleep && !i.Off.IsZero() }

// rested reports whether the machine may be turned on without wearing it out.
func (i intent) rested(minCycle time.Duration, now time.Time) bool {
	return i.Cycle.IsZero() || now.Sub(i.Cycle) >= minCycle
}

// refusal is what became of the last attempts at a machine's BMC.
type refusal struct {
	code, message string
	// definite says that repetition is not expected to help, and failures how many attempts in a row have failed.
	definite bool
	failures int
}

// nodeFacts are what matters of the nodes that are, or may be, a machine's.
type nodeFacts struct {
	// count is how many there are, and name the name of one of them, or empty if there are no such nodes.
	count int
	name  string
	uid   types.UID
	// needed says that one is ready and has no taint of the autoscaler.
	needed bool
	// controlPlane says that one is of the control plane, and own that this replica runs on one.
	controlPlane, own bool
	// held says why the machine is not to be turned on by us once it is off; empty if nothing does.
	held string
}

// facts are what matters of a machine.
type facts struct {
	id, name, providerID string
	// maintenance says that the machine is under maintenance, and unreadable that what is recorded of it cannot be read.
	maintenance, unreadable bool
	intent                  intent
	// recorded says that there is an intent. Without one the machine is to be awake.
	recorded bool
	// power is the machine's. Off counts only from a BMC that names the machine; On counts from any.
	power nodestate.Power
	// powerSince and powerSeen are the times of the first and last reading that said so; zero if unknown.
	powerSince, powerSeen time.Time
	node                  nodeFacts
	// busy says that its BMC is being told something, and notBefore when it may be again.
	busy      bool
	notBefore time.Time
	// asked is when this leader asked its operating system to shut down, and told when it last told the BMC to turn it on; zero if not.
	asked, told time.Time
	// refused is what became of the last attempts; zero if the last one succeeded.
	refused refusal
}

// limits are what the operator decides about a group.
type limits struct {
	name                     string
	max                      int
	minCycle, shutDown, wake time.Duration
}

// The codes of errors of instances that do not come from a BMC.
const (
	codeResting     = "machine-rests"
	codeTimeout     = "power-on-timeout"
	codeMaintenance = "machine-under-maintenance"
	codeUnreadable  = "record-unreadable"
)

// shownAfter is how many attempts in a row fail before an error is shown that may pass by itself: a BMC that restarts should not make
// the autoscaler give a machine up.
const shownAfter = 3

// statusOf returns what a group is. Machines that are to be awake count in its size. Machines that go to sleep are shown as well.
func statusOf(machines []facts, l limits, now time.Time) provider.NodeGroupStatus {
	status := provider.NodeGroupStatus{}
	for _, m := range machines {
		if m.intent.sleeps() {
			continue
		}
		shown := provider.NodeGroupInstance{ProviderID: m.providerID, NodeName: m.nodeName(), State: stateOf(m), Error: errorOf(m, l, now)}
		if m.intent.Want != asleep {
			status.TargetSize++
		}
		status.Instances = append(status.Instances, shown)
	}
	return status
}

// nodeName is the name under which the machine's kubelet registers, or has.
func (m facts) nodeName() types.NodeName { return types.NodeName(cmp.Or(m.node.name, m.name)) }

// stateOf returns where a machine is that is not asleep. One that lost its power without being asked is of unknown state.
func stateOf(m facts) provider.NodeGroupInstanceState {
	switch {
	case m.intent.Want == asleep:
		return provider.NodeGroupInstanceDeleting
	case m.power == nodestate.On:
		return provider.NodeGroupInstanceRunning
	case m.intent.Waking:
		return provider.NodeGroupInstanceCreating
	default:
		return provider.NodeGroupInstanceUnknown
	}
}

// errorOf returns why a machine will not be what it is to be; nil if nothing is known to be wrong.
func errorOf(m facts, l limits, now time.Time) *provider.NodeGroupInstanceError {
	waking := m.intent.Waking && m.power != nodestate.On
	switch {
	case m.unreadable:
		return &provider.NodeGroupInstanceError{Code: codeUnreadable, Message: fmt.Sprintf("the record of machine %s cannot be read", m.name)}
	case !waking && m.intent.Want != asleep:
		return nil
	case m.maintenance:
		return &provider.NodeGroupInstanceError{Code: codeMaintenance, Message: fmt.Sprintf("machine %s is under maintenance", m.name)}
	case waking && !m.intent.begun() && !m.intent.rested(l.minCycle, now):
		return &provider.NodeGroupInstanceError{OutOfResources: true, Code: codeResting, Message: fmt.Sprintf(
			"machine %s was turned on at %s and may be again at %s", m.name, stamp(m.intent.Cycle), stamp(m.intent.Cycle.Add(l.minCycle)))}
	case m.refused.code != "" && (m.refused.definite || m.refused.failures >= shownAfter):
		return &provider.NodeGroupInstanceError{Code: m.refused.code, Message: m.refused.message}
	case waking && now.Sub(m.intent.Since) >= l.wake:
		return &provider.NodeGroupInstanceError{Code: codeTimeout, Message: fmt.Sprintf(
			"machine %s is to be on since %s, and its BMC does not say that it is", m.name, stamp(m.intent.Since))}
	default:
		return nil
	}
}

// begun reports whether the machine has been told to turn on since that was decided.
func (i intent) begun() bool { return !i.Cycle.Before(i.Since) && !i.Cycle.IsZero() }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
