// Package dryrun is what a manager does instead of writing under --dry-run: the controllers run as ever, and each write to
// Kubernetes or to the cloud becomes an Intent in a Journal, which can be read as a plan.
//
// Nothing is written by three bolts, each of which would do: controllers get a client that writes nothing (Client), a cloud that
// changes nothing (Cloud), and every connection to the API server refuses requests that could change something (ReadOnly).
package dryrun

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Where an Intent would take effect.
const (
	Kubernetes = "kubernetes"
	TheCloud   = "cloud"
)

// Effect is what an intent would do to its object.
type Effect string

// The effects. To ensure something that exists is to change it, even if nothing about it turns out to differ, unless it is only ensured
// because a process begins, see Refreshing.
const (
	Creates Effect = "create"
	Alters  Effect = "change"
	Deletes Effect = "delete"
)

// Intent is one thing that a controller would do.
type Intent struct {
	// Controller would do it.
	Controller string `json:"controller"`
	// Where is Kubernetes or TheCloud.
	Where string `json:"where"`
	// Verb is what would be done: "patch", "delete", "EnsureLoadBalancer".
	Verb string `json:"verb"`
	// Effect is what that would do to the object in Kubernetes, or to what there is for it in the cloud.
	Effect Effect `json:"effect"`
	// Kind, Namespace and Name are the object that it is about; of a route the destination is the name.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Why is the reason in words, as in the log.
	Why string `json:"why,omitempty"`
	// Changes are what would differ afterwards.
	Changes []Change `json:"changes,omitempty"`
	// First and Last are when it was first and last intended.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// Change is one field that would differ. From is nil for one that is not there, To for one that would not be.
type Change struct {
	Path string `json:"path"`
	From any    `json:"from,omitempty"`
	To   any    `json:"to,omitempty"`
}

// key identifies an intent: the same thing intended again takes its place.
type key struct{ controller, where, verb, kind, namespace, name string }

func (i Intent) key() key { return key{i.Controller, i.Where, i.Verb, i.Kind, i.Namespace, i.Name} }

// Journal holds what is intended at present. It is safe for concurrent use.
type Journal struct {
	now func() time.Time

	mu      sync.Mutex
	intents map[key]noted
	// compared are the Services whose load balancers do not differ, with what was not compared.
	compared map[types.NamespacedName][]string
}

// noted is an intent with what tells whether it still holds.
type noted struct {
	Intent
	// holds returns the intent as it is now, and false when there is nothing left of it.
	holds func(context.Context) ([]Change, bool)
}

// NewJournal returns an empty journal.
func NewJournal() *Journal {
	return &Journal{now: time.Now, intents: map[key]noted{}, compared: map[types.NamespacedName][]string{}}
}

// note keeps an intent. Holds is asked each time when the plan is read; nil is an intent that holds for Renewal after it was last
// intended.
func (j *Journal) note(intent Intent, holds func(context.Context) ([]Change, bool)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	intent.First, intent.Last = j.now(), j.now()
	if before, found := j.intents[intent.key()]; found {
		intent.First = before.First
	}
	j.intents[intent.key()] = noted{intent, holds}
	if intent.Where == TheCloud && intent.Kind == "Service" {
		delete(j.compared, types.NamespacedName{Namespace: intent.Namespace, Name: intent.Name})
	}
}

// Renewal is how long something counts as intended of which nothing but its repetition tells that it still is. Controllers look
// again more often than that while they would change something.
const Renewal = 10 * time.Minute

// Plan returns what is intended now: what somebody else has done meanwhile, or what is not wanted any more, is left out. It is
// sorted by object.
func (j *Journal) Plan(ctx context.Context) []Intent {
	var plan []Intent
	for _, entry := range j.entries() {
		intent := entry.Intent
		holds := j.now().Sub(intent.Last) <= Renewal
		if entry.holds != nil {
			intent.Changes, holds = entry.holds(ctx)
		}
		if holds {
			plan = append(plan, intent)
		} else {
			j.drop(intent)
		}
	}
	slices.SortFunc(plan, func(a, b Intent) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Where, b.Where), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Controller, b.Controller))
	})
	return plan
}

func (j *Journal) entries() []noted {
	j.mu.Lock()
	defer j.mu.Unlock()
	entries := make([]noted, 0, len(j.intents))
	for _, entry := range j.intents {
		entries = append(entries, entry)
	}
	return entries
}

// drop forgets an intent unless it was renewed meanwhile.
func (j *Journal) drop(intent Intent) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.intents[intent.key()].Last.Equal(intent.Last) {
		delete(j.intents, intent.key())
	}
}
