package fencing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/mooring-ccm/mooring/internal/message"
)

// Annotation on the Lease of fencing holds the attempts, as JSON. No kubelet may write that Lease.
const Annotation = "metal.mooring.dev/fencing-attempts"

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
	leases          coordinationv1client.LeasesGetter
	namespace, name string
	// lease is the object that was last read or written, or nil if there is none.
	lease *coordinationv1.Lease
}

// errOutdated says that somebody else has written the record, or that a node is not as it was decided on any more.
var errOutdated = errors.New("it has changed since")

// read returns the record as the API server has it now.
func (s *store) read(ctx context.Context, now time.Time) (attempts, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	lease, err := s.leases.Leases(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		s.lease = nil
		return attempts{}, nil
	}
	if err != nil {
		return attempts{}, fmt.Errorf("reading the record of fencing from Lease %s/%s: %w", s.namespace, s.name, err)
	}
	text := lease.Annotations[Annotation]
	found, err := decode(text, now)
	if err != nil {
		return attempts{}, fmt.Errorf("the annotation %s of Lease %s/%s, %q, is no record of fencing (remove it to start anew): %w",
			Annotation, s.namespace, s.name, message.Line(text, 200), message.Bound(err, 200))
	}
	s.lease = lease
	return found, nil
}

// write stores a record in place of the one that was read. It is an errOutdated if that has changed.
func (s *store) write(ctx context.Context, record attempts, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encoding the record of fencing: %w", err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
	save := func() (*coordinationv1.Lease, error) {
		return s.leases.Leases(s.namespace).Create(ctx, lease, metav1.CreateOptions{})
	}
	if s.lease != nil {
		lease = s.lease.DeepCopy()
		save = func() (*coordinationv1.Lease, error) {
			return s.leases.Leases(s.namespace).Update(ctx, lease, metav1.UpdateOptions{})
		}
	}
	renewed := metav1.NewMicroTime(now)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, Annotation, string(text))
	lease.Spec.RenewTime = &renewed
	saved, err := save()
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return fmt.Errorf("the record of fencing: %w: %w", errOutdated, err)
	case err != nil:
		return fmt.Errorf("recording an attempt in Lease %s/%s: %w", s.namespace, s.name, err)
	}
	s.lease = saved
	return nil
}
