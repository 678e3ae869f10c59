package servingcertificate

import (
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// freshEnough is how old an answer of the cloud may be by which a request is approved: those of machines that join together share one.
const freshEnough = 30 * time.Second

// backoff is when requests that wait are looked at again if nothing changes that is watched: the cloud may have learned of an address.
var backoff = kit.Backoff{First: 5 * time.Second, Longest: 5 * time.Minute}

// state is what is remembered of requesters with requests that wait.
type state struct {
	mu sync.Mutex
	of map[string]*remembered
}

// remembered is what is known of one requester.
type remembered struct {
	// seen are the requests that waited when they were last looked at.
	seen map[types.UID]bool
	// since is when the last of them came, or the node changed: an answer that was sought later counts against them.
	since time.Time
	// insists says that an answer has to be sought after since, because an older one was not enough.
	insists bool
	// failures are the looks at the requests that were in vain. Until is zero once it has come.
	failures kit.Row
	// approved are the approvals of this process, which the cache may not show yet.
	approved map[types.UID]time.Time
}

func newState() *state { return &state{of: map[string]*remembered{}} }

// observe notes which requests of a requester wait, and returns a copy of what is remembered.
func (s *state) observe(requester string, waiting []*certificatesv1.CertificateSigningRequest, now time.Time) remembered {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of[requester]
	if known == nil {
		known = &remembered{approved: map[types.UID]time.Time{}}
		s.of[requester] = known
	}
	seen := make(map[types.UID]bool, len(waiting))
	for _, object := range waiting {
		seen[object.UID] = true
		if !known.seen[object.UID] {
			known.since, known.insists, known.failures = now, false, kit.Row{}
		}
	}
	known.seen = seen
	for uid, at := range known.approved {
		if now.Sub(at) >= approvalPeriod {
			delete(known.approved, uid)
		}
	}
	if !known.failures.Until.IsZero() && !known.failures.Rests(now) {
		known.since, known.insists, known.failures.Until = now, true, time.Time{}
	}
	return *known
}

// again has the requests of a requester looked at as if they had just come. It returns false if none are known to wait.
func (s *state) again(requester string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of[requester]
	if known == nil || len(known.seen) == 0 {
		return false
	}
	known.since, known.insists, known.failures = now, false, kit.Row{}
	return true
}

// insist notes that only an answer that is sought from now on will do.
func (s *state) insist(requester string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.of[requester]; known != nil {
		known.since, known.insists = now, true
	}
}

// failed notes that requests were looked at in vain, and returns how long to wait until they are looked at again.
func (s *state) failed(requester string, now time.Time, err error) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of[requester]
	if known == nil {
		return backoff.First
	}
	if !known.failures.Rests(now) { // or else it is looked at before its time
		known.failures = known.failures.Failed(now, backoff, err)
	}
	return known.failures.Until.Sub(now)
}

// approved notes an approval.
func (s *state) approved(requester string, uid types.UID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.of[requester]; known != nil {
		known.approved[uid] = now
	}
}

// undecided returns the requests that this process has not approved: a cache that does not show that yet would have them approved
// again, which the API server refuses.
func (s *state) undecided(requester string, waiting []*certificatesv1.CertificateSigningRequest) []*certificatesv1.CertificateSigningRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of[requester]
	if known == nil {
		return waiting
	}
	return slices.DeleteFunc(waiting, func(object *certificatesv1.CertificateSigningRequest) bool {
		_, approved := known.approved[object.UID]
		return approved
	})
}

// forget drops a requester whose requests have all been decided, but for approvals that the cache may not show yet.
func (s *state) forget(requester string, shown map[types.UID]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of[requester]
	if known == nil {
		return
	}
	for uid := range shown {
		delete(known.approved, uid)
	}
	if len(known.approved) == 0 {
		delete(s.of, requester)
		return
	}
	known.seen = nil
}
