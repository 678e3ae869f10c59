package service

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// memory is what the controller remembers of Services from one pass to the next. It is lost with the process, and nothing
// depends on its not being: what has to last is on the Service and in the cloud.
type memory struct {
	mu      sync.Mutex
	records map[types.NamespacedName]*remembered
}

// remembered is what is remembered under one name. What its pointers point to is never changed, so that a copy is safe to read.
type remembered struct {
	// made is what was made in the cloud, nil if nothing was.
	made *made
	// madeAt is when the plugin was last called for it.
	madeAt time.Time
	// seenAt is when the cloud was last asked how it is.
	seenAt time.Time
	// removed is the UID of the Service whose load balancer has been deleted, while its finalizer is still there.
	removed types.UID
	// written is the Service as our own last write returned it.
	written *corev1.Service
	// drift is what the last comparison with the cloud found and has not been repaired yet.
	drift []string
	// differs is what the last comparison found, repairs how often in a row it was the same, and repairedAt when a repair was last
	// queued for it.
	differs    string
	repairs    int
	repairedAt time.Time
	// failure is nil unless the last pass failed.
	failure *failure
	// alone is how the targets fare while the Service itself cannot be ensured.
	alone targetsFailure
	// conditionAt is when a failure was last written to the condition.
	conditionAt time.Time
}

// failure is a row of passes that failed for one state of a Service.
type failure struct {
	// intent and inputs are what the passes were for. Once they are different, it is worth trying again at once.
	intent intent
	inputs inputs
	// count is how many passes failed.
	count int
	// conflicts is how many writes in a row came too late.
	conflicts int
	// absent is how many deletions in a row failed though there was no load balancer to be seen.
	absent int
	// reason is that of the last one, told when it was last told by an event.
	reason string
	told   time.Time
	// retryAt is when the next pass is due.
	retryAt time.Time
}

// targetsFailure is a row of changes of the targets that failed while their Service could not be ensured. Zero: the last one did not.
type targetsFailure struct {
	// count is how many failed.
	count int
	// reason is that of the last one, told when it was last told by an event.
	reason string
	told   time.Time
	// retryAt is when the next one is due.
	retryAt time.Time
	// first says that the Service was the last to be tried, so that the targets come before it where both are due.
	first bool
}

// isOf reports whether passes for an intent and inputs do the same as those that failed.
func (f *failure) isOf(intent intent, in inputs) bool {
	return f.intent == intent && len(in.changes(f.inputs)) == 0
}

func newMemory() *memory { return &memory{records: map[types.NamespacedName]*remembered{}} }

// recall returns a copy of what is remembered of a Service, and whether anything is.
func (m *memory) recall(key types.NamespacedName) (remembered, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, found := m.records[key]; found {
		return *known, true
	}
	return remembered{}, false
}

// change changes what is remembered of a Service. The function must not call the memory.
func (m *memory) change(key types.NamespacedName, change func(*remembered)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, found := m.records[key]
	if !found {
		known = &remembered{}
		m.records[key] = known
	}
	change(known)
}

// forget drops what is remembered of a Service.
func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.records, key)
}

// knows reports whether anything is remembered under a name.
func (m *memory) knows(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, found := m.records[key]
	return found
}

// all returns a copy of everything that is remembered.
func (m *memory) all() map[types.NamespacedName]remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	copied := make(map[types.NamespacedName]remembered, len(m.records))
	for key, known := range m.records {
		copied[key] = *known
	}
	return copied
}

// counts returns how many load balancers are as they should be, and how many are not yet.
func (m *memory) counts() (provided, unfinished int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, known := range m.records {
		if known.made != nil && known.made.ensured && known.failure == nil {
			provided++
		} else if known.made != nil || known.failure != nil {
			unfinished++
		}
	}
	return provided, unfinished
}

// knows reports whether this process has made or removed the load balancer of this very Service.
func (r remembered) knows(service *corev1.Service) bool {
	if service == nil {
		return r.made != nil
	}
	return (r.made != nil && r.made.service.UID == service.UID) || (r.removed != "" && r.removed == service.UID)
}

// newest returns the newer of what the cache holds and what our own last write returned: a pass on a copy that is older than
// our own write would do again what is done.
func (r remembered) newest(cached *corev1.Service) *corev1.Service {
	if r.written == nil || cached == nil || r.written.UID != cached.UID {
		return cached
	}
	if order, err := resourceversion.CompareResourceVersion(r.written.ResourceVersion, cached.ResourceVersion); err == nil && order > 0 {
		return r.written
	}
	return cached
}

// held returns how long a pass that would do the same as the one that failed has yet to wait.
func (r remembered) held(intent intent, in inputs, now time.Time) time.Duration {
	if r.failure == nil || !r.failure.isOf(intent, in) {
		return 0
	}
	return r.failure.retryAt.Sub(now)
}
