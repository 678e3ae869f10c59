package autoscaler

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/extensions/autoscaler/deletion"
)

// lag is for how long an intent counts that was just written and that the cache of nodes may not show yet.
const lag = 10 * time.Second

// pending knows which instances are to be deleted: by the nodes, and by what this process has just written to nodes.
type pending struct {
	cached client.Reader
	sealer deletion.Sealer
	now    func() time.Time

	mu     sync.Mutex
	recent map[string]recentDeletion // by provider ID
}

type recentDeletion struct {
	group string
	node  types.NodeName
	at    time.Time
}

func newPending(cached client.Reader, sealer deletion.Sealer) *pending {
	return &pending{cached: cached, sealer: sealer, now: time.Now, recent: map[string]recentDeletion{}}
}

// of returns the instances of a group that are to be deleted, by provider ID.
func (p *pending) of(ctx context.Context, group string) (map[string]types.NodeName, error) {
	var list corev1.NodeList
	if err := p.cached.List(ctx, &list, client.MatchingFields{deletion.ByIntent: deletion.IndexValue}, client.UnsafeDisableDeepCopy); err != nil { // only read
		return nil, fmt.Errorf("listing the nodes that are to be deleted: %w", err)
	}
	leaving := deletion.Pending(list.Items, group, p.sealer)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	maps.DeleteFunc(p.recent, func(_ string, m recentDeletion) bool { return now.Sub(m.at) > lag })
	for providerID, marked := range p.recent {
		if marked.group == group {
			leaving[providerID] = marked.node
		}
	}
	return leaving, nil
}

// size returns the size that a group will have when what is to be deleted is.
func (p *pending) size(ctx context.Context, known snapshot) (int, error) {
	leaving, err := p.of(ctx, known.group.ID)
	if err != nil {
		return 0, err
	}
	return deletion.TargetSize(known.status, leaving), nil
}

// wrote notes an intent that was written to a node.
func (p *pending) wrote(group string, node *corev1.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent[node.Spec.ProviderID] = recentDeletion{group, types.NodeName(node.Name), p.now()}
}

// tookBack notes that an intent was taken back.
func (p *pending) tookBack(node *corev1.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.recent, node.Spec.ProviderID)
}

// locks has one change of a group be decided about at a time.
type locks struct {
	mu sync.Mutex
	of map[string]chan struct{}
}

// lock waits for its turn, and returns what ends it.
func (l *locks) lock(ctx context.Context, group string) (unlock func(), err error) {
	l.mu.Lock()
	if l.of == nil {
		l.of = map[string]chan struct{}{}
	}
	turn := l.of[group]
	if turn == nil {
		turn = make(chan struct{}, 1)
		l.of[group] = turn
	}
	l.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("another change of the node group %q is under way: %w", group, ctx.Err())
	}
}
