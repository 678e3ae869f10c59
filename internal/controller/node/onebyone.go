package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/node/pace"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// singleRefresher compares initialized nodes with the cloud one by one, for a plugin that needs a call for each node. It does so when something has
// happened to a node, and otherwise less and less often. It queues nodes that differ and writes nothing itself.
//
// See ADR 59.
type singleRefresher struct {
	*reconciler
	pace pace.Pace
	log  logr.Logger

	// failures logs once that nodes cannot be compared.
	failures kit.FailureLog

	mu        sync.Mutex
	histories map[types.UID]*pace.History
	failed    map[types.UID]error // the last lookups of these nodes
	// turns has the names of nodes when their turns come. It is nil before this process leads.
	turns workqueue.TypedDelayingInterface[string]
}

func newSingleRefresher(options Options, reconciler *reconciler, log logr.Logger) *singleRefresher {
	return &singleRefresher{
		reconciler: reconciler, pace: pace.New(options.StatusUpdateFrequency, options.FullRefreshPeriod), log: log,
		histories: map[types.UID]*pace.History{}, failed: map[types.UID]error{},
	}
}

// run looks nodes up until ctx ends.
func (r *singleRefresher) run(ctx context.Context) {
	turns := workqueue.NewTypedDelayingQueue[string]()
	defer context.AfterFunc(ctx, turns.ShutDown)()
	defer turns.ShutDown()
	r.lead(turns, time.Now())
	var lookups sync.WaitGroup
	defer lookups.Wait()
	for {
		name, ended := turns.Get()
		if ended {
			return
		}
		node, why, wait := r.turn(ctx, name)
		if node == nil {
			turns.Done(name)
			if wait > 0 {
				turns.AddAfter(name, wait)
			}
			continue
		}
		lookups.Go(func() {
			r.lookUp(ctx, node, why)
			turns.Done(name) // so a node is never looked up twice at a time
			turns.Add(name)
		})
	}
}

// lead begins the first round. The watch has shown all nodes that there are, and shows the ones that come.
func (r *singleRefresher) lead(turns workqueue.TypedDelayingInterface[string], now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns = turns
	for _, known := range r.histories {
		known.Lead(r.pace, now)
		turns.Add(known.Name)
	}
}

