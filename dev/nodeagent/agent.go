package nodeagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// statusJitter spreads the reports of many nodes, as a kubelet does.
	statusJitter = 0.04
	// registerBackoffStart doubles with each failed registration, up to registerBackoffMax, as a kubelet's.
	registerBackoffStart = 100 * time.Millisecond
	registerBackoffMax   = 7 * time.Second
)

// Agent is one node. Its methods may be called from several goroutines, except Register and Run.
type Agent struct {
	client  kubernetes.Interface
	options Options
	// registered says that the node was registered. A kubelet does that once in its life: a Node that is deleted stays so.
	registered bool
	// lastReport is when the status was last written.
	lastReport time.Time

	mu     sync.Mutex
	silent bool
	turned chan struct{} // closed and replaced when silent changes
}

// New returns an agent that talks to the API server with the identity of config. This is the node, user "system:node:NAME" in the group
// "system:nodes", or an administrator for many nodes at once. New writes nothing.
func New(config *rest.Config, options Options) (*Agent, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("node agent %s: %w", options.Name, err)
	}
	return newAgent(client, options)
}

func newAgent(client kubernetes.Interface, options Options) (*Agent, error) {
	options, err := options.complete()
	if err != nil {
		return nil, fmt.Errorf("node agent: options: %w", err)
	}
	return &Agent{client: client, options: options, turned: make(chan struct{})}, nil
}

// Name is the name of the agent's Node.
func (a *Agent) Name() string { return a.options.Name }

// Register creates the Node, not ready, and then reports it ready, as a starting kubelet does within a second. A Node
// that exists keeps what others wrote to it. Register repeats what fails until ctx ends, and does nothing when it was
// through before.
func (a *Agent) Register(ctx context.Context) error {
	if a.registered {
		return nil
	}
	backoff := wait.Backoff{Duration: registerBackoffStart, Factor: 2, Cap: registerBackoffMax, Steps: 10}
	for {
		err := a.tryRegister(ctx)
		if err == nil {
			a.registered = true
			return nil
		}
		delay := backoff.Step()
		log.FromContext(ctx).V(1).Info("Could not register, trying again", "node", a.options.Name, "error", err, "after", delay)
		select {
		case <-ctx.Done():
			return fmt.Errorf("register node %s: %w", a.options.Name, errors.Join(context.Cause(ctx), err))
		case <-time.After(delay):
		}
	}
}

func (a *Agent) tryRegister(ctx context.Context) error {
	wanted := registration(a.options, time.Now())
	nodes := a.client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		if node, err = nodes.Get(ctx, a.options.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		relabeled := node.DeepCopy()
		if restoreLabels(relabeled, wanted) {
			if node, err = a.patchStatus(ctx, node, relabeled); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return err
	}
	return a.writeReport(ctx, node)
}

// Run registers the node and then keeps it alive until ctx ends: it renews the Lease and reports the status. It returns
// nil when ctx ended after the registration; the Node and its Lease stay, as those of a kubelet that was shut down.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.Register(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		silent, turned := a.voice()
		if silent {
			select {
			case <-ctx.Done():
			case <-turned:
			}
			continue
		}
		a.live(ctx, turned)
	}
	return nil
}

// Silence makes the node stop renewing its Lease and reporting its status, as a machine that lost its network. What is
// under way may still arrive.
func (a *Agent) Silence() { a.turn(true) }

// Resume makes a silent node renew and report again, at once.
func (a *Agent) Resume() { a.turn(false) }

func (a *Agent) turn(silent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent != silent {
		a.silent = silent
		close(a.turned)
		a.turned = make(chan struct{})
	}
}

func (a *Agent) voice() (silent bool, turned <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.silent, a.turned
}

// live keeps the node alive until ctx ends or quiet is closed.
func (a *Agent) live(ctx context.Context, quiet <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		a.leaseController(ctx).Run(ctx)
	}()
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		wait.JitterUntilWithContext(ctx, a.reportIfDue, a.options.StatusPeriod, statusJitter, true)
	}()
	select {
	case <-ctx.Done():
	case <-quiet:
	}
	cancel()
	<-renewed
	<-reported
}

// leaseController is the one of a kubelet. It makes the Node own its Lease, so both are deleted together.
func (a *Agent) leaseController(ctx context.Context) lease.Controller {
	seconds := int32(a.options.LeaseDuration / time.Second)
	return lease.NewController(clock.RealClock{}, a.client, a.options.Name, seconds, nil,
		a.options.LeaseDuration/4, a.options.Name, corev1.NamespaceNodeLease,
		func(owned *coordinationv1.Lease) error { return a.own(ctx, owned) })
}

func (a *Agent) own(ctx context.Context, owned *coordinationv1.Lease) error {
	if len(owned.OwnerReferences) > 0 {
		return nil
	}
	node, err := a.client.CoreV1().Nodes().Get(ctx, a.options.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("find the owner of the lease: %w", err)
	}
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	return nil
}

// reportIfDue writes the status when it is not what the node should report, or was written long ago.
func (a *Agent) reportIfDue(ctx context.Context) {
	// Any version will do, so the answer may come from the API server's cache.
	node, err := a.client.CoreV1().Nodes().Get(ctx, a.options.Name, metav1.GetOptions{ResourceVersion: "0"})
	if err == nil {
		wanted := report(node, a.options, readyCondition(true), time.Now())
		if !differs(node, wanted) && time.Since(a.lastReport) < a.options.StatusReportPeriod {
			return
		}
		err = a.writeReport(ctx, node)
	}
	if err != nil && ctx.Err() == nil {
		log.FromContext(ctx).V(1).Info("Could not report the status", "node", a.options.Name, "error", err)
	}
}

func (a *Agent) writeReport(ctx context.Context, node *corev1.Node) error {
	if _, err := a.patchStatus(ctx, node, report(node, a.options, readyCondition(true), time.Now())); err != nil {
		return err
	}
	a.lastReport = time.Now()
	return nil
}

// patchStatus writes the difference between two versions of the node, through the status subresource as a kubelet does.
func (a *Agent) patchStatus(ctx context.Context, before, after *corev1.Node) (*corev1.Node, error) {
	old, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("encode node %s: %w", before.Name, err)
	}
	wanted, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("encode node %s: %w", after.Name, err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(old, wanted, corev1.Node{})
	if err != nil {
		return nil, fmt.Errorf("compare versions of node %s: %w", after.Name, err)
	}
	return a.client.CoreV1().Nodes().Patch(ctx, after.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
}

func semanticallyEqual(a, b *corev1.Node) bool { return equality.Semantic.DeepEqual(a, b) }
