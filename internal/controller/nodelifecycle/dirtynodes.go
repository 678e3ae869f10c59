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

// dirtyNodes tracks, by the watch of nodes, which nodes a pass could act on. In a healthy cluster there are no such nodes, and a pass
// reads none of thousands.
type dirtyNodes struct {
	rules ownership.Rules
	// due has room for one: a node has come to need a look, or the cloud has answered late, since it was last received from.
	due chan struct{}
	// beginning is held while the watch begins, during which nodes may already be seen, and guards registered.
	beginning  sync.Mutex
	registered bool

	mu sync.Mutex
	// nodes has an entry for every node, by its name.
	nodes map[string]dirtyState
	// needed counts the nodes that need a look. changed says that since the last pass nodes came, went, or no longer need a look.
	needed  int
	changed bool
	// synced reports whether the watch has delivered the nodes that were there when it began. Nil before it began.
	synced func() bool
}

// dirtyState is what dirtyNodes knows of a node.
type dirtyState struct {
	uid   types.UID
	dirty bool
}

func newDirtyNodes(rules ownership.Rules) *dirtyNodes {
	return &dirtyNodes{rules: rules, due: make(chan struct{}, 1), nodes: map[string]dirtyState{}}
}

// watch begins to watch the nodes, unless it has begun. The first call waits until the cache is filled, if it is started.
func (d *dirtyNodes) watch(ctx context.Context, nodes cache.Cache) error {
	informer, err := nodes.GetInformer(ctx, &corev1.Node{})
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	d.beginning.Lock()
	defer d.beginning.Unlock()
	if d.registered {
		return nil
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { d.update(object) },
		UpdateFunc: func(_, object any) { d.update(object) },
		DeleteFunc: func(object any) { d.remove(object) },
	})
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.registered, d.synced = true, registration.HasSynced
	return nil
}

// update takes notice of a node as it is now.
func (d *dirtyNodes) update(object any) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	is := dirtyState{node.UID, isDirty(node) && d.rules.Decide(node).Owner != ownership.Foreign}
	d.mu.Lock()
	defer d.mu.Unlock()
	was, known := d.nodes[node.Name]
	if known && was == is {
		return
	}
	d.count(was, is)
	d.nodes[node.Name] = is
}

// remove takes notice of the end of a node, whose last version the watch may not have seen.
func (d *dirtyNodes) remove(object any) {
	if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count(d.nodes[node.Name], dirtyState{})
	delete(d.nodes, node.Name)
}

// count keeps the number of nodes that need a look. The lock is held.
func (d *dirtyNodes) count(was, is dirtyState) {
	if was.dirty {
		d.needed--
	}
	if is.dirty {
		d.needed++
		d.trigger()
	}
	d.changed = true
}

// trigger has the next pass made soon.
func (d *dirtyNodes) trigger() {
	select {
	case d.due <- struct{}{}:
	default:
	}
}

// needsPass reports whether a pass has to look at the nodes: one of them needs it, or was seen to need it no more, or came or went,
// since the last call. What happens from now on is for the next call.
func (d *dirtyNodes) needsPass() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed := d.changed
	d.changed = false
	return changed || d.needed > 0 || d.synced == nil || !d.synced()
}

// markChanged makes the next pass look at the nodes, because this one could not.
func (d *dirtyNodes) markChanged() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = true
}

// shortPause is the pause between two passes where something waits for the next one: nodes that came to need a look, and denials that lack a
// confirmation. The whole period would keep the Pods of a node that is gone waiting for nothing. It bounds the wait for quiet nodes.
const shortPause = 2 * time.Second

// await waits for the time of the next pass: a period after the last one ended, and sooner where due receives that a node has come to need a look,
// or when the last one says that it could decide about denials that it left; zero if there are none. It returns false when ctx ends.
func await(ctx context.Context, period time.Duration, due <-chan struct{}, again time.Time) bool {
	shortest := min(period, shortPause)
	soonest := time.Now().Add(shortest)
	pause := period
	if !again.IsZero() {
		pause = min(period, max(shortest, time.Until(again)))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-due:
	}
	return kit.Debounce{Quiet: kit.NodesQuiet, Most: shortPause}.Await(ctx, due, time.Until(soonest))
}
