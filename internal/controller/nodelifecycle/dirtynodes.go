package nodelifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// attention knows from the watch of nodes whether there is any that a pass could do something about. In a healthy cluster there
// is none, and passes over thousands of nodes are over before they begin.
type attention struct {
	rules ownership.Rules
	// due has room for one: a node has come to need a look, or the cloud has answered late, since it was last received from.
	due chan struct{}
	// beginning is held while the watch begins, during which nodes may already be seen.
	beginning sync.Mutex

	mu sync.Mutex
	// nodes has an entry for every node, by its name.
	nodes map[string]seen
	// needed counts those that need a look. changed says that the nodes are others, or need a look no more, since the last pass.
	needed  int
	changed bool
	// synced reports whether the watch has delivered the nodes that were there when it began. Nil before it began.
	synced func() bool
}

// seen is what attention knows of a node.
type seen struct {
	uid   types.UID
	needs bool
}

func newAttention(rules ownership.Rules) *attention {
	return &attention{rules: rules, due: make(chan struct{}, 1), nodes: map[string]seen{}}
}

// watch begins to watch the nodes, unless it has begun. The first call waits until the cache is filled, if it is started.
func (a *attention) watch(ctx context.Context, nodes cache.Cache) error {
	informer, err := nodes.GetInformer(ctx, &corev1.Node{})
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	a.beginning.Lock()
	defer a.beginning.Unlock()
	if a.begun() {
		return nil
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { a.see(object) },
		UpdateFunc: func(_, object any) { a.see(object) },
		DeleteFunc: func(object any) { a.miss(object) },
	})
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.synced = registration.HasSynced
	return nil
}

func (a *attention) begun() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.synced != nil
}

// see takes notice of a node as it is now.
func (a *attention) see(object any) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	is := seen{node.UID, needsLook(node) && a.rules.Decide(node, nil).Owner != ownership.Foreign}
	a.mu.Lock()
	defer a.mu.Unlock()
	was, known := a.nodes[node.Name]
	if known && was == is {
		return
	}
	a.count(was, is)
	a.nodes[node.Name] = is
}

// miss takes notice of the end of a node, whose last version the watch may not have seen.
func (a *attention) miss(object any) {
	if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(a.nodes[node.Name], seen{})
	delete(a.nodes, node.Name)
}

// count keeps the number of nodes that need a look. The lock is held.
func (a *attention) count(was, is seen) {
	if was.needs {
		a.needed--
	}
	if is.needs {
		a.needed++
		a.poke()
	}
	a.changed = true
}

// poke has the next pass made soon.
func (a *attention) poke() {
	select {
	case a.due <- struct{}{}:
	default:
	}
}

// take reports whether a pass has to look at the nodes: one of them needs it, or was seen to need it no more, or came or went,
// since the last call. What happens from now on is for the next call.
func (a *attention) take() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := a.changed
	a.changed = false
	return changed || a.needed > 0 || a.synced == nil || !a.synced()
}

// remind makes the next pass look at the nodes, because this one could not.
func (a *attention) remind() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed = true
}

const (
	// quiet is for how long no further node must have come to need a look before a pass begins ahead of its time, so that a rack
	// that loses its power is one pass. gathering bounds the wait for that.
	quiet     = 500 * time.Millisecond
	gathering = 2 * time.Second
	// shortPause is the pause between two passes where something waits for the next one: nodes that came to need a look, and
	// denials that lack a confirmation. The whole period would keep the Pods of a node that is gone waiting for nothing.
	shortPause = 2 * time.Second
)

// cadence says when passes begin: a period after the last one ended, and sooner where something waits for it.
type cadence struct {
	period time.Duration
	// due receives when a node has come to need a look.
	due <-chan struct{}
}

// await waits for the time of the next pass, given when it could decide about denials that the last one left; zero if there are
// none. It returns false when ctx ends.
func (c cadence) await(ctx context.Context, again time.Time) bool {
	shortest := min(c.period, shortPause)
	soonest := time.Now().Add(shortest)
	pause := c.period
	if !again.IsZero() {
		pause = min(c.period, max(shortest, time.Until(again)))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-c.due:
	}
	return kit.Debounce{Quiet: quiet, Most: gathering}.Await(ctx, c.due, time.Until(soonest))
}
