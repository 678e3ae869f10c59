package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/internal/tool/words"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

const (
	// silence is how long a node may be silent until kube-controller-manager takes it for unready: 50 s by default. A node is
	// seen four times in each leaseDuration.
	silence       = 5 * time.Second
	leaseDuration = 2 * time.Second
	// monitorPeriod is --node-monitor-period of the replicas, 5 s by default, --node-deletion-min-age, 2 min by default, and
	// --node-deletion-min-denial-time, 10 s by default.
	monitorPeriod = time.Second
	// conditionInstanceGone on a node says that the cloud denies its instance, and that the node is kept nevertheless.
	conditionInstanceGone corev1.NodeConditionType = "CloudInstanceGone"
)

// What becomes of three nodes.
const (
	heldNode = "node-010"
	goneNode = "node-011"
	offNode  = "node-012"
)

// lifecycle has machines fall silent: one is off, one is gone, and of one the cloud lies.
func lifecycle() section {
	var lost losses
	return section{name: "lifecycle", title: "Machines go", steps: []step{
		{
			name: "silent", title: "three machines fall silent, and their nodes are unready", deadline: stepDeadline,
			run: func(ctx context.Context, s *environment) (string, error) { return lost.fallSilent(ctx, s) },
		},
		{
			name: "off", title: fmt.Sprintf("the instance of %s is off: the node is tainted, and stays", offNode), deadline: stepDeadline,
			run: switchOff,
		},
		{
			name: "on", title: "it is switched on again: the taint goes, and the node is ready", deadline: stepDeadline,
			run: switchOn,
		},
		{
			name: "gone", title: fmt.Sprintf("the instance of %s is deleted, and so is the node", goneNode), deadline: stepDeadline,
			run: deleteInstance,
		},
		{
			name: "held", title: fmt.Sprintf("the cloud answers that it has no instances at all: no node is deleted, and %s says why", heldNode),
			deadline: stepDeadline, run: func(ctx context.Context, s *environment) (string, error) { return lost.everything(ctx, s) },
		},
		{
			name: "released", title: fmt.Sprintf("the cloud knows its instances again: %s says so, and is ready when its machine is back", heldNode),
			deadline: stepDeadline, run: func(ctx context.Context, s *environment) (string, error) { return lost.nothing(ctx, s) },
		},
	}}
}

// losses is what the steps of the section know of each other.
type losses struct {
	// nodes is how many there were before the cloud denied all.
	nodes int
}

