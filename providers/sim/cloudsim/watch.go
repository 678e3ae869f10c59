package cloudsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/fault"
)

// markInterval is the time between the marks of a watch in which nothing happens.
const markInterval = time.Second

// errCutOff ends a watch in the middle because a fault says so.
var errCutOff = errors.New("a fault ended the stream")

// watchInstances streams the changes of instances until the client gives up, the cloud stops or a fault ends it.
func (s *Service) watchInstances(w http.ResponseWriter, r *request) error {
	since := api.FromBeginning
	if text := r.URL.Query().Get("since"); text != "" {
		revision, err := strconv.ParseInt(text, 10, 64)
		if err != nil || revision < 0 {
			return invalidField("since", text, "must be the revision of a mark")
		}
		since = revision
	}
	s.mu.Lock()
	batch, err := s.changesSince(since)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	// The server's deadline for reading a request is not meant for one whose answer never ends.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", api.ContentTypeChanges)
	w.WriteHeader(http.StatusOK)
	for fault := r.fault; ; {
		if err := sendChanges(w, batch, fault); err != nil {
			return nil // the answer has begun, so it can no longer be refused
		}
		if batch, err = s.nextChanges(r, batch[len(batch)-1].Revision); err != nil {
			return nil
		}
		if fault, err = s.streamFault(r); err != nil {
			return nil
		}
	}
}

// sendChanges writes changes, as a fault says if there is one.
func sendChanges(w http.ResponseWriter, batch []api.InstanceChange, fault *api.Fault) error {
	mode := api.FaultMode("")
	if fault != nil {
		mode = fault.Mode
	}
	switch mode {
	case api.FaultEmpty:
		batch = batch[len(batch)-1:]
	case api.FaultShortList:
		batch = append(batch[:(len(batch)-1)/2:(len(batch)-1)/2], batch[len(batch)-1])
	case api.FaultMalformed:
		_, _ = w.Write([]byte(`{"kind": <html>` + "\n"))
		return errCutOff
	}
	var lines bytes.Buffer
	for _, change := range batch {
		if err := json.NewEncoder(&lines).Encode(change); err != nil {
			return err
		}
	}
	data := lines.Bytes()
	if mode == api.FaultTruncate {
		data = data[:len(data)/2]
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	if mode == api.FaultTruncate {
		return errCutOff
	}
	return http.NewResponseController(w).Flush()
}

// nextChanges waits for something to happen since a revision, or for the time of a mark, and for the latency of the cloud.
func (s *Service) nextChanges(r *request, since int64) ([]api.InstanceChange, error) {
	s.mu.Lock()
	wait, err := s.settle(s.clock.Now())
	more, happened := s.history.more, s.meta.Revision != since
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if !happened {
		if wait == 0 || wait > markInterval {
			wait = markInterval
		}
		timer := s.clock.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-more:
			happened = true
		case <-timer.C():
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-s.closing.Done():
			return nil, unavailable("the cloud stops")
		}
	}
	if happened {
		if err := s.wait(r.Context(), s.behavior.latency()); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.settle(s.clock.Now()); err != nil {
		return nil, err
	}
	return s.changesSince(since)
}

// streamFault returns the fault that hits the next message of an open stream. One that hangs is waited out, and one that
// refuses ends the stream.
func (s *Service) streamFault(r *request) (*api.Fault, error) {
	hit, released := s.faults.Take(api.OpWatchInstances)
	if hit == nil {
		return nil, nil
	}
	s.calls.count(api.OpWatchInstances, func(n *api.CallCount) { n.Faulted++ })
	switch hit.Mode {
	case api.FaultStatus:
		return nil, errCutOff
	case api.FaultHang:
		_ = fault.Hang(r.Context(), released) // the stream continues, or its next write fails
		return nil, nil
	}
	return hit, nil
}
