package outofservice

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

const (
	// fieldManager names us in the managed fields of nodes.
	fieldManager = "mooring-out-of-service"
	// writeTimeout is the deadline of one write to the API server.
	writeTimeout = 10 * time.Second
)

// The reasons of the events on a Node.
const (
	// ReasonOutOfService says that the node got the taint. It is a warning.
	ReasonOutOfService = "MachineOff"
	// ReasonInService says that the taint was taken off.
	ReasonInService = "MachineOn"
)

// outcome is what became of an action.
type outcome int

const (
	// written actions took effect.
	written outcome = iota
	// outdated actions did not: the node has changed since it was decided on, or is gone.
	outdated
	// failed actions may have taken effect.
	failed
)

// writer carries plans out.
type writer struct {
	nodes    corev1client.NodesGetter
	recorder record.EventRecorder
}

// apply carries out one action.
func (w writer) apply(ctx context.Context, action action) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	patch, err := action.patch()
	if err == nil {
		options := metav1.PatchOptions{FieldManager: fieldManager}
		_, err = w.nodes.Nodes().Patch(ctx, action.node.name, types.MergePatchType, patch, options)
	}
	switch {
	case err == nil:
		w.record(action)
		return written, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return outdated, nil
	default:
		return failed, fmt.Errorf("%s of node %s: %w", action, action.node.name, err)
	}
}

// record records on the node what was done, and why.
func (w writer) record(action action) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: action.node.name, UID: action.node.uid}}
	if action.add {
		w.recorder.Eventf(node, v1.EventTypeWarning, ReasonOutOfService,
			"The machine is off since %s, as its BMC confirms: pods and volumes leave node %s by the taint %s",
			action.node.since.UTC().Format(time.RFC3339), action.node.name, v1.TaintNodeOutOfService)
		return
	}
	w.recorder.Eventf(node, v1.EventTypeNormal, ReasonInService,
		"The machine is on and node %s ready again: the taint %s was taken off", action.node.name, v1.TaintNodeOutOfService)
}

// String names the action in errors and metrics.
func (a action) String() string {
	if a.add {
		return "taint"
	}
	return "untaint"
}
