// Package dryrun replaces writes under --dry-run: the controllers run as ever, and a Recorder keeps each write to Kubernetes or to
// the cloud as an intent of the plan.
//
// Three barriers prevent writes, and each would suffice: controllers get a client that writes nothing (Client), a cloud that
// changes nothing (Cloud), and every connection to the API server refuses requests that could change something (ReadOnly).
package dryrun

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/ccm/plan"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// key identifies an intent: the same thing intended again takes its place.
type key struct{ controller, where, verb, kind, namespace, name string }

func keyOf(i plan.Intent) key { return key{i.Controller, i.Where, i.Verb, i.Kind, i.Namespace, i.Name} }

// Recorder holds what is intended at present. It is safe for concurrent use.
//
// See ADR 80.
type Recorder struct {
	now func() time.Time

	mu      sync.Mutex
	intents map[key]entry
	// compared are the Services whose load balancers do not differ, with what was not compared.
	compared map[types.NamespacedName][]string
}

// entry is an intent with what shows whether it still holds.
type entry struct {
	plan.Intent
	// holds returns the intent as it is now, and false when there is nothing left of it.
	holds func(context.Context) ([]plan.Change, bool)
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	return &Recorder{now: time.Now, intents: map[key]entry{}, compared: map[types.NamespacedName][]string{}}
}

// record keeps an intent. It calls holds each time the plan is read; nil is an intent that holds for kit.EventInterval after it
// was last intended.
func (r *Recorder) record(intent plan.Intent, holds func(context.Context) ([]plan.Change, bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	intent.First, intent.Last = r.now(), r.now()
	if before, found := r.intents[keyOf(intent)]; found {
		intent.First = before.First
	}
	r.intents[keyOf(intent)] = entry{intent, holds}
	if intent.Where == plan.TheCloud && intent.Kind == "Service" {
		delete(r.compared, types.NamespacedName{Namespace: intent.Namespace, Name: intent.Name})
	}
}

// Intents returns what is intended now: it leaves out what another writer has done meanwhile, and what is no longer wanted. Where only its
// repetition shows that something is wanted, that was less than kit.EventInterval ago: controllers look again more often while they would change
// something. It is sorted by object.
func (r *Recorder) Intents(ctx context.Context) []plan.Intent {
	var intents []plan.Intent
	for _, entry := range r.entries() {
		intent := entry.Intent
		holds := r.now().Sub(intent.Last) <= kit.EventInterval
		if entry.holds != nil {
			intent.Changes, holds = entry.holds(ctx)
		}
		if holds {
			intents = append(intents, intent)
		} else {
			r.drop(intent)
		}
	}
	slices.SortFunc(intents, func(a, b plan.Intent) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Where, b.Where), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Controller, b.Controller))
	})
	return intents
}

func (r *Recorder) entries() []entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	entries := make([]entry, 0, len(r.intents))
	for _, entry := range r.intents {
		entries = append(entries, entry)
	}
	return entries
}

// drop forgets an intent unless it was renewed meanwhile.
func (r *Recorder) drop(intent plan.Intent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.intents[keyOf(intent)].Last.Equal(intent.Last) {
		delete(r.intents, keyOf(intent))
	}
}

// reasonKey is the key of a reason in a context.
type reasonKey struct{}

// Because returns a context that says why what is done with it is done. It has no effect without --dry-run.
func Because(ctx context.Context, why string) context.Context {
	return context.WithValue(ctx, reasonKey{}, why)
}

// reason returns what Because was given, empty if nothing.
func reason(ctx context.Context) string {
	why, _ := ctx.Value(reasonKey{}).(string)
	return why
}
