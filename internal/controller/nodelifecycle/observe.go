package nodelifecycle

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/inventory"
)

// observeTimeout is how long a pass waits for the cloud, however many nodes are asked for. Those that were not answered for are
// asked for again by the next pass.
const observeTimeout = 5 * time.Minute

// observer asks the cloud on behalf of a pass.
type observer struct {
	inventory *inventory.Inventory
	settings  Settings
	// maxAge is how old an answer may be that says that an instance is there.
	maxAge time.Duration
}

// observation is what one pass heard of the cloud.
type observation struct {
	said answers
	// asked is how many nodes were asked for, and failed how many of them got no answer; err is one of the reasons.
	asked, failed int
	err           error
}

// observe asks about the nodes that are due. Where the cloud can list, the ready nodes come with the same listing, and show
// whether it is to be believed; where not, a few of them are asked for if nothing else speaks for what was said.
// Facts and objects are the same nodes, in the same order.
func (o observer) observe(ctx context.Context, nodes []facts, objects []*corev1.Node, now time.Time) observation {
	seen := observation{said: answers{}}
	byUID := make(map[types.UID]*corev1.Node, len(objects))
	var due, ready []*corev1.Node
	for i, node := range nodes {
		byUID[node.uid] = objects[i]
		switch {
		case node.due(o.settings, now):
			due = append(due, objects[i])
		case node.standing == ours && node.ready:
			ready = append(ready, objects[i])
		}
	}
	if len(due) == 0 {
		return seen
	}
	ctx, cancel := context.WithTimeout(cloud.WithPriority(ctx, cloud.PriorityDeletion), observeTimeout)
	defer cancel()
	if o.inventory.Lists() {
		o.inventory.StateEach(ctx, append(due, ready...), o.maxAge, seen.note)
		return seen
	}
	o.inventory.StateEach(ctx, due, o.maxAge, seen.note)
	var bearing []*corev1.Node
	for _, witness := range witnesses(nodes, seen.said) {
		bearing = append(bearing, byUID[witness.uid])
	}
	o.inventory.ExistsEach(ctx, bearing, 0, seen.note)
	return seen
}

// note takes one answer. An error says nothing, unless it is only about the state of an instance that exists.
func (o *observation) note(node *corev1.Node, said inventory.Observation, err error) {
	o.asked++
	if err != nil {
		o.err = err
	}
	switch said.Status {
	case inventory.Found:
		o.said[node.UID] = answer{exists: true, state: said.State, at: said.At}
	case inventory.NotFound:
		if err == nil {
			o.said[node.UID] = answer{at: said.At}
		}
	case inventory.NoStatement:
	}
	if _, answered := o.said[node.UID]; !answered || err != nil {
		o.failed++
	}
}
