package instances

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/instances/bounds"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

// retention is how long an answer is kept that no caller asks for.
const retention = 15 * time.Minute

// perNode asks a cloud that can only be asked for one instance at a time. It bounds nothing: how many calls are under way, which
// of the waiting calls comes first and when a cloud that refused is asked again is up to the client of the cloud.
type perNode struct {
	cloud   cloudprovider.Interface
	metrics *metrics
	legacy  *legacyFacts

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
	return &perNode{cloud: cloud, metrics: metrics, legacy: newLegacyFacts(), expiredAt: time.Now(), nodes: map[nodeKey]*record{}}
}

func keyOf(node *corev1.Node) nodeKey {
	return nodeKey{name: node.Name, providerID: node.Spec.ProviderID, uid: node.UID}
}

func (p *perNode) lookup(ctx context.Context, node *corev1.Node, maxAge time.Duration) (Observation, error) {
	return p.metadataOf(ctx, node, ageOf(maxAge))
}

func (p *perNode) metadataOf(ctx context.Context, node *corev1.Node, age age) (Observation, error) {
	return answerOf(ctx, &p.of(node).metadata, age, func(ctx context.Context) (Observation, error) {
		return p.counted(p.ask(ctx, node))
	})
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

// answerOf returns an answer that is young enough, and calls the cloud if there is no such answer.
func answerOf(ctx context.Context, question *singleflight[Observation], age age, put ask[Observation]) (Observation, error) {
	said, err := question.get(ctx, age.notBefore, put)
	if err == nil && !conclusive(said.value, nil, said.at, age.asked) {
		said, err = question.get(ctx, age.asked, put)
	}
	said.value.At = said.at
	return said.value, err
}

// of returns the record of a node.
func (p *perNode) of(node *corev1.Node) *record {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	key := keyOf(node)
	known, ok := p.nodes[key]
	if !ok {
		known = &record{}
		p.nodes[key] = known
	}
	return known
}

// expire forgets answers that no caller has asked for in a while. The lock is held.
func (p *perNode) expire() {
	if time.Since(p.expiredAt) < retention/4 {
		return
	}
	p.expiredAt = time.Now()
	p.legacy.expire(p.expiredAt)
	before := p.expiredAt.Add(-retention)
	for key, known := range p.nodes {
		if known.metadata.idle(before) && known.existence.idle(before) && known.power.idle(before) {
			delete(p.nodes, key)
		}
	}
}

func (p *perNode) each(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration, yield Yield) {
	age := ageOf(maxAge)
	p.fanOut(ctx, nodes, yield, func(ctx context.Context, node *corev1.Node) (Observation, error) { return p.metadataOf(ctx, node, age) })
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

// counted counts what a call came to.
func (p *perNode) counted(observation Observation, err error) (Observation, error) {
	if err != nil {
		p.metrics.asked("error")
	} else {
		p.metrics.asked(observation.Status.String())
	}
	return observation, err
}

// ask asks for all that the cloud knows of a node's instance.
func (p *perNode) ask(ctx context.Context, node *corev1.Node) (Observation, error) {
	observation := Observation{Listed: -1}
	metadata, answered, err := p.metadata(ctx, node)
	switch {
	case errors.Is(err, provider.ErrInstanceNotFound):
		observation.Status = NotFound
	case err != nil:
		return Observation{}, err
	case metadata != nil:
		observation.Status, observation.Answered = Found, answered
		observation.Metadata = cloneMetadata(bounds.Trim(*metadata))
	}
	return observation, nil
}

// metadata asks the plugin for a node's instance in the way that the plugin offers. Nil metadata without an error means that
// the plugin says nothing; answered is the provider ID that it vouched for itself. An older plugin takes several calls, which are one turn: the
// first nodes are answered before all have been asked for.
func (p *perNode) metadata(ctx context.Context, node *corev1.Node) (
	metadata *cloudprovider.InstanceMetadata, answered string, err error,
) {
	instances, v2, err := p.describing(node)
	if err != nil {
		return nil, "", err
	}
	said, err := instances.InstanceMetadata(cloud.InOneTurn(ctx), node.DeepCopy())
	if err != nil {
		return nil, "", fmt.Errorf("asking the cloud for the instance of node %q: %w", node.Name, err)
	}
	if said == nil {
		return nil, "", nil
	}
	known := *said
	if length := len(known.ProviderID); length > bounds.MaxProviderIDBytes && known.ProviderID != node.Spec.ProviderID {
		return nil, "", fmt.Errorf("asking the cloud for the instance of node %q: it answered with a provider ID of %d bytes", node.Name, length)
	}
	if known.ProviderID == "" {
		known.ProviderID = node.Spec.ProviderID
	}
	// Older plugins may know no provider IDs at all, and are served without, as in the reference.
	if v2 && namesNothing(known.ProviderID) {
		return nil, "", &ProviderIDMissingError{Name: node.Name, Said: known.ProviderID}
	}
	return &known, said.ProviderID, nil
}

// namesNothing reports whether a provider ID is empty, or a scheme that nothing follows, which vSphere's plugin was seen to return for
// a machine whose UUID it did not know.
func namesNothing(providerID string) bool {
	_, rest, found := strings.Cut(providerID, "://")
	return providerID == "" || found && strings.Trim(rest, "/") == ""
}

// instances returns how the plugin is asked, and whether that is by its own InstancesV2; an *UnsupportedError if it cannot be.
func (p *perNode) instances() (asked cloudprovider.InstancesV2, v2 bool, err error) {
	return p.instancesOf(p.cloud)
}

// describing returns how the plugin is asked for all that it knows of a node's instance. An older plugin is asked for its type and zone
// now and then only.
func (p *perNode) describing(node *corev1.Node) (asked cloudprovider.InstancesV2, v2 bool, err error) {
	return p.instancesOf(legacyCloud{Interface: p.cloud, facts: p.legacy, anew: ownership.Uninitialized(node)})
}

func (p *perNode) instancesOf(older cloudprovider.Interface) (asked cloudprovider.InstancesV2, v2 bool, err error) {
	if own, ok := p.cloud.InstancesV2(); ok && own != nil {
		return own, true, nil
	}
	if instances, ok := provider.InstancesV2(older); ok {
		return instances, false, nil
	}
	return nil, false, &UnsupportedError{Provider: p.cloud.ProviderName()}
}
