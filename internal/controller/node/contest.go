package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/message"
)

const (
	// maxReversals is how often in a row somebody else may change a field that we have written before we leave it alone for a while.
	maxReversals = 3
	// contestWindow is for how long a value has to stand for what comes later to be no reversal.
	contestWindow = 5 * time.Minute
	// firstPause is how long a field is left alone at first. It doubles each time, up to maxPause.
	firstPause = 30 * time.Second
	maxPause   = 10 * time.Minute
	// readTimeout is the deadline of the question who else writes a field.
	readTimeout = 5 * time.Second
)

// contest is what became of our last write of a field that others write, too.
//
// See ADR 18.
type contest struct {
	value   string // what we wrote
	written time.Time
	// counted says that the write has been reversed, and that this was taken into account.
	counted   bool
	reversals int // in a row
	pause     time.Duration
	until     time.Time // the field is left alone until then
}

// reversal is a field that is left alone from now on, because somebody else keeps changing it.
type reversal struct {
	field string
	// wanted is what we wrote.
	wanted string
	pause  time.Duration
}

// reversed takes in what a plan would write to a node. A field for which that is what we wrote last has been changed by somebody
// else since. It returns the fields that are left alone from now on, in their order.
func (s *state) reversed(node *corev1.Node, fields map[string]string, now time.Time) []reversal {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of(node)
	var paused []reversal
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if of := known.contests[field]; of != nil && of.value == fields[field] && of.reverse(now) {
			paused = append(paused, reversal{field: field, wanted: of.value, pause: of.pause})
		}
	}
	return paused
}

// reverse counts that the last write was reversed, once, and reports whether the field is left alone from now on.
func (c *contest) reverse(now time.Time) bool {
	switch {
	case c.counted:
		return false // the write that follows has not been made yet, or came too late
	case now.Sub(c.written) >= contestWindow:
		c.reversals, c.pause = 0, 0
	}
	c.counted = true
	if c.reversals++; c.reversals < maxReversals {
		return false
	}
	c.pause = min(max(2*c.pause, firstPause), maxPause)
	c.until = now.Add(c.pause)
	return true
}

// wroteFields notes what we have written to an initialized node.
func (s *state) wroteFields(node *corev1.Node, fields map[string]string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of(node)
	for field, value := range fields {
		if known.contests == nil {
			known.contests = map[string]*contest{}
		}
		of := known.contests[field]
		if of == nil || of.value != value { // what the cloud changed is nobody's reversal
			of = &contest{value: value}
			known.contests[field] = of
		}
		of.written, of.counted = now, false
	}
}

// paused returns the fields of a node that are left alone now, nil if there are none.
func (s *state) paused(node *corev1.Node, now time.Time) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.nodes[node.Name]
	if known == nil || known.uid != node.UID {
		return nil
	}
	var paused map[string]bool
	for field, of := range known.contests {
		if now.Before(of.until) {
			if paused == nil {
				paused = map[string]bool{}
			}
			paused[field] = true
		}
	}
	return paused
}

// pause returns how long it is until the first of the fields that are left alone may be written again, zero if there is none.
func (s *state) pause(node *corev1.Node, now time.Time) (left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.nodes[node.Name]
	if known == nil || known.uid != node.UID {
		return 0
	}
	for _, of := range known.contests {
		if wait := of.until.Sub(now); wait > 0 && (left == 0 || wait < left) {
			left = wait
		}
	}
	return left
}

// warnReversed counts fields that are left alone from now on, and says by an event who else writes them, unless there was one a
// short while ago.
func (r *reconciler) warnReversed(ctx context.Context, node *corev1.Node, paused []reversal) {
	r.metrics.failures.WithLabelValues(ReasonConflictingWriter).Add(float64(len(paused)))
	now := time.Now()
	news := slices.DeleteFunc(slices.Clone(paused), func(of reversal) bool {
		return !r.events.Allow(node.UID, ReasonConflictingWriter+of.field, now)
	})
	log := logf.FromContext(ctx)
	if len(news) == 0 {
		log.V(1).Info("Another writer keeps changing fields of the node; leaving them alone", "retryAfter", paused[0].pause)
		return
	}
	live := r.readLive(ctx, node)
	changes := make([]string, len(news))
	for i, of := range news {
		changes[i] = of.describe(live)
	}
	what := "Another writer keeps changing what the cloud decides about: " + strings.Join(changes, "; ")
	advice := fmt.Sprintf(". Stop the other writer, or annotate the node %s=true.", ownership.AnnotationIgnore)
	r.recorder.Event(node, corev1.EventTypeWarning, ReasonConflictingWriter, message.Line(what, kit.MaxMessage-len(advice))+advice)
	log.Info("Another writer keeps changing fields of the node; leaving them alone for a while", "reason", ReasonConflictingWriter,
		"changes", changes)
}

// readLive reads a node with the record of who set which field, which the cache leaves out. Without it the event says what is known.
func (r *reconciler) readLive(ctx context.Context, node *corev1.Node) *corev1.Node {
	if r.live == nil {
		return node
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	live := &corev1.Node{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(node), live); err != nil || live.UID != node.UID {
		return node
	}
	return live
}

// describe says what is contested, by whom, and what follows.
func (r reversal) describe(live *corev1.Node) string {
	what, wanted, has := "the addresses", r.wanted, addressList(live.Status.Addresses)
	if key, isLabel := labelOf(r.field); isLabel {
		what, wanted, has = "the label "+key, fmt.Sprintf("%q", r.wanted), fmt.Sprintf("%q", live.Labels[key])
	}
	by := "a writer that left no name"
	if manager := managerOf(live.ManagedFields, r.field); manager != "" {
		by = fmt.Sprintf("the field manager %q", manager)
	}
	return fmt.Sprintf("%s from %s to %s, by %s, left alone for %s", what, wanted, has, by, r.pause)
}

// managerOf returns who set a field last, empty if nobody is recorded. Another manager goes before one of our own name.
func managerOf(entries []metav1.ManagedFieldsEntry, field string) string {
	path := []string{"f:status", "f:addresses"}
	if key, isLabel := labelOf(field); isLabel {
		path = []string{"f:metadata", "f:labels", "f:" + key}
	}
	var last metav1.ManagedFieldsEntry
	for _, entry := range entries {
		if !sets(entry, path) {
			continue
		}
		foreign, before := entry.Manager != fieldManager, last.Manager != "" && last.Manager != fieldManager
		if last.Manager == "" || foreign && !before || foreign == before && last.Time.Before(entry.Time) {
			last = entry
		}
	}
	return last.Manager
}

// sets reports whether an entry of the managed fields names a field.
func sets(entry metav1.ManagedFieldsEntry, path []string) bool {
	if entry.FieldsV1 == nil {
		return false
	}
	at := json.RawMessage(entry.FieldsV1.GetRawBytes())
	for _, step := range path {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(at, &fields); err != nil {
			return false
		}
		next, found := fields[step]
		if !found {
			return false
		}
		at = next
	}
	return true
}
