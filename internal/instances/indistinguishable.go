package instances

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/instances/bounds"
	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/provider"
)

// indistinguishable are the instances that a snapshot leaves out because they cannot be told apart. Nil: there are none. A snapshot that leaves
// one out says of no instance that it is gone: the one that is looked for may be left out.
//
// See ADR 6.
type indistinguishable struct {
	// count is how many instances were left out, and first the problem of one of them.
	count int
	first string
	// names are those of the instances, with what a node without provider ID gets that has one of them.
	names map[types.NodeName]error
	// twice are the provider IDs that several instances have.
	twice map[string]bool
}

// problemOf returns what is wrong with the provider ID of an instance, nothing if it can be told from others by that. The error is for the
// node of that name.
func problemOf(instance *provider.Instance) (problem string, err error) {
	id := instance.ProviderID
	if id != "" && len(id) <= bounds.MaxProviderIDBytes && !namesNothing(id) {
		return "", nil
	}
	name := message.Line(string(instance.NodeName), maxShown)
	if length := len(id); length > bounds.MaxProviderIDBytes {
		problem = fmt.Sprintf("the instance with node name %q has a provider ID of %d bytes", name, length)
		return problem, &InvalidListError{Problem: problem, LeftOut: 1}
	}
	id = message.Line(id, maxShown)
	problem = fmt.Sprintf("the instance with node name %q has no provider ID", name)
	if id != "" {
		problem = fmt.Sprintf("the instance with node name %q has the provider ID %q, which names nothing", name, id)
	}
	return problem, &ProviderIDMissingError{Name: name, Said: id}
}

// add notes an instance that was left out.
func (f *indistinguishable) add(name types.NodeName, problem string, err error) *indistinguishable {
	if f == nil {
		f = &indistinguishable{first: problem, names: map[types.NodeName]error{}, twice: map[string]bool{}}
	}
	f.count++
	f.names[name] = err
	return f
}

// remove forgets the instances of a name, and returns nil if none are left.
func (f *indistinguishable) remove(name types.NodeName) *indistinguishable {
	if f == nil {
		return nil
	}
	delete(f.names, name)
	if f.count = len(f.names); f.count == 0 {
		return nil
	}
	return f
}

// left returns how many instances were left out.
func (f *indistinguishable) left() int {
	if f == nil {
		return 0
	}
	return f.count
}

// of returns the error for a node that is looked up by its name, if an instance with that name was left out.
func (f *indistinguishable) of(name types.NodeName) error {
	if f == nil {
		return nil
	}
	return f.names[name]
}

// err returns what there is instead of the statement that something is gone.
func (f *indistinguishable) err() error {
	if f == nil {
		return nil
	}
	return &InvalidListError{Problem: f.first, LeftOut: f.count}
}

// indistinguishableLog logs when instances are left out for the first time, and when none is. It is used by one goroutine at a time.
type indistinguishableLog struct{ shown bool }

func (l *indistinguishableLog) note(ctx context.Context, of *indistinguishable) {
	if l.shown == (of != nil) {
		return
	}
	l.shown = of != nil
	log := logr.FromContextOrDiscard(ctx)
	if !l.shown {
		log.Info("All instances that the cloud lists can be told apart again")
		return
	}
	log.Error(of.err(), "Instances of the cloud cannot be told apart and are left out; no node is deleted because of a list without them",
		"leftOut", of.count)
}
