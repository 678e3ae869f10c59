package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// Lists reports whether any number of nodes costs the pages of one listing. If not, each node costs calls of its own.
func (i *Inventory) Lists() bool {
	_, lists := i.source.(*listing)
	return lists
}

// StateEach asks for many nodes whether their instances exist and run, and hands each answer to yield as LookupEach does,
// under the same rules of age. Where the cloud cannot list, it is asked by InstanceExists and InstanceShutdown, or their
// legacy forms, and only Status, State and At are known. An error that comes with the status Found says that the instance
// exists and only its state could not be learnt.
func (i *Inventory) StateEach(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration, yield Yield) {
	i.statesEach(ctx, nodes, maxAge, aboutState, yield)
}

// ExistsEach is StateEach without the state: where the cloud cannot list, it saves the second call for each node.
func (i *Inventory) ExistsEach(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration, yield Yield) {
	i.statesEach(ctx, nodes, maxAge, aboutExistence, yield)
}

func (i *Inventory) statesEach(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration, what subject, yield Yield) {
	if len(nodes) == 0 {
		return
	}
	i.source.states(ctx, nodes, maxAge, what, func(node *corev1.Node, observation Observation, err error) {
		i.metrics.lookedUp(observation, err)
		yield(node, observation, err)
	})
}

// subject is what a question for one node is about. Each has answers of its own.
type subject int

const (
	// aboutMetadata is everything that the cloud knows of the instance.
	aboutMetadata subject = iota
	// aboutExistence is whether the instance exists.
	aboutExistence
	// aboutState is that, and whether it runs.
	aboutState
)

// states needs nothing but the listing that answers all questions.
func (l *listing) states(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration, _ subject, yield Yield) {
	l.each(ctx, nodes, maxAge, yield)
}

func (a *asking) states(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration, what subject, yield Yield) {
	a.fanOut(nodes, yield, func(node *corev1.Node) (Observation, error) {
		key := keyOf(node)
		key.about = what
		return a.answer(ctx, key, maxAge, func(ctx context.Context) (Observation, error) {
			return a.admitted(ctx, node, func() (Observation, error) { return a.state(ctx, node, what) })
		})
	})
}

// state asks the plugin whether a node's instance exists and, if that is wanted, whether it is shut down.
func (a *asking) state(ctx context.Context, node *corev1.Node, what subject) (Observation, error) {
	observation := Observation{Status: NotFound, Listed: -1}
	exists, isShutdown, err := a.questions(ctx, node)
	if err == nil {
		var there bool
		if there, err = exists(); err == nil && there {
			observation.Status = Found
		}
	}
	switch {
	case errors.Is(err, provider.ErrInstanceNotFound): // some plugins say so by the error, see kubernetes/kubernetes#141364
		return observation, nil
	case err != nil:
		return Observation{}, fmt.Errorf("asking the cloud whether the instance of node %q exists: %w", node.Name, err)
	case observation.Status == NotFound || what == aboutExistence:
		return observation, nil
	}
	observation.State, err = power(isShutdown)
	if errors.Is(err, provider.ErrInstanceNotFound) {
		observation = Observation{} // contradicts the answer before, so that nothing is known
	}
	if err != nil {
		err = fmt.Errorf("asking the cloud whether the instance of node %q is shut down: %w", node.Name, err)
	}
	return observation, err
}

// power asks whether an instance is shut down. A plugin that cannot say is no error.
func power(isShutdown func() (bool, error)) (provider.InstanceState, error) {
	switch down, err := isShutdown(); {
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

// questions returns the two calls for a node in the form that the plugin offers.
func (a *asking) questions(ctx context.Context, node *corev1.Node) (exists, isShutdown func() (bool, error), err error) {
	if instances, ok := a.cloud.InstancesV2(); ok && instances != nil {
		return func() (bool, error) { return instances.InstanceExists(ctx, node.DeepCopy()) },
			func() (bool, error) { return instances.InstanceShutdown(ctx, node.DeepCopy()) }, nil
	}
	instances, ok := a.cloud.Instances()
	if !ok || instances == nil {
		return nil, nil, &UnsupportedError{Provider: a.cloud.ProviderName()}
	}
	return legacyQuestions(ctx, legacy{cloud: a.cloud, instances: instances}, node)
}

// legacyQuestions needs a provider ID: the node's own, or the one under which the cloud knows the node's name.
func legacyQuestions(ctx context.Context, l legacy, node *corev1.Node) (exists, isShutdown func() (bool, error), err error) {
	providerID, err := l.providerID(ctx, node)
	if err != nil {
		return nil, nil, err
	}
	if providerID == "" {
		return nil, nil, fmt.Errorf("the node has no provider ID, and the cloud provider cannot look one up: %w",
			cloudprovider.NotImplemented)
	}
	return func() (bool, error) { return l.instances.InstanceExistsByProviderID(ctx, providerID) },
		func() (bool, error) { return l.instances.InstanceShutdownByProviderID(ctx, providerID) }, nil
}