func (l *losses) fallSilent(ctx context.Context, s *environment) (string, error) {
	silent := []string{heldNode, goneNode, offNode}
	began := time.Now()
	for _, name := range silent {
		agent, err := s.agent(name)
		if err != nil {
			return "", err
		}
		agent.Silence()
	}
	err := s.observed.await(ctx, func(v view) error {
		return eachOf(silent, func(name string) error {
			if node := v.nodes[name]; node == nil || stateOf(node).Ready {
				return fmt.Errorf("%s, which is ready or not there", name)
			}
			return nil
		})
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, after %s; the control plane waits for %s", strings.Join(silent, ", "), seconds(time.Since(began)), silence), nil
}

// agent returns what keeps a node alive.
func (s *environment) agent(node string) (*nodeagent.Agent, error) {
	agent, found := s.agents.Load(node)
	if !found {
		return nil, fmt.Errorf("%s has not joined", node)
	}
	return agent.(*nodeagent.Agent), nil
}

func switchOff(ctx context.Context, s *environment) (string, error) {
	if err := s.power(ctx, offNode, api.PowerOff); err != nil {
		return "", err
	}
	began := time.Now()
	if err := s.awaitNode(ctx, offNode, func(node *corev1.Node) error { return wantsShutDown(node, true) }); err != nil {
		return "", err
	}
	return fmt.Sprintf("after %s; the replicas look at nodes every %s", seconds(time.Since(began)), monitorPeriod), nil
}

func switchOn(ctx context.Context, s *environment) (string, error) {
	if err := s.power(ctx, offNode, api.PowerOn); err != nil {
		return "", err
	}
	began := time.Now()
	agent, err := s.agent(offNode)
	if err != nil {
		return "", err
	}
	agent.Resume()
	err = s.awaitNode(ctx, offNode, func(node *corev1.Node) error { return errors.Join(wantsShutDown(node, false), wantsReady(node)) })
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is ready after %s", offNode, seconds(time.Since(began))), nil
}

// power switches the instance of a node.
func (s *environment) power(ctx context.Context, node string, power api.Power) error {
	instance, err := s.client.GetInstanceByName(ctx, node)
	if err != nil {
		return err
	}
	spec := instance.InstanceSpec
	spec.Power = power
	_, err = s.client.UpdateInstance(ctx, instance.ID, spec, instance.Generation)
	return err
}

// awaitNode waits until a node lacks nothing.
func (s *environment) awaitNode(ctx context.Context, name string, lacks func(*corev1.Node) error) error {
	return s.observed.await(ctx, func(v view) error {
		if node := v.nodes[name]; node != nil {
			return lacks(node)
		}
		return fmt.Errorf("there is no %s", name)
	})
}

func wantsShutDown(node *corev1.Node, want bool) error {
	if stateOf(node).ShutDown != want {
		return fmt.Errorf("the taints of %s are %v", node.Name, node.Spec.Taints)
	}
	return nil
}

func wantsReady(node *corev1.Node) error {
	if state := stateOf(node); !state.Ready || !state.Schedulable {
		return fmt.Errorf("%s, ready: %v, taints: %v", node.Name, state.Ready, node.Spec.Taints)
	}
	return nil
}

func deleteInstance(ctx context.Context, s *environment) (string, error) {
	instance, err := s.client.GetInstanceByName(ctx, goneNode)
	if err != nil {
		return "", err
	}
	if err := s.client.DeleteInstance(ctx, instance.ID, instance.Generation); err != nil {
		return "", err
	}
	began := time.Now()
	err = s.observed.await(ctx, func(v view) error {
		if v.nodes[goneNode] != nil {
			return fmt.Errorf("%s is there", goneNode)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is deleted after %s, when the cloud has denied its instance twice", goneNode, seconds(time.Since(began))), nil
}

// emptyLists makes the cloud answer that it has no instances, for as long as the demo may take.
var emptyLists = api.Fault{Operation: api.OpListInstances, Mode: api.FaultEmpty, Count: 1_000_000}

// everything has the cloud deny all instances.
func (l *losses) everything(ctx context.Context, s *environment) (string, error) {
	if err := s.observed.await(ctx, func(v view) error { l.nodes = len(v.nodes); return nil }); err != nil {
		return "", err
	}
	if err := s.cloud.AddFault(emptyLists); err != nil {
		return "", err
	}
	reason := ""
	err := s.awaitNode(ctx, heldNode, func(node *corev1.Node) error {
		for _, condition := range node.Status.Conditions {
			if condition.Type == conditionInstanceGone && condition.Status == corev1.ConditionTrue {
				reason = condition.Reason
				return nil
			}
		}
		return fmt.Errorf("%s has no condition %s", heldNode, conditionInstanceGone)
	})
	if err != nil {
		return "", err
	}
	if err := l.allThere(ctx, s); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s there; the condition %s of %s says %s", words.Count(l.nodes, "node is", "nodes are"), conditionInstanceGone, heldNode, reason), nil
}

// nothing has the cloud answer correctly again.
func (l *losses) nothing(ctx context.Context, s *environment) (string, error) {
	faults := s.cloud.Faults()
	s.cloud.ClearFaults()
	for _, fault := range faults {
		if fault.Mode == emptyLists.Mode && fault.Operation == emptyLists.Operation {
			continue
		}
		if err := s.cloud.AddFault(fault); err != nil {
			return "", err
		}
	}
	began := time.Now()
	err := s.awaitNode(ctx, heldNode, func(node *corev1.Node) error {
		if stateOf(node).Held {
			return fmt.Errorf("%s has the condition %s", heldNode, conditionInstanceGone)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	released := time.Since(began)
	agent, err := s.agent(heldNode)
	if err != nil {
		return "", err
	}
	agent.Resume()
	if err := s.awaitNode(ctx, heldNode, wantsReady); err != nil {
		return "", err
	}
	if err := l.allThere(ctx, s); err != nil {
		return "", err
	}
	return fmt.Sprintf("the condition is gone after %s; %s there", seconds(released), words.Count(l.nodes, "node is", "nodes are")), nil
}

// allThere returns an error if a node was deleted that should not have been.
func (l *losses) allThere(ctx context.Context, s *environment) error {
	count := 0
	err := s.observed.await(ctx, func(v view) error { count = len(v.nodes); return nil })
	if err == nil && count != l.nodes {
		err = fmt.Errorf("there are %d nodes, and there were %d", count, l.nodes)
	}
	return err
}
