package outofservice

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/providers/metal/nodepatch"
)

// fieldManager names us in the managed fields of nodes.
const fieldManager = "mooring-out-of-service"

// The reasons of the events on a Node.
const (
	// ReasonOutOfService says that the node got the taint. It is a warning.
	ReasonOutOfService = "MachineOff"
	// ReasonInService says that the taint was taken off.
	ReasonInService = "MachineOn"
)

// writer carries plans out.
type writer struct {
	nodes    corev1client.NodesGetter
	recorder record.EventRecorder
}

// apply carries out one action. It returns nodepatch.ErrOutdated for a node that has changed, or is gone.
func (w writer) apply(ctx context.Context, action action) error {
	patch, err := action.patch()
	if err == nil {
		err = nodepatch.Apply(ctx, w.nodes, action.node.Name, patch, fieldManager)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	w.record(action)
	return nil
}

// record records on the node what was done, and why.
func (w writer) record(action action) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: action.node.Name, UID: action.node.UID}}
	if action.add {
		w.recorder.Eventf(node, v1.EventTypeWarning, ReasonOutOfService,
			"The machine is off since %s, as its BMC confirms: pods and volumes leave node %s by the taint %s",
			action.node.since.UTC().Format(time.RFC3339), action.node.Name, v1.TaintNodeOutOfService)
		return
	}
	w.recorder.Eventf(node, v1.EventTypeNormal, ReasonInService,
		"The machine is on and node %s ready again: the taint %s was taken off", action.node.Name, v1.TaintNodeOutOfService)
}

// String names the action in errors and metrics.
func (a action) String() string {
	if a.add {
		return "taint"
	}
	return "untaint"
}
