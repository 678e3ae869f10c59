package instances

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

// Lists reports whether any number of nodes costs the pages of one listing at most. If not, each node costs calls of its own.
func (i *Inventory) Lists() bool {
	_, lists := i.source.(*lister)
	return lists
}

// StateEach asks for many nodes whether their instances exist and run, and hands each answer to yield as LookupEach does,
// under the same rules of age. Where the cloud cannot list, it is asked by InstanceExists and InstanceShutdown, or their
// legacy forms, and only Status, State and At are known; of a ready node, only its existence is asked for. An error that comes with the status Found says that the instance
// exists and only its state could not be learned. See ADR 24.
func (i *Inventory) StateEach(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration, yield Yield) {
	if len(nodes) == 0 {
		return
	}
	i.source.states(ctx, nodes, maxAge, func(node *corev1.Node, observation Observation, err error) {
		i.metrics.lookedUp(observation, err)
		yield(node, observation, err)
	})
}

// states takes what the watch shows, or what is as it was by questions for single nodes, and everything else from a listing.
func (l *lister) states(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration, yield Yield) {
	age := ageOf(maxAge)
	said, known := l.watched(ctx, nodes, age)
	if !known {
		age.notBefore = l.stream.latest(age.notBefore)
		if said, known = l.confirmed(ctx, nodes, maxAge); !known && said != nil {
			age.notBefore = age.asked
		}
	}
	if known {
		for i, node := range nodes {
			yield(node, said[i], nil)
		}
		return
	}
	l.listed(ctx, nodes, age, yield)
}

// states does not ask whether the instance of a node with the shutdown taint runs, or of one that is ready: the taint goes when the node is ready,
// and the answer would change nothing.
func (p *perNode) states(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration, yield Yield) {
	runs := func(node *corev1.Node) bool { return !IsShutDown(node) && !ownership.Ready(node) }
	p.askEach(ctx, nodes, maxAge, runs, func(node *corev1.Node, said Observation, err error) {
		if err == nil && said.Status == Found && IsShutDown(node) {
			said.State = provider.InstanceStopped
		}
		yield(node, said, err)
	})
}

// IsShutDown reports whether a node has the shutdown taint.
func IsShutDown(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == cloudproviderapi.TaintNodeShutdown })
}

// askEach asks whether the instances of nodes exist, and of some nodes whether they run.
func (p *perNode) askEach(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration, power func(*corev1.Node) bool, yield Yield) {
	age := ageOf(maxAge)
	p.fanOut(ctx, nodes, yield, func(ctx context.Context, node *corev1.Node) (Observation, error) {
		there, err := p.existence(ctx, node, age)
		if err != nil || there.Status != Found || !power(node) {
			return without(there), err
		}
		return p.state(ctx, node, there, age)
	})
}

// without leaves of an answer what StateEach promises, whichever question it was an answer to.
func without(observation Observation) Observation {
	observation.Metadata, observation.Answered = cloudprovider.InstanceMetadata{}, ""
	return observation
}

// existence returns whether a node's instance exists. That the cloud described it is no answer to that: AWS shows an instance for
// an hour after its end. The provider ID by which it was found is in the answer.
func (p *perNode) existence(ctx context.Context, node *corev1.Node, age age) (Observation, error) {
	return answerOf(ctx, &p.of(node).existence, age, func(ctx context.Context) (Observation, error) {
		return p.counted(p.exists(ctx, node))
	})
}

// state returns whether an instance runs that is there by an answer that may be an older one.
func (p *perNode) state(ctx context.Context, node *corev1.Node, there Observation, age age) (Observation, error) {
	state, at, err := p.power(ctx, node, there.Metadata.ProviderID, age)
	gone := errors.Is(err, provider.ErrInstanceNotFound)
	if gone && there.At.Before(age.asked) {
		// It went since. Who says so has to be the cloud, asked for just that.
		there, again := p.existence(ctx, node, youngerThan(age.asked))
		if again != nil || there.Status != Found {
			return without(there), again
		}
	}
	switch {
	case gone: // contradicts the answer before, so nothing is known
		return Observation{}, err
	case err != nil:
		return without(there), err
	}
	there = without(there)
	there.State = state
	if at.Before(there.At) {
		there.At = at
	}
	return there, nil
}

func youngerThan(asked time.Time) age { return age{asked: asked, notBefore: asked} }

// power returns whether an instance runs, and when that was asked.
func (p *perNode) power(ctx context.Context, node *corev1.Node, providerID string, age age) (
	provider.InstanceState, time.Time, error,
) {
	said, err := answerOf(ctx, &p.of(node).power, age, func(ctx context.Context) (Observation, error) {
		state, err := p.runs(ctx, node, providerID)
		if err != nil {
			return p.counted(Observation{}, fmt.Errorf("asking the cloud whether the instance of node %q is shut down: %w", node.Name, err))
		}
		return p.counted(Observation{Status: Found, State: state, Listed: -1}, nil)
	})
	return said.State, said.At, err
}

// exists asks the plugin whether a node's instance exists, in the form that the plugin offers.
func (p *perNode) exists(ctx context.Context, node *corev1.Node) (Observation, error) {
	observation := Observation{Status: NotFound, Listed: -1}
	exists, providerID, err := p.instanceExists(ctx, node)
	switch {
	case errors.Is(err, provider.ErrInstanceNotFound): // some plugins say so by the error, see kubernetes/kubernetes#141364
		return observation, nil
	case err != nil:
		return Observation{}, fmt.Errorf("asking the cloud whether the instance of node %q exists: %w", node.Name, err)
	case exists:
		observation.Status, observation.Metadata.ProviderID = Found, providerID
	}
	return observation, nil
}

// instanceExists returns the provider ID too by which it asked, so the question whether the instance runs need not find it out
// again.
func (p *perNode) instanceExists(ctx context.Context, node *corev1.Node) (exists bool, providerID string, err error) {
	instances, v2, err := p.instances()
	if err != nil {
		return false, "", err
	}
	node = node.DeepCopy()
	if !v2 && node.Spec.ProviderID == "" {
		// An older plugin is asked by the provider ID that it knows for the name.
		if node.Spec.ProviderID, err = cloudprovider.GetInstanceProviderID(ctx, p.cloud, types.NodeName(node.Name)); err != nil {
			return false, "", fmt.Errorf("its provider ID by the name %q: %w", node.Name, err)
		}
	}
	exists, err = instances.InstanceExists(ctx, node)
	return exists, node.Spec.ProviderID, err
}

// runs asks the plugin whether an instance that exists is shut down. A plugin that cannot say is no error.
func (p *perNode) runs(ctx context.Context, node *corev1.Node, providerID string) (provider.InstanceState, error) {
	down, err := p.instanceShutdown(ctx, node, providerID)
	switch {
	case errors.Is(err, provider.ErrNotImplemented):
		return provider.InstanceStateUnknown, nil
	case err != nil:
		return provider.InstanceStateUnknown, err
	case down:
		return provider.InstanceStopped, nil
	default:
		return provider.InstanceRunning, nil
	}
}

func (p *perNode) instanceShutdown(ctx context.Context, node *corev1.Node, providerID string) (bool, error) {
	instances, _, err := p.instances()
	if err != nil {
		return false, err
	}
	node = node.DeepCopy()
	if node.Spec.ProviderID == "" {
		node.Spec.ProviderID = providerID
	}
	return instances.InstanceShutdown(ctx, node)
}
