package node

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// denialLasts is for how long the cloud has to deny the instance of a node before the node is told. A list that lags has caught up by then.
const denialLasts = time.Minute

// denials are nodes of which an answer of the cloud does not fit, and that are left alone: an event and a metric show it. Such are nodes whose
// kubelets report while the cloud denies their instances, because a machine was made again under the name of the node, or the cloud is wrong.
type denials struct {
	mu    sync.Mutex
	known map[string]denial
	// lasting is for how many of them the denial lasts.
	lasting int
}

type denial struct {
	uid   types.UID
	since time.Time
	lasts bool
}

// note takes in an answer for a node. It reports whether the denial lasts, and for how many nodes one does.
func (d *denials) note(node *corev1.Node, denied bool, now time.Time) (lasts bool, nodes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, found := d.known[node.Name]
	switch {
	case !denied:
		d.drop(node.Name)
	case !found || known.uid != node.UID:
		d.drop(node.Name)
		if d.known == nil {
			d.known = map[string]denial{}
		}
		d.known[node.Name] = denial{uid: node.UID, since: now}
	case known.lasts:
		lasts = true
	case now.Sub(known.since) >= denialLasts:
		known.lasts, lasts = true, true
		d.known[node.Name] = known
		d.lasting++
	}
	return lasts, d.lasting
}

// forget drops a node. It returns for how many others a denial lasts.
func (d *denials) forget(name string) (nodes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(name)
	return d.lasting
}

// drop takes a node out. The lock is held.
func (d *denials) drop(name string) {
	if d.known[name].lasts {
		d.lasting--
	}
	delete(d.known, name)
}

// noteAnswer tells a node what nothing mends, once it lasts: that the cloud denies its instance although its kubelet reports, or has one although
// the node was never initialized.
func (r *reconciler) noteAnswer(ctx context.Context, node *corev1.Node, observation instances.Observation) {
	denied := observation.Status == instances.NotFound && ownership.Ready(node) && r.decide(node).Owner == ownership.Ours
	lasts, nodes := r.denials.note(node, denied, time.Now())
	r.metrics.denied.Set(float64(nodes))
	if lasts {
		r.say(ctx, node, ReasonInstanceNotFound,
			&instanceNotFoundError{name: node.Name, providerID: node.Spec.ProviderID, listed: observation.Listed, reports: true})
	}
	decision := r.decide(node)
	missed := observation.Status == instances.Found && decision.Owner == ownership.Unproven && !decision.ProvenBy(observation.Answered)
	lasts, nodes = r.missed.note(node, missed, time.Now())
	r.metrics.missed.Set(float64(nodes))
	if lasts {
		r.say(ctx, node, ReasonNeverInitialized, errNeverInitialized)
	}
}
