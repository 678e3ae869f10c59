package dead

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

// fence looks once at machines to turn off, by the facts of the nodes that are present.
func (c *Controller) fence(ctx context.Context, present []*v1.Node, nodes []facts, settings Settings) {
	own, err := c.options.Self()
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "The machine of this replica is not known; no machine is turned off")
		return
	}
	c.load(ctx, settings)
	s := c.complete(present, nodes, own, settings)
	if settings.fences() && s.silent > 0 {
		c.ask(ctx, nodes)
	}
	s.answering = c.answering
	now := time.Now()
	actions, held := planFences(nodes, s, settings, now)
	c.metrics.holds(held)
	c.sayHeld(present, nodes, held)
	for _, action := range actions {
		if err := c.note(ctx, action, now); err != nil {
			if action.kind == turnOff {
				c.metrics.attempt(err)
			}
			c.complain(ctx, err)
			return
		}
		if action.kind == turnOff {
			c.begin(ctx, action, settings.Fence)
		}
	}
}

// load reads the record, if it is needed and not known. It is read when this replica begins, and after a write that failed.
func (c *Controller) load(ctx context.Context, settings Settings) {
	c.mu.Lock()
	known := c.record != nil
	c.mu.Unlock()
	if known || !settings.fences() {
		return
	}
	record, err := c.store.read(ctx, time.Now())
	if err != nil {
		c.complain(ctx, err)
		return
	}
	c.mu.Lock()
	c.record = &record
	c.mu.Unlock()
}

// complain logs that the record is not to be had, once for each reason.
func (c *Controller) complain(ctx context.Context, err error) {
	if ctx.Err() == nil && c.complaint != err.Error() {
		c.complaint = err.Error()
		logr.FromContextOrDiscard(ctx).Error(err, "No machine is turned off without a record of it; trying again")
	}
}

// note records an action before it is taken. A machine is turned off only if the API server has stored the decision: other leaders see it,
// and nothing is turned off in a dry run, whose writes are refused.
func (c *Controller) note(ctx context.Context, action action, now time.Time) error {
	c.mu.Lock()
	record := c.record
	c.mu.Unlock()
	if record == nil {
		return errOutdated
	}
	next := action.of(*record, now, c.options.Machines.Known)
	err := c.store.write(ctx, next, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record = &next; err != nil {
		c.record = nil // it may have been written all the same
	}
	return err
}

// Fenced reports whether a machine was turned off here, or is being, and its node has not been ready since, as far as is known.
func (c *Controller) Fenced(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record == nil {
		return false
	}
	_, attempted := c.record.of(id)
	return attempted
}

// complete adds to the facts of nodes what only a power-off asks for, and returns what matters of all of them together. It remembers since
// when each is silent.
func (c *Controller) complete(present []*v1.Node, nodes []facts, own self.Replica, settings Settings) situation {
	c.mu.Lock()
	s := situation{attempting: c.attempting, unrecorded: c.record == nil, ownKnown: settings.Fence.OutsideCluster}
	var record attempts
	if c.record != nil {
		record = *c.record
		s.lastAttempt = record.Last
	}
	c.mu.Unlock()
	now, silentSince := time.Now(), map[types.UID]time.Time{}
	claims := map[string][]string{}
	for _, node := range present {
		claims[node.Name] = c.options.Machines.Claims(node)
		if named := c.options.Machines.Named(node.Name); named != nil && !slices.Contains(claims[node.Name], named.ID) {
			claims[node.Name] = append(claims[node.Name], named.ID)
		}
	}
	twins := twinsOf(claims)
	for i, node := range present {
		f := &nodes[i]
		if c.options.Machines.GoesToSleep(node) {
			f.verified = nodestate.Unknown
		}
		f.own, f.twins = own.Is(node), twins[f.name]
		f.attempt, f.attempted = record.of(f.machine)
		if f.machine != "" { // what is said of other nodes is their kubelets' word
			s.nodes++
			s.ownKnown = s.ownKnown || f.own
		}
		if f.silent {
			if f.machine != "" {
				s.silent++
			}
			f.silentSince = since(c.silentSince[f.uid], node, now)
			silentSince[f.uid] = f.silentSince
		}
	}
	c.silentSince = silentSince
	return s
}

// since returns since when a node is silent: since a pass first saw it, or since it last changed, whichever is later.
func since(seen time.Time, node *v1.Node, now time.Time) time.Time {
	if seen.IsZero() {
		return now
	}
	for i := range node.Status.Conditions {
		condition := &node.Status.Conditions[i]
		if condition.Type == v1.NodeReady && condition.LastTransitionTime.After(seen) {
			return now
		}
	}
	return seen
}

// ask has the API server answer for one silent node, so it is known to be reachable: nodes fall silent together when it is not.
func (c *Controller) ask(ctx context.Context, nodes []facts) {
	for _, node := range nodes {
		if !node.silent || node.machine == "" {
			continue
		}
		if _, err := c.writer.read(ctx, node.name); err != nil {
			c.answering = time.Time{}
			return
		}
		now := time.Now()
		if c.answering.IsZero() || now.Sub(c.answered) > maxPause*c.options.Period {
			c.answering = now
		}
		c.answered = now
		return
	}
}

// begin starts an attempt, beside the passes: it may take long, and others are looked after meanwhile.
func (c *Controller) begin(ctx context.Context, action action, settings Fence) {
	c.mu.Lock()
	c.attempting = true
	c.mu.Unlock()
	c.attempts.Go(func() {
		err := c.writer.fence(ctx, action, settings.Timeout)
		c.finish(ctx, action, err)
	})
}

// finish notes what became of an attempt.
func (c *Controller) finish(ctx context.Context, action action, err error) {
	log := logr.FromContextOrDiscard(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempting = false
	c.metrics.attempt(err)
	switch {
	case err == nil:
		log.Info("The machine of a silent node was turned off", "node", action.node.name)
	case !errors.Is(err, errOutdated):
		log.Error(err, "The machine of a silent node could not be turned off; trying again", "node", action.node.name)
	}
}

// sayHeld records on nodes why their machines are not turned off, if that stays until the operator acts.
func (c *Controller) sayHeld(present []*v1.Node, nodes []facts, held map[string]holdReason) {
	for i, node := range present {
		why := held[node.Name]
		message, lasting := heldMessages[why]
		if !lasting {
			why = notHeld
		}
		if twins := nodes[i].twins; why == heldTwins {
			message = fmt.Sprintf("%s: %s", message, strings.Join(twins[:min(len(twins), mostTwins)], ", "))
		}
		c.holds.report(node, string(why), ReasonFencingHeld, "The node is silent and its machine is not turned off: "+message)
	}
	c.holds.forget(present)
}

// heldMessages say what holds a power-off that does not go away by itself.
var heldMessages = map[holdReason]string{
	heldControl:    "it is a node of the control plane",
	heldUnverified: "its BMC does not name the machine by its system UUID",
	heldOwn:        "this replica runs on it",
	heldOwnUnknown: "this replica does not know which node it runs on; set NODE_NAME in its pod, or fence.outsideCluster",
	heldTooMany:    "more nodes are silent than fence.maxUnknownPercent allows",
	heldUnproven:   "its machine is not proven: the inventory gives no machine the node's name, or the node has not its provider ID",
	heldTwins:      "another node says that it is the same machine",
	heldUnrecorded: "the record of attempts cannot be read, see the log",
	heldFenced:     "it was turned off before and has power again, but the node has not been ready since",
}
