package instances

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/instances/bounds"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

// perNode asks a cloud that can only be asked for one instance at a time. It bounds nothing: how many calls are under way, which
// of the waiting calls comes first and when a cloud that refused is asked again is up to the client of the cloud.
type perNode struct {
	cloud   cloudprovider.Interface
	metrics *metrics
	// legacy are the types and zones of an older plugin.
	legacy *cache.Expiring

	mu        sync.Mutex
	expiredAt time.Time
	nodes     map[nodeKey]*record
}

// nodeKey is what the answer for a node hangs on: a node of the same name with another UID is another node, and one that has
// got its provider ID is found in another way.
type nodeKey struct {
	name, providerID string
	uid              types.UID
}

// record is what was asked for one node. Each question is shared by all users.
type record struct {
	// metadata is all that the cloud knows of the instance but its state.
	metadata singleflight[Observation]
	// existence is whether there is one, and power whether it runs.
	existence, power singleflight[Observation]
}

func newPerNode(cloud cloudprovider.Interface, metrics *metrics) *perNode {
	return &perNode{cloud: cloud, metrics: metrics, legacy: cache.NewExpiring(), expiredAt: time.Now(), nodes: map[nodeKey]*record{}}
}

func keyOf(node *corev1.Node) nodeKey {
	return nodeKey{name: node.Name, providerID: node.Spec.ProviderID, uid: node.UID}
}

// age says how old an answer may be.
type age struct {
	// asked is when the question was put. What is not there is only said by an answer that was sought later.
	asked time.Time
	// notBefore is when an answer must have been sought by which the instance is there.
	notBefore time.Time
}

func ageOf(maxAge time.Duration) age {
	now := time.Now()
	return age{asked: now, notBefore: now.Add(-maxAge)}
}

// lookup returns all that the cloud knows of a node's instance but its state.
func (p *perNode) lookup(ctx context.Context, node *corev1.Node, age age) (Observation, error) {
	return p.answer(ctx, &p.of(node).metadata, age, func(ctx context.Context) (Observation, error) { return p.describe(ctx, node) })
}

// answer returns an answer that is young enough, and calls the cloud if there is no such answer.
func (p *perNode) answer(ctx context.Context, question *singleflight[Observation], age age, put ask[Observation]) (Observation, error) {
	counted := func(ctx context.Context) (Observation, error) {
		observation, err := put(ctx)
		p.metrics.calls.WithLabelValues(resultOf(observation, err)).Inc()
		return observation, err
	}
	said, err := question.get(ctx, age.notBefore, counted)
	if err == nil && said.value.Status != Found && said.at.Before(age.asked) {
		said, err = question.get(ctx, age.asked, counted)
	}
	said.value.At = said.at
	return said.value, err
}

// of returns the record of a node.
func (p *perNode) of(node *corev1.Node) *record {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.expiredAt) >= classify.MaxRetryAfter/4 {
		p.expire()
	}
	key := nodeKey{name: node.Name, providerID: node.Spec.ProviderID, uid: node.UID}
	known, ok := p.nodes[key]
	if !ok {
		known = &record{}
		p.nodes[key] = known
	}
	return known
}

// expire forgets answers that no caller has asked for in as long as the cloud may ask for a pause. The lock is held.
func (p *perNode) expire() {
	p.expiredAt = time.Now()
	before := p.expiredAt.Add(-classify.MaxRetryAfter)
	maps.DeleteFunc(p.nodes, func(_ nodeKey, known *record) bool {
		return known.metadata.idle(before) && known.existence.idle(before) && known.power.idle(before)
	})
}

// fanOut puts a question for each node, all at once: a goroutine for each is all that a question costs while it waits in the
// queue of the client of the cloud, and nodes for which that does not answer hold up no others.
func (p *perNode) fanOut(ctx context.Context, nodes []*corev1.Node, yield Yield,
	question func(context.Context, *corev1.Node) (Observation, error),
) {
	var waiting sync.WaitGroup
	var mu sync.Mutex
	for _, node := range nodes {
		waiting.Go(func() {
			observation, err := question(ctx, node)
			mu.Lock()
			defer mu.Unlock()
			yield(node, observation, err)
		})
	}
	waiting.Wait()
}