// turn returns a node that is to be looked up now, and why; or none, and how long it is until its next turn, zero if nothing is known of
// any: an event of the node brings that.
func (r *singleRefresher) turn(ctx context.Context, name string) (node *corev1.Node, why pace.Cause, wait time.Duration) {
	node = &corev1.Node{} // shares what it holds with the cache: it is only read
	err := r.reader.Get(ctx, types.NamespacedName{Name: name}, node, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, "", 0 // the watch says so, too, and with its UID
	case err != nil:
		return nil, "", r.pace.Shortest
	case !r.refreshes(node, r.owners.Decide(node)):
		return nil, "", 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, known := time.Now(), r.of(node)
	at, why := r.pace.Due(*known, known.Settled(node))
	if wait := at.Sub(now); wait > 0 {
		return nil, "", wait
	}
	known.Begin(r.pace, now)
	return node, why, 0
}

// lookUp compares a node with the cloud. An answer from before would be late by one pause.
func (r *singleRefresher) lookUp(ctx context.Context, node *corev1.Node, why pace.Cause) {
	r.metrics.refreshLookups.WithLabelValues(string(why)).Inc()
	observation, err := r.inventory.Lookup(admission.WithPriority(ctx, admission.PriorityRefresh), node, 0)
	if ctx.Err() != nil {
		return // we are being stopped, which is no failure
	}
	decision, differs := r.owners.Decide(node), false
	if err == nil {
		r.noteAnswer(ctx, node, decision, observation)
		differs = r.differs(node, decision, observation)
	}
	settled := !differs && observation.Status == instances.Found && decision.ProvenBy(observation.Answered)
	r.ended(ctx, node, err, settled)
	if differs {
		r.queue.Add(types.NamespacedName{Name: node.Name}, priorityRefresh)
	}
}

// ended notes what became of a lookup. A node that is not settled differs from what the cloud says, is denied by it or is not proven to be
// ours: it is looked up again soon.
func (r *singleRefresher) ended(ctx context.Context, node *corev1.Node, err error, settled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.histories[node.UID]
	if known == nil {
		return // the node is gone
	}
	known.End(r.pace, time.Now(), err != nil, settled)
	delete(r.failed, node.UID)
	if err != nil {
		r.metrics.refreshFailures.Inc()
		r.failed[node.UID] = fmt.Errorf("looking up node %q: %w", node.Name, err)
	}
	var failing error
	for _, failing = range r.failed {
		break
	}
	r.failures.Note(logr.NewContext(ctx, r.log), "Could not compare all nodes with the cloud; trying again", failing, "interval", r.pace.Shortest)
}

// observe takes in a change of an initialized node.
func (r *singleRefresher) observe(before, after *corev1.Node, decision ownership.Decision) {
	now, need := time.Now(), needOf(before, after, r.pace.Shortest)
	if need == "" && matters(before, after) && r.owners.Decide(before).Owner == ownership.Foreign {
		need = needChanged
	}
	switch {
	case ownership.Uninitialized(before):
		r.consider(after, func(of *pace.History) { of.Join(now) })
	case need != "" && (need != needChanged || !r.agreed(before, after, decision)):
		r.consider(after, func(of *pace.History) { of.Note(need, now) })
	case ownership.Ready(before) != ownership.Ready(after), !r.refreshes(before, r.owners.Decide(before)): // without a turn
		r.consider(after, func(*pace.History) {}) // the change shortens its pause again
	}
}

// agreed reports whether a change brought a node nearer to what the cloud said a short while ago, or to what holds whatever it says: so do
// our own writes, one after the other.
func (r *singleRefresher) agreed(before, after *corev1.Node, decision ownership.Decision) bool {
	was := r.owners.Decide(before)
	if left := r.left(after, decision, instances.Observation{}); left == 0 && r.left(before, was, instances.Observation{}) > 0 {
		return true
	}
	said, known := r.inventory.Peek(after, r.known)
	if !known || said.Status != instances.Found {
		return false
	}
	left := r.left(after, decision, said)
	return left == 0 || left < r.left(before, was, said)
}

// consider changes what is known of a node, and has its turn considered anew if this process leads.
func (r *singleRefresher) consider(node *corev1.Node, change func(*pace.History)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r.of(node))
	if r.turns != nil {
		r.turns.Add(node.Name)
	}
}

// forget drops a node that is there no more.
func (r *singleRefresher) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.histories, uid)
	delete(r.failed, uid)
}

// of returns what is known of a node. The lock is held.
func (r *singleRefresher) of(node *corev1.Node) *pace.History {
	known := r.histories[node.UID]
	if known == nil {
		known = pace.NewHistory(node.Name, node.UID, time.Now())
		r.histories[node.UID] = known
	}
	return known
}

// The needs: what happens to an initialized node after which the cloud may say something else of it.
const (
	// needRebooted is that the node's boot ID has changed.
	needRebooted pace.Cause = "rebooted"
	// needReady is that the node is ready again.
	needReady pace.Cause = "ready"
	// needNodeIP is that the kubelet was given another --node-ip.
	needNodeIP pace.Cause = "node_ip"
	// needChanged is that another writer has changed what we maintain on the node or identify it by: its addresses, its provider ID.
	needChanged pace.Cause = "changed"
)

// needOf returns why a change of an initialized node is a reason to look it up, or empty if it is no reason. Young is how old a node is at
// most that becomes ready for the first time: it is looked up soon in any case. A change of what we write may be our own write, see
// watcher.
func needOf(before, after *corev1.Node, young time.Duration) pace.Cause {
	const nodeIP = cloudproviderapi.AnnotationAlphaProvidedIPAddr
	was, is := before.Status.NodeInfo.BootID, after.Status.NodeInfo.BootID
	switch {
	case ownership.Uninitialized(before) || ownership.Uninitialized(after):
		return "" // the initialization looks it up
	case was != "" && is != "" && was != is:
		return needRebooted
	case !ownership.Ready(before) && ownership.Ready(after) && pace.ReadySince(after).Sub(after.CreationTimestamp.Time) > young:
		return needReady
	case before.Annotations[nodeIP] != after.Annotations[nodeIP]:
		return needNodeIP
	case before.Spec.ProviderID != after.Spec.ProviderID || !slices.Equal(before.Status.Addresses, after.Status.Addresses) ||
		before.Annotations[ownership.AnnotationProven] != after.Annotations[ownership.AnnotationProven]:
		return needChanged
	default:
		return ""
	}
}
