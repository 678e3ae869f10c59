// Package contest knows which fields of a node somebody else keeps changing after us, so that they are left alone for a while. It reads and
// writes nothing itself.
//
// See ADR 18.
package contest

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxReversals is how often in a row somebody else may change a field that we have written before we leave it alone for a while.
	maxReversals = 3
	// window is for how long a value has to stand for what comes later to be no reversal.
	window = 5 * time.Minute
	// firstPause is how long a field is left alone at first. It doubles each time, up to maxPause.
	firstPause = 30 * time.Second
	maxPause   = 10 * time.Minute
)

// Fields are what became of our last writes to one node of fields that others may write, too. The zero value knows no write. It is not safe
// for concurrent use.
type Fields struct {
	of map[string]*lastWrite
}

// lastWrite is what became of our last write of a field.
type lastWrite struct {
	value   string // what we wrote
	written time.Time
	// counted says that the write has been reversed, and that this was taken into account.
	counted   bool
	reversals int // in a row
	pause     time.Duration
	until     time.Time // the field is left alone until then
}

// Reversal is a field that is left alone from now on, because somebody else keeps changing it.
type Reversal struct {
	Field string
	// Wanted is what we wrote.
	Wanted string
	// Pause is for how long.
	Pause time.Duration
}

// Reversed takes in what a plan would write, by field. A field for which that is what we wrote last has been changed by somebody else
// since. It returns the fields that are left alone from now on, in their order.
func (f *Fields) Reversed(planned map[string]string, now time.Time) []Reversal {
	var paused []Reversal
	for _, field := range slices.Sorted(maps.Keys(planned)) {
		if last := f.of[field]; last != nil && last.value == planned[field] && last.reverse(now) {
			paused = append(paused, Reversal{Field: field, Wanted: last.value, Pause: last.pause})
		}
	}
	return paused
}

// reverse counts that the last write was reversed, once, and reports whether the field is left alone from now on.
func (w *lastWrite) reverse(now time.Time) bool {
	switch {
	case w.counted:
		return false // the write that follows has not been made yet, or came too late
	case now.Sub(w.written) >= window:
		w.reversals, w.pause = 0, 0
	}
	w.counted = true
	if w.reversals++; w.reversals < maxReversals {
		return false
	}
	w.pause = min(max(2*w.pause, firstPause), maxPause)
	w.until = now.Add(w.pause)
	return true
}

// Wrote notes what we have written, by field.
func (f *Fields) Wrote(values map[string]string, now time.Time) {
	for field, value := range values {
		if f.of == nil {
			f.of = map[string]*lastWrite{}
		}
		last := f.of[field]
		if last == nil || last.value != value { // what the cloud changed is nobody's reversal
			last = &lastWrite{value: value}
			f.of[field] = last
		}
		last.written, last.counted = now, false
	}
}

// Paused returns the fields that are left alone now, or nil if there are no such fields.
func (f *Fields) Paused(now time.Time) map[string]bool {
	var paused map[string]bool
	for field, last := range f.of {
		if now.Before(last.until) {
			if paused == nil {
				paused = map[string]bool{}
			}
			paused[field] = true
		}
	}
	return paused
}

// Pause returns how long it is until the first of the fields that are left alone may be written again, or zero if no field is left alone.
func (f *Fields) Pause(now time.Time) (left time.Duration) {
	for _, last := range f.of {
		if wait := last.until.Sub(now); wait > 0 && (left == 0 || wait < left) {
			left = wait
		}
	}
	return left
}

// ManagerOf returns who set a field last, empty if nobody is recorded. The path has the field's steps as managed fields name them. Another
// manager goes before one of our own name.
func ManagerOf(entries []metav1.ManagedFieldsEntry, path []string, own string) string {
	var last metav1.ManagedFieldsEntry
	for _, entry := range entries {
		if !sets(entry, path) {
			continue
		}
		foreign, before := entry.Manager != own, last.Manager != "" && last.Manager != own
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
