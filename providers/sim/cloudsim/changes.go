package cloudsim

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// maxHistory is how many changes of instances the cloud remembers. Who asks for what happened before begins anew.
const maxHistory = 10_000

// history is what happened to instances, for clients that watch. It is of the process: after a restart only the revision is known. The
// service's lock guards it.
type history struct {
	events []api.InstanceChange
	// more is closed by the next change.
	more chan struct{}
	// settling are the instances that will change by themselves, and when.
	settling map[string]time.Time
}

func newHistory() history {
	return history{more: make(chan struct{}), settling: map[string]time.Time{}}
}

// add remembers a change.
func (h *history) add(change api.InstanceChange) {
	if len(h.events) == maxHistory {
		h.events = slices.Delete(h.events, 0, maxHistory/10)
	}
	h.events = append(h.events, change)
	close(h.more)
	h.more = make(chan struct{})
}

// nextRevision counts a change that is about to be written, together with the record that the result describes. Called with
// mu held.
func (s *Service) nextRevision() change {
	s.meta.Revision++
	return s.metaChange()
}

// wasSet sends an instance that was written to clients that watch. Called with mu held.
func (s *Service) wasSet(record instance, now time.Time) {
	if now.Before(record.SettlesAt) {
		s.history.settling[record.ID] = record.SettlesAt
	}
	view := record.at(now)
	s.history.add(api.InstanceChange{Kind: api.ChangeSet, Revision: s.meta.Revision, Instance: &view})
}

// wasDeleted tells clients that watch of a deleted instance. Called with mu held.
func (s *Service) wasDeleted(id string) {
	delete(s.history.settling, id)
	s.history.add(api.InstanceChange{Kind: api.ChangeDeleted, Revision: s.meta.Revision, ID: id})
}

// settle reports the instances that have changed by themselves, and returns how long it is until the next does; zero if none
// will. Called with mu held.
func (s *Service) settle(now time.Time) (time.Duration, error) {
	var next time.Duration
	for _, id := range slices.Sorted(maps.Keys(s.history.settling)) {
		if wait := s.history.settling[id].Sub(now); wait > 0 {
			if next == 0 || wait < next {
				next = wait
			}
			continue
		}
		if err := s.store.commit(s.nextRevision()); err != nil {
			return 0, err
		}
		delete(s.history.settling, id)
		s.wasSet(s.instances.live[id], now)
	}
	return next, nil
}

// changesSince returns what has changed since a revision, ending with a mark. Called with mu held.
func (s *Service) changesSince(since int64) ([]api.InstanceChange, error) {
	current := s.meta.Revision
	var changes []api.InstanceChange
	switch {
	case since == api.FromBeginning:
		now := s.clock.Now()
		for _, id := range sortedNames(s.instances.live) {
			view := s.instances.live[id].at(now)
			changes = append(changes, api.InstanceChange{Kind: api.ChangeSet, Revision: current, Instance: &view})
		}
	case since == current:
	case since > current || len(s.history.events) == 0 || s.history.events[0].Revision > since+1:
		return nil, &api.Error{
			Status: http.StatusGone, Code: api.CodeRevisionExpired,
			Message: "the changes since this revision are no longer known; watch again from the beginning",
		}
	default:
		from, _ := slices.BinarySearchFunc(s.history.events, since+1, func(c api.InstanceChange, revision int64) int {
			return int(c.Revision - revision)
		})
		changes = slices.Clone(s.history.events[from:])
	}
	return append(changes, api.InstanceChange{Kind: api.ChangeMark, Revision: current}), nil
}
