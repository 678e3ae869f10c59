package fencing

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// readTimeout is the deadline of one look at a node.
const readTimeout = 5 * time.Second

// The reasons of the events on a Node.
const (
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
	turnOff  TurnOff
	named    func(node string) *Machine
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

// fence turns a machine off whose attempt is recorded, if the API server still says that its node is silent, and has not changed in what
// counts.
func (w writer) fence(ctx context.Context, action action, timeout time.Duration) error {
	node, err := w.read(ctx, action.node.Name)
	if err != nil {
		return err
	}
	stored := factsOf(node, w.named(node.Name), action.node.Power, action.node.own)
	if stored.UID != action.node.UID || stored.machine != action.node.machine || !concerns(stored) || stored.excluded || stored.controlPlane {
		return fmt.Errorf("node %s: %w", node.Name, errOutdated)
	}
	w.recorder.Eventf(node, v1.EventTypeWarning, ReasonFencing,
		"The node is silent since %s and its machine has power: turning it off", action.node.silentSince.UTC().Format(time.RFC3339))
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := w.turnOff(ctx, node); err != nil {
		w.recorder.Eventf(node, v1.EventTypeWarning, ReasonFencingFailed, "The machine may still have power: %v", err)
		return err
	}
	w.recorder.Eventf(node, v1.EventTypeWarning, ReasonFenced,
		"The machine was turned off, as its BMC confirms. Only you turn it on again")
	return nil
}
