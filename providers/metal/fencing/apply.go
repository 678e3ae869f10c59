package fencing

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

const (
	// fieldManager names us in the managed fields of nodes.
	fieldManager = "mooring-fencing"
	// readTimeout is the deadline of one look at a node.
	readTimeout = 5 * time.Second
)

// The reasons of the events on a Node.
const (
	// ReasonFencing says that the machine is about to be turned off. It is a warning.
	ReasonFencing = "FencingMachine"
	// ReasonFenced says that the machine was turned off, as its controller confirms. It is a warning.
	ReasonFenced = "MachineFenced"
	// ReasonFencingFailed says that the machine could not be turned off, or that this is not confirmed. It is a warning.
	ReasonFencingFailed = "FencingFailed"
	// ReasonFencingHeld says why the machine of a silent node is not turned off before somebody does something. It is a warning.
	ReasonFencingHeld = "FencingHeld"
)

// writer carries plans out.
type writer struct {
	nodes    corev1client.NodesGetter
	recorder record.EventRecorder
	turnOff  TurnOff
}

// mark writes the annotations of an action. It returns nodepatch.ErrOutdated for a node that has changed, or is gone.
func (w writer) mark(ctx context.Context, action action, now time.Time) error {
	patch, err := action.patch(now)
	if err != nil {
		return err
	}
	return nodepatch.Apply(ctx, w.nodes, action.node.Name, patch, fieldManager)
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

// fence marks a node with an attempt and turns its machine off. The mark is read back first: a machine is turned off only if the API
// server has stored that, and still says that the node is silent. So nothing is turned off in a dry run, whose writes are refused.
func (w writer) fence(ctx context.Context, action action, timeout time.Duration, now time.Time) error {
	if err := w.mark(ctx, action, now); err != nil {
		return err
	}
	node, err := w.read(ctx, action.node.Name)
	if err != nil {
		return err
	}
	stored := factsOf(node, action.node.Power, action.node.own)
	if stored.UID != action.node.UID || stored.attempted.Unix() != now.Unix() || !concerns(stored) || stored.excluded || stored.controlPlane {
		return nodepatch.ErrOutdated
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
		"The machine was turned off, as its BMC confirms. Nobody turns it on again but you")
	return nil
}
