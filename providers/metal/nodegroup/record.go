package nodegroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/mooring-ccm/mooring/internal/message"
)

// Annotation on the Lease of node groups holds what machines are to be, as JSON by their IDs.
const Annotation = "metal.mooring.dev/node-groups"

// requestTimeout is the deadline of one request to the API server.
const requestTimeout = 10 * time.Second

// recordedIntents are what was recorded of all machines, as a value.
type recordedIntents struct {
	intents map[string]intent
	// unreadable are entries that are no intents, as they were found; they stay as they are.
	unreadable map[string]json.RawMessage
	// lease is the object that it is from, or nil if that does not exist yet.
	lease *coordinationv1.Lease
}

// with returns the record with changes. Machines that are not known any more are left out.
func (r recordedIntents) with(made changes, known func(id string) bool) recordedIntents {
	next := recordedIntents{intents: maps.Clone(r.intents), unreadable: r.unreadable, lease: r.lease}
	if next.intents == nil {
		next.intents = map[string]intent{}
	}
	maps.DeleteFunc(next.intents, func(id string, _ intent) bool { return !known(id) })
	maps.Copy(next.intents, made)
	return next
}

// decode reads what an annotation says. No time is from the future: the clock of another replica may have been ahead of ours, and what
// it wrote counts as of now.
func decode(text string, now time.Time) (recordedIntents, error) {
	read := recordedIntents{intents: map[string]intent{}, unreadable: map[string]json.RawMessage{}}
	if text == "" {
		return read, nil
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		return recordedIntents{}, err
	}
	for id, raw := range entries {
		var one intent
		if err := json.Unmarshal(raw, &one); err != nil || one.Want != awake && one.Want != asleep || one.Waking && one.Want != awake {
			read.unreadable[id] = raw
			continue
		}
		for _, at := range []*time.Time{&one.Since, &one.Cycle, &one.Off} {
			if at.After(now) {
				*at = now
			}
		}
		read.intents[id] = one
	}
	return read, nil
}

// encode writes what decode reads.
func (r recordedIntents) encode() (string, error) {
	entries := map[string]any{}
	for id, raw := range r.unreadable {
		entries[id] = raw
	}
	for id, one := range r.intents {
		entries[id] = one
	}
	text, err := json.Marshal(entries)
	return string(text), err
}

// store is the Lease that holds the record.
type store struct {
	leases          coordinationv1client.LeasesGetter
	namespace, name string
}

// errOutdated says that somebody else has written meanwhile. Nothing was written.
var errOutdated = errors.New("the record of node groups has changed since")

// read returns the record as the API server has it now.
func (s store) read(ctx context.Context, now time.Time) (recordedIntents, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	lease, err := s.leases.Leases(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return recordedIntents{}, nil
	}
	if err != nil {
		return recordedIntents{}, fmt.Errorf("reading the record of node groups from Lease %s/%s: %w", s.namespace, s.name, err)
	}
	text := lease.Annotations[Annotation]
	found, err := decode(text, now)
	if err != nil {
		return recordedIntents{}, fmt.Errorf("the annotation %s of Lease %s/%s, %q, is no record of node groups (remove it to have all machines that are "+
			"off and have no node count as asleep): %w", Annotation, s.namespace, s.name, message.Line(text, 200), message.Bound(err, 200))
	}
	found.lease = lease
	return found, nil
}

// write stores a record in place of the one that it was made of, and returns it as it is stored. It is an errOutdated if that has changed.
func (s store) write(ctx context.Context, r recordedIntents, now time.Time) (recordedIntents, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	text, err := r.encode()
	if err != nil {
		return recordedIntents{}, fmt.Errorf("encoding the record of node groups: %w", err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
	save := func() (*coordinationv1.Lease, error) {
		return s.leases.Leases(s.namespace).Create(ctx, lease, metav1.CreateOptions{})
	}
	if r.lease != nil {
		lease = r.lease.DeepCopy()
		save = func() (*coordinationv1.Lease, error) {
			return s.leases.Leases(s.namespace).Update(ctx, lease, metav1.UpdateOptions{})
		}
	}
	renewed := metav1.NewMicroTime(now)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, Annotation, text)
	lease.Spec.RenewTime = &renewed
	saved, err := save()
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return recordedIntents{}, fmt.Errorf("%w: %w", errOutdated, err)
	case err != nil:
		return recordedIntents{}, fmt.Errorf("recording what machines are to be in Lease %s/%s: %w", s.namespace, s.name, err)
	}
	r.lease = saved
	return r, nil
}
