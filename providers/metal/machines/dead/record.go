package dead

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mooring-ccm/mooring/internal/leaserecord"
	"github.com/mooring-ccm/mooring/internal/message"
)

// AttemptsAnnotation on the Lease of fencing holds the attempts, as JSON. No kubelet may write that Lease.
const AttemptsAnnotation = "metal.mooring.dev/fencing-attempts"

// decode reads what the annotation says. No time is from the future: the clock of another replica may have been ahead of ours, and what
// it wrote counts as of now.
func decode(text string, now time.Time) (attempts, error) {
	var read attempts
	if text == "" {
		return read, nil
	}
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		return attempts{}, err
	}
	if read.Last.After(now) {
		read.Last = now
	}
	for id, one := range read.Machines {
		if one.At.After(now) {
			one.At = now
		}
		one.Count = max(one.Count, 0)
		read.Machines[id] = one
	}
	return read, nil
}

// store is the Lease that holds the record.
type store struct {
	record leaserecord.Record
	// version is what was last read or written.
	version leaserecord.Version
}

// errOutdated says that another replica has written the record, or that a node is no longer as it was when this was decided.
var errOutdated = leaserecord.ErrOutdated

// read returns the record as the API server has it now.
func (s *store) read(ctx context.Context, now time.Time) (attempts, error) {
	text, version, err := s.record.Read(ctx)
	if err != nil {
		return attempts{}, fmt.Errorf("the record of fencing: %w", err)
	}
	found, err := decode(text, now)
	if err != nil {
		return attempts{}, fmt.Errorf("the annotation %s of Lease %s, %q, is no record of fencing (remove it to start anew): %w",
			AttemptsAnnotation, s.record, message.Line(text, 200), message.Bound(err, 200))
	}
	s.version = version
	return found, nil
}

// write stores a record in place of the one that was read. It is an errOutdated if that has changed.
func (s *store) write(ctx context.Context, record attempts, now time.Time) error {
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encoding the record of fencing: %w", err)
	}
	version, err := s.record.Write(ctx, s.version, string(text), now)
	if err != nil {
		return fmt.Errorf("recording an attempt: %w", err)
	}
	s.version = version
	return nil
}
