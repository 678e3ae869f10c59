package dead

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

	metalpower "github.com/mooring-ccm/mooring/providers/metal/machines/power"
)

const (
	// readTimeout is the deadline of one look at a node, and writeTimeout is the deadline of one write to it.
	readTimeout, writeTimeout = 5 * time.Second, 10 * time.Second
	// fieldManager names us in the managed fields of nodes.
	fieldManager = "mooring-out-of-service"
)

// The reasons of the events on a Node.
const (
	// ReasonOutOfService says that the node got the taint. It is a warning.
	ReasonOutOfService = "MachineOff"
	// ReasonInService says that the taint was taken off.
	ReasonInService = "MachineOn"
	// ReasonWrongBMC says that the controller of the node's machine belongs to another machine. It is a warning.
	ReasonWrongBMC = "WrongBMC"
	// ReasonUnverifiedBMC says that the taint is not put on because it is not known whose controller it is. It is a warning.
	ReasonUnverifiedBMC = "UnverifiedBMC"
	// ReasonFencing says that the machine is about to be turned off. It is a warning.
	ReasonFencing = "FencingMachine"
	// ReasonFenced says that the machine was turned off, as its controller confirms. It is a warning.
	ReasonFenced = "MachineFenced"
	// ReasonFencingFailed says that the machine could not be turned off, or that this is not confirmed. It is a warning.
	ReasonFencingFailed = "FencingFailed"
	// ReasonFencingHeld says why the machine of a silent node is not turned off before the operator acts. It is a warning.
	ReasonFencingHeld = "FencingHeld"
)

// writer carries plans out.
type writer struct {
	nodes    corev1client.NodesGetter
	recorder record.EventRecorder
	machines Machines
}

// read returns a node as the API server has it now, not as it was delivered.
func (w writer) read(ctx context.Context, name string) (*v1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	node, err := w.nodes.Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return node, nil
}

// changeTaint carries out one change of a taint. It returns errOutdated for a node that has changed, or is gone. After another error it may
// have been written.
func (w writer) changeTaint(ctx context.Context, action action) error {
	patch, err := action.patch()
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	name := action.node.name
	_, err = w.nodes.Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return fmt.Errorf("%s: node %s: %w", action, name, errOutdated)
	case err != nil:
		return fmt.Errorf("%s: patching node %s: %w", action, name, err)
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: action.node.uid}}
	if action.kind == putTaint {
		w.recorder.Eventf(node, v1.EventTypeWarning, ReasonOutOfService,
			"The machine is off since %s, as its BMC confirms: pods and volumes leave node %s by the taint %s",
			action.node.since.UTC().Format(time.RFC3339), name, v1.TaintNodeOutOfService)
		return nil
	}
	w.recorder.Eventf(node, v1.EventTypeNormal, ReasonInService,
		"The machine is on and node %s ready again: the taint %s was taken off", name, v1.TaintNodeOutOfService)
	return nil
}

// fence turns a machine off whose attempt is recorded, if the API server still says that its node is silent, and has not changed in what
// counts.
func (w writer) fence(ctx context.Context, action action, timeout time.Duration) error {
	node, err := w.read(ctx, action.node.name)
	if err != nil {
		return err
	}
	stored := factsOf(node, w.machines.Named(node.Name), metalpower.Observation{})
	stored.verified = action.node.verified
	if stored.uid != action.node.uid || stored.machine != action.node.machine || !concerns(stored) || stored.excluded || stored.controlPlane {
		return fmt.Errorf("node %s: %w", node.Name, errOutdated)
	}
	w.recorder.Eventf(node, v1.EventTypeWarning, ReasonFencing,
		"The node is silent since %s and its machine has power: turning it off", action.node.silentSince.UTC().Format(time.RFC3339))
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := w.machines.TurnOff(ctx, node); err != nil {
		w.recorder.Eventf(node, v1.EventTypeWarning, ReasonFencingFailed, "The machine may still have power: %v", err)
		return err
	}
	w.recorder.Eventf(node, v1.EventTypeWarning, ReasonFenced,
		"The machine was turned off, as its BMC confirms. Only you turn it on again")
	return nil
}
