package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// retention is how long an answer is kept that nobody asks for any more.
const retention = 15 * time.Minute

// asking asks a cloud that can only be asked for one instance at a time.
type asking struct {
	cloud   cloudprovider.Interface
	bound   int
	places  *semaphore.Weighted
	metrics *metrics
	gate    gate

	mu    sync.Mutex
	swept time.Time
	nodes map[nodeKey]*shared[Observation]
}

// nodeKey is what the answer for a node hangs on: a node of the same name with another UID is another node, and one that has
// got its provider ID is found in another way.
type nodeKey struct {
	name, providerID string
	uid              types.UID
	about            subject
}

func newAsking(cloud cloudprovider.Interface, bound int, metrics *metrics) *asking {
	return &asking{
		cloud: cloud, bound: bound, places: semaphore.NewWeighted(int64(bound)), metrics: metrics,
		swept: time.Now(), nodes: map[nodeKey]*shared[Observation]{},
	}
}

func keyOf(node *corev1.Node) nodeKey {
	return nodeKey{name: node.Name, providerID: node.Spec.ProviderID, uid: node.UID, about: aboutMetadata}
}

func (a *asking) lookup(ctx context.Context, node *corev1.Node, maxAge time.Duration) (Observation, error) {
	return a.answer(ctx, keyOf(node), maxAge, func(ctx context.Context) (Observation, error) {
		return a.admitted(ctx, node, func() (Observation, error) { return a.ask(ctx, node) })
	})
}

// answer returns an answer that is young enough, and puts the question if there is none.
func (a *asking) answer(ctx context.Context, key nodeKey, maxAge time.Duration, put ask[Observation]) (Observation, error) {
	asked := time.Now()
	question := a.question(key)
	said, err := question.get(ctx, asked.Add(-maxAge), put)
	if err == nil && !conclusive(said.value, nil, said.at, asked) {
		said, err = question.get(ctx, asked, put)
	}
	said.value.At = said.at
	return said.value, err
}

// question returns the shared call for a node.
func (a *asking) question(key nodeKey) *shared[Observation] {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweep()
	question, ok := a.nodes[key]
	if !ok {
		question = &shared[Observation]{}
		a.nodes[key] = question
	}
	return question
}

// sweep forgets answers that nobody has asked for in a while. The lock is held.
func (a *asking) sweep() {
	if time.Since(a.swept) < retention/4 {
		return
	}
	a.swept = time.Now()
	for key, question := range a.nodes {
		if question.idle(a.swept.Add(-retention)) {
			delete(a.nodes, key)
		}
	}
}

// each asks for all nodes, with at most half of the places, so that whoever waits for one node never waits for all.
func (a *asking) each(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration, yield Yield) {
	a.fanOut(nodes, yield, func(node *corev1.Node) (Observation, error) { return a.lookup(ctx, node, maxAge) })
}

func (a *asking) fanOut(nodes []*corev1.Node, yield Yield, question func(*corev1.Node) (Observation, error)) {
	var group errgroup.Group
	group.SetLimit(max(1, a.bound/2))
	var mu sync.Mutex
	for _, node := range nodes {
		group.Go(func() error {
			observation, err := question(node)
			mu.Lock()
			defer mu.Unlock()
			yield(node, observation, err)
			return nil
		})
	}
	_ = group.Wait() // its functions return no errors; each error has been yielded
}

func (a *asking) peek(node *corev1.Node, notBefore time.Time) (Observation, bool) {
	a.mu.Lock()
	question, ok := a.nodes[keyOf(node)]
	a.mu.Unlock()
	if !ok {
		return Observation{}, false
	}
	said, ok := question.newest()
	if !ok || said.at.Before(notBefore) {
		return Observation{}, false
	}
	said.value.At = said.at
	return said.value, true
}

// admitted puts a question for one node to the cloud when there is a place for it.
func (a *asking) admitted(ctx context.Context, node *corev1.Node, question func() (Observation, error)) (Observation, error) {
	if err := a.places.Acquire(ctx, 1); err != nil {
		return Observation{}, fmt.Errorf("waiting to ask the cloud for node %q: %w", node.Name, err)
	}
	defer a.places.Release(1)
	if err := a.gate.closed(); err != nil {
		return Observation{}, err
	}
	observation, err := question()
	a.gate.note(err)
	if err != nil {
		a.metrics.asked("error")
		return observation, err
	}
	a.metrics.asked(observation.Status.String())
	return observation, nil
}

// ask asks for all that the cloud knows of a node's instance.
func (a *asking) ask(ctx context.Context, node *corev1.Node) (Observation, error) {
	observation := Observation{Listed: -1}
	metadata, answered, err := a.metadata(ctx, node)
	switch {
	case errors.Is(err, provider.ErrInstanceNotFound):
		observation.Status = NotFound
	case err != nil:
		return Observation{}, err
	case metadata != nil:
		observation.Status, observation.Answered = Found, answered
		observation.Metadata = cloneMetadata(*metadata)
	}
	return observation, nil
}

// metadata asks the plugin for a node's instance in the way that the plugin offers. Nil metadata without an error means that
// the plugin says nothing; answered is the provider ID that it vouched for itself.
func (a *asking) metadata(ctx context.Context, node *corev1.Node) (
	metadata *cloudprovider.InstanceMetadata, answered string, err error,
) {
	if instances, ok := a.cloud.InstancesV2(); ok && instances != nil {
		return metadataV2(ctx, instances, node)
	}
	instances, ok := a.cloud.Instances()
	if !ok || instances == nil {
		return nil, "", &UnsupportedError{Provider: a.cloud.ProviderName()}
	}
	legacy := legacy{cloud: a.cloud, instances: instances}
	return legacy.metadata(ctx, node)
}

func metadataV2(ctx context.Context, instances cloudprovider.InstancesV2, node *corev1.Node) (
	*cloudprovider.InstanceMetadata, string, error,
) {
	said, err := instances.InstanceMetadata(ctx, node.DeepCopy())
	if err != nil {
		return nil, "", fmt.Errorf("asking the cloud for the instance of node %q: %w", node.Name, err)
	}
	if said == nil {
		return nil, "", nil
	}
	metadata := *said
	if metadata.ProviderID == "" {
		if node.Spec.ProviderID == "" {
			return nil, "", &ProviderIDMissingError{Name: node.Name}
		}
		metadata.ProviderID = node.Spec.ProviderID
	}
	return &metadata, said.ProviderID, nil
}
