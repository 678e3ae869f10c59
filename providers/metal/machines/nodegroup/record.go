package nodegroup

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/mooring-ccm/mooring/internal/leaserecord"
	"github.com/mooring-ccm/mooring/internal/message"
)

// Annotation on the Lease of node groups holds what machines are to be, as JSON by their IDs.
const Annotation = "metal.mooring.dev/node-groups"

// recordedIntents are what was recorded of all machines, as a value.
type recordedIntents struct {
	intents map[string]intent
	// unreadable are entries that are no intents, as they were found; they stay as they are.
	unreadable map[string]json.RawMessage
	// version is what it was read or written as.
	version leaserecord.Version
}

// with returns the record with changes. Machines that are no longer known are left out.
func (r recordedIntents) with(made changes, known func(id string) bool) recordedIntents {
	next := recordedIntents{intents: maps.Clone(r.intents), unreadable: r.unreadable, version: r.version}
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
type store struct{ leaserecord.Record }

// errOutdated says that another replica has written meanwhile. Nothing was written.
var errOutdated = leaserecord.ErrOutdated

// read returns the record as the API server has it now.
func (s store) read(ctx context.Context, now time.Time) (recordedIntents, error) {
	text, version, err := s.Read(ctx)
	if err != nil {
		return recordedIntents{}, fmt.Errorf("the record of node groups: %w", err)
	}
	found, err := decode(text, now)
	if err != nil {
		return recordedIntents{}, fmt.Errorf("the annotation %s of Lease %s, %q, is no record of node groups (remove it to have all machines that are "+
			"off and have no node count as asleep): %w", Annotation, s.Record, message.Line(text, 200), message.Bound(err, 200))
	}
	found.version = version
	return found, nil
}

// write stores a record in place of the one that it was made of, and returns it as it is stored. It is an errOutdated if that has changed.
func (s store) write(ctx context.Context, r recordedIntents, now time.Time) (recordedIntents, error) {
	text, err := r.encode()
	if err != nil {
		return recordedIntents{}, fmt.Errorf("encoding the record of node groups: %w", err)
	}
	if r.version, err = s.Write(ctx, r.version, text, now); err != nil {
		return recordedIntents{}, fmt.Errorf("recording what machines are to be: %w", err)
	}
	return r, nil
}