func (p *perNode) peek(node *corev1.Node, notBefore time.Time) (Observation, bool) {
	p.mu.Lock()
	known, ok := p.nodes[keyOf(node)]
	p.mu.Unlock()
	if !ok {
		return Observation{}, false
	}
	said, ok := known.metadata.newest()
	if !ok || said.at.Before(notBefore) {
		return Observation{}, false
	}
	said.value.At = said.at
	return said.value, true
}

// describe asks for all that the cloud knows of a node's instance, in the way that the plugin offers. An older plugin takes several calls, which
// are one turn: the first nodes are answered before all have been asked for. It is asked for type and zone now and then only.
func (p *perNode) describe(ctx context.Context, node *corev1.Node) (Observation, error) {
	instances, v2, err := p.instancesOf(legacyCloud{Interface: p.cloud, facts: p.legacy, anew: ownership.Uninitialized(node)})
	if err != nil {
		return Observation{}, err
	}
	observation := Observation{Listed: -1}
	said, err := instances.InstanceMetadata(admission.InOneTurn(ctx), node.DeepCopy())
	switch {
	case errors.Is(err, provider.ErrInstanceNotFound):
		observation.Status = NotFound
		return observation, nil
	case err != nil:
		return Observation{}, fmt.Errorf("asking the cloud for the instance of node %q: %w", node.Name, err)
	case said == nil:
		return observation, nil
	}
	known := *said
	if length := len(known.ProviderID); length > bounds.MaxProviderIDBytes && known.ProviderID != node.Spec.ProviderID {
		return Observation{}, fmt.Errorf("asking the cloud for the instance of node %q: it answered with a provider ID of %d bytes", node.Name, length)
	}
	if known.ProviderID == "" {
		known.ProviderID = node.Spec.ProviderID
	}
	// Older plugins may know no provider IDs at all, and are served without, as in the reference.
	if v2 && namesNothing(known.ProviderID) {
		return Observation{}, &ProviderIDMissingError{Name: node.Name, Said: known.ProviderID}
	}
	observation.Status, observation.Answered = Found, said.ProviderID
	observation.Metadata = cloneMetadata(bounds.Trim(known))
	return observation, nil
}

// namesNothing reports whether a provider ID is empty, or a scheme that nothing follows, which vSphere's plugin was seen to return for
// a machine whose UUID it did not know.
func namesNothing(providerID string) bool {
	_, rest, found := strings.Cut(providerID, "://")
	return providerID == "" || found && strings.Trim(rest, "/") == ""
}

// instancesOf returns how the plugin is asked, and whether that is by its own InstancesV2; an *UnsupportedError if it cannot be.
func (p *perNode) instancesOf(older cloudprovider.Interface) (asked cloudprovider.InstancesV2, v2 bool, err error) {
	if own, ok := p.cloud.InstancesV2(); ok && own != nil {
		return own, true, nil
	}
	if instances, ok := provider.InstancesV2(older); ok {
		return instances, false, nil
	}
	return nil, false, &UnsupportedError{Provider: p.cloud.ProviderName()}
}

// IsShutDown reports whether a node has the shutdown taint.
func IsShutDown(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == cloudproviderapi.TaintNodeShutdown })
}

// states does not ask whether the instance of a node with the shutdown taint runs, or of one that is ready: the taint goes when the node is ready,
// and the answer would change nothing.
func (p *perNode) states(ctx context.Context, nodes []*corev1.Node, age age, yield Yield) {
	p.fanOut(ctx, nodes, yield, func(ctx context.Context, node *corev1.Node) (Observation, error) {
		off := IsShutDown(node)
		said, err := p.state(ctx, node, age, !off && !ownership.Ready(node))
		if err == nil && said.Status == Found && off {
			said.State = provider.InstanceStopped
		}
		return said, err
	})
}

