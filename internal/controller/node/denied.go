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

// denials are the nodes whose kubelets report while the cloud denies their instances: a machine was made again under the name of the node, or the
// cloud is wrong. Such a node is not deleted, so that only an event and a metric show it.
type denials struct {
	mu    sync.Mutex
	known map[string]denial
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
		delete(d.known, node.Name)
	case !found || known.uid != node.UID:
		if d.known == nil {
			d.known = map[string]denial{}
		}
		d.known[node.Name] = denial{uid: node.UID, since: now}
	default:
		lasts = now.Sub(known.since) >= denialLasts
		known.lasts = lasts
		d.known[node.Name] = known
	}
	return lasts, d.lasting()
}

// forget drops a node. It returns for how many others a denial lasts.
func (d *denials) forget(name string) (nodes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, name)
	return d.lasting()
}

// lasting counts the nodes for which a denial lasts. The lock is held.
func (d *denials) lasting() (nodes int) {
	for _, known := range d.known {
		if known.lasts {
			nodes++
		}
	}
	return nodes
}

// noteDenial tells a node whose kubelet reports that the cloud denies its instance, once that lasts.
func (r *reconciler) noteDenial(ctx context.Context, node *corev1.Node, observation instances.Observation) {
	denied := observation.Status == instances.NotFound && ownership.Ready(node) && r.decide(node).Owner == ownership.Ours
	lasts, nodes := r.denials.note(node, denied, time.Now())
	r.metrics.denied.Set(float64(nodes))
	if lasts {
		r.say(ctx, node, ReasonInstanceNotFound,
			&instanceNotFoundError{name: node.Name, providerID: node.Spec.ProviderID, listed: observation.Listed, reports: true})
	}
}
