package inventory

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/provider"
)

const (
	// errorHold is how long a failed listing answers for those who ask after it: an outage costs a call a second, however
	// many nodes are waiting.
	errorHold = time.Second
	// maxRest bounds the pause between listings.
	maxRest = 2 * time.Second
)

// snapshot is one complete listing, indexed. It is never changed once built.
type snapshot struct {
	byProviderID map[string]provider.Instance
	byName       map[types.NodeName][]string
}

// listing asks a cloud that can list all of its instances.
type listing struct {
	list    provider.ListInstancesFunc
	window  time.Duration
	metrics *metrics
	gate    gate
	shared  shared[*snapshot]

	// Written by one listing and read before the next one, which the shared call orders.
	ended time.Time
	took  time.Duration
}

func newListing(list provider.ListInstancesFunc, window time.Duration, metrics *metrics) *listing {
	l := &listing{list: list, window: window, metrics: metrics, gate: gate{atLeast: errorHold}}
	l.shared.pause = l.pause
	return l
}

// pause lets those who come in a burst share one listing, and the cloud rest as long as the last listing took.
func (l *listing) pause() time.Duration {
	rest := min(l.took, maxRest) - time.Since(l.ended)
	return max(l.window, rest)
}

// run makes one listing.
func (l *listing) run(ctx context.Context) (*snapshot, error) {
	if err := l.gate.closed(); err != nil {
		return nil, fmt.Errorf("listing the cloud's instances, a moment ago: %w", err)
	}
	began := time.Now()
	built := &snapshot{byProviderID: map[string]provider.Instance{}, byName: map[types.NodeName][]string{}}
	err := l.list(ctx, func(page []provider.Instance) error {
		l.metrics.pages.Inc()
		return built.add(page)
	})
	l.ended, l.took = time.Now(), time.Since(began)
	l.metrics.listed(began, len(built.byProviderID), l.took, err)
	if ctx.Err() == nil {
		l.gate.note(err) // an error after all callers have gone says nothing about the cloud
	}
	if err != nil {
		return nil, fmt.Errorf("listing the cloud's instances: %w", err)
	}
	return built, nil
}

// add takes a page over, or refuses the whole listing.
func (s *snapshot) add(page []provider.Instance) error {
	for _, instance := range page {
		if instance.ProviderID == "" {
			return &InvalidListError{Problem: fmt.Sprintf("the instance with node name %q has no provider ID", instance.NodeName)}
		}
		if known, twice := s.byProviderID[instance.ProviderID]; twice {
			return &InvalidListError{Problem: fmt.Sprintf("the provider ID %q occurs twice, with the node names %q and %q",
				instance.ProviderID, known.NodeName, instance.NodeName)}
		}
		instance.InstanceMetadata = cloneMetadata(instance.InstanceMetadata)
		s.byProviderID[instance.ProviderID] = instance
		if instance.NodeName != "" {
			s.byName[instance.NodeName] = append(s.byName[instance.NodeName], instance.ProviderID)
		}
	}
	return nil
}

// find returns what the listing says of a node: by its provider ID if it has one, by its name if not.
func (s *snapshot) find(node *corev1.Node, at time.Time) (Observation, error) {
	observation := Observation{Status: NotFound, At: at, Listed: len(s.byProviderID)}
	providerID := node.Spec.ProviderID
	if providerID == "" {
		name := types.NodeName(node.Name)
		switch candidates := s.byName[name]; len(candidates) {
		case 0:
			return observation, nil
		case 1:
			providerID = candidates[0]
		default:
			return Observation{}, &AmbiguousNameError{Name: name, ProviderIDs: slices.Sorted(slices.Values(candidates))}
		}
	}
	instance, ok := s.byProviderID[providerID]
	if !ok {
		return observation, nil
	}
	observation.Status = Found
	observation.State = instance.State
	observation.Metadata = instance.InstanceMetadata
	observation.Answered = instance.ProviderID
	return observation, nil
}

func (l *listing) lookup(ctx context.Context, node *corev1.Node, maxAge time.Duration) (Observation, error) {
	asked := time.Now()
	listed, err := l.shared.get(ctx, asked.Add(-maxAge), l.run)
	if err != nil {
		return Observation{}, err
	}
	observation, err := listed.value.find(node, listed.at)
	if conclusive(observation, err, listed.at, asked) {
		return observation, err
	}
	if listed, err = l.shared.get(ctx, asked, l.run); err != nil {
		return Observation{}, err
	}
	return listed.value.find(node, listed.at)
}

// each looks all nodes up in one listing. It makes a listing only if the newest does not answer for all of them.
func (l *listing) each(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration, yield Yield) {
	asked := time.Now()
	listed, err := l.shared.get(ctx, asked.Add(-maxAge), l.run)
	if err == nil && !listed.value.answersAll(nodes, listed.at, asked) {
		listed, err = l.shared.get(ctx, asked, l.run)
	}
	for _, node := range nodes {
		var observation Observation
		answer := err
		if err == nil {
			observation, answer = listed.value.find(node, listed.at)
		}
		yield(node, observation, answer)
	}
}

func (s *snapshot) answersAll(nodes []*corev1.Node, at, asked time.Time) bool {
	for _, node := range nodes {
		observation, err := s.find(node, at)
		if !conclusive(observation, err, at, asked) {
			return false
		}
	}
	return true
}

// conclusive reports whether an answer can stand: that an instance is there may be said by an older answer, that it is not,
// or not by itself, only by one that was sought after the question was asked.
func conclusive(observation Observation, err error, at, asked time.Time) bool {
	return !at.Before(asked) || err == nil && observation.Status == Found
}

func (l *listing) peek(node *corev1.Node, notBefore time.Time) (Observation, bool) {
	listed, ok := l.shared.newest()
	if !ok || listed.at.Before(notBefore) {
		return Observation{}, false
	}
	observation, err := listed.value.find(node, listed.at)
	return observation, err == nil
}