// state returns what StateEach promises, and asks whether the instance runs if that is to be known. That the cloud described an instance does not
// say that it exists: AWS shows one for an hour after its end.
func (p *perNode) state(ctx context.Context, node *corev1.Node, age age, power bool) (Observation, error) {
	known := p.of(node)
	exists := func(ctx context.Context) (Observation, error) { return p.exists(ctx, node) }
	there, err := p.answer(ctx, &known.existence, age, exists)
	providerID := there.Metadata.ProviderID // by which it was found
	there.Metadata = cloudprovider.InstanceMetadata{}
	if err != nil || there.Status != Found || !power {
		return there, err
	}
	runs, err := p.answer(ctx, &known.power, age, func(ctx context.Context) (Observation, error) { return p.runs(ctx, node, providerID) })
	gone := errors.Is(err, provider.ErrInstanceNotFound)
	if gone && there.At.Before(age.asked) {
		// It went since. Who says so has to be the cloud, asked for just that.
		age.notBefore = age.asked
		again, failed := p.answer(ctx, &known.existence, age, exists)
		again.Metadata = cloudprovider.InstanceMetadata{}
		if failed != nil || again.Status != Found {
			return again, failed
		}
	}
	switch {
	case gone: // contradicts the answer before, so nothing is known
		return Observation{}, err
	case err != nil:
		return there, err
	}
	there.State = runs.State
	if runs.At.Before(there.At) {
		there.At = runs.At
	}
	return there, nil
}

// exists asks the plugin whether a node's instance exists, in the form that the plugin offers. The provider ID by which it asked is in the answer, so
// the question whether the instance runs need not find it out again.
func (p *perNode) exists(ctx context.Context, node *corev1.Node) (Observation, error) {
	observation, exists := Observation{Status: NotFound, Listed: -1}, false
	node = node.DeepCopy()
	instances, v2, err := p.instancesOf(p.cloud)
	if err == nil && !v2 && node.Spec.ProviderID == "" {
		// An older plugin is asked by the provider ID that it knows for the name.
		if node.Spec.ProviderID, err = cloudprovider.GetInstanceProviderID(ctx, p.cloud, types.NodeName(node.Name)); err != nil {
			err = fmt.Errorf("its provider ID by the name %q: %w", node.Name, err)
		}
	}
	if err == nil {
		exists, err = instances.InstanceExists(ctx, node)
	}
	switch {
	case errors.Is(err, provider.ErrInstanceNotFound): // some plugins say so by the error, see kubernetes/kubernetes#141364
		return observation, nil
	case err != nil:
		return Observation{}, fmt.Errorf("asking the cloud whether the instance of node %q exists: %w", node.Name, err)
	case exists:
		observation.Status, observation.Metadata.ProviderID = Found, node.Spec.ProviderID
	}
	return observation, nil
}

// runs asks the plugin whether an instance that exists is shut down. A plugin that cannot say is no error.
func (p *perNode) runs(ctx context.Context, node *corev1.Node, providerID string) (Observation, error) {
	observation, down := Observation{Status: Found, Listed: -1}, false
	node = node.DeepCopy()
	if node.Spec.ProviderID == "" {
		node.Spec.ProviderID = providerID
	}
	instances, _, err := p.instancesOf(p.cloud)
	if err == nil {
		down, err = instances.InstanceShutdown(ctx, node)
	}
	switch {
	case errors.Is(err, provider.ErrNotImplemented):
	case err != nil:
		return Observation{}, fmt.Errorf("asking the cloud whether the instance of node %q is shut down: %w", node.Name, err)
	case down:
		observation.State = provider.InstanceStopped
	default:
		observation.State = provider.InstanceRunning
	}
	return observation, nil
}
