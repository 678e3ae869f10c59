package route

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// herald tells nodes that their routes are there as soon as the last one is, while routes to other nodes are still being made.
// What it does not get to is left to the end of the pass.
type herald struct {
	conditions *conditions
	nodes      map[types.UID]*corev1.Node
	// missing counts the routes that a node still lacks.
	missing map[types.UID]int
	writing errgroup.Group

	mu   sync.Mutex
	errs []error
}

// newHerald returns a herald for the nodes of a pass, which lack the given wants.
func newHerald(conditions *conditions, members []member, unmet map[key]bool) *herald {
	h := &herald{conditions: conditions, nodes: map[types.UID]*corev1.Node{}, missing: map[types.UID]int{}}
	h.writing.SetLimit(conditionWrites)
	for lacking := range unmet {
		h.missing[lacking.uid]++
	}
	for _, member := range members {
		if member.standing == ours && h.missing[member.node.UID] > 0 {
			h.nodes[member.node.UID] = member.node
		}
	}
	return h
}

// hear takes notice of an operation that has ended. It must not be called from several goroutines at once.
func (h *herald) hear(ctx context.Context, one outcome) {
	if one.err != nil || one.action.want == nil {
		return
	}
	uid := one.action.want.uid
	h.missing[uid]--
	node, waits := h.nodes[uid]
	if !waits || h.missing[uid] > 0 {
		return
	}
	// Where there is no room the end of the pass has to do: operations must not wait for the API server.
	h.writing.TryGo(func() error {
		if err := h.conditions.bring(ctx, judgedNode{node: node, routed: true}, time.Now()); err != nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.errs = append(h.errs, err)
		}
		return nil
	})
}

// done waits until all has been written, and returns what could not be.
func (h *herald) done() error {
	_ = h.writing.Wait() // its functions return no errors: all of them are in errs, not only the first
	return errors.Join(h.errs...)
}
