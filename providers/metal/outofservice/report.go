package outofservice

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	metalpower "github.com/mooring-ccm/mooring/providers/metal/power"
)

const (
	// ReasonWrongBMC says that the controller of the node's machine belongs to another machine. It is a warning.
	ReasonWrongBMC = "WrongBMC"
	// ReasonUnverifiedBMC says that the taint is not put on because it is not known whose controller it is. It is a warning.
	ReasonUnverifiedBMC = "UnverifiedBMC"
)

// reporter records events on nodes whose machines' power states are not used, each once for as long as nothing changes.
type reporter struct {
	recorder record.EventRecorder
	// last is what was recorded last, by the UIDs of nodes.
	last map[types.UID]string
}

// report records why what a controller says is not used, if it is not.
func (r *reporter) report(node *v1.Node, observed metalpower.Observation, f facts, settings Settings, now time.Time) {
	var wrong *metalpower.WrongSystemError
	var reason, message string
	switch {
	case errors.As(observed.Err, &wrong):
		reason, message = ReasonWrongBMC, "The power state is not used: "+wrong.Error()
	case untrusted(f, settings, now):
		reason, message = ReasonUnverifiedBMC, "The BMC says that the machine is off, but the system UUID that it gives, or the machine's, "+
			"is not known: pods and volumes stay on the node. Set systemUUID of the machine, or allowUnverified of its bmc"
	}
	if r.last[node.UID] == message {
		return
	}
	r.last[node.UID] = message
	if message == "" {
		delete(r.last, node.UID)
		return
	}
	r.recorder.Event(node, v1.EventTypeWarning, reason, message)
}

// forget leaves out nodes that are gone.
func (r *reporter) forget(present []*v1.Node) {
	kept := make(map[types.UID]string, len(r.last))
	for _, node := range present {
		if message, ok := r.last[node.UID]; ok {
			kept[node.UID] = message
		}
	}
	r.last = kept
}
