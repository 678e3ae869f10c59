package nodegroups

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// backoff is how long to wait between tries to delete an instance.
var backoff = kit.Backoff{First: 5 * time.Second, Longest: 5 * time.Minute}

// state is what is remembered of nodes whose instances are to be deleted. Nothing of it has to survive a restart: to delete an instance again
// is no error.
type state struct {
	mu sync.Mutex
	of map[types.UID]*remembered
	// busy are the groups in which an instance is being deleted: one at a time, so a group that hangs holds one call.
	busy map[string]bool
}

// remembered is what is remembered of one node.
type remembered struct {
	name     string
	seen     time.Time // when it was first seen
	accepted time.Time
	failures kit.Row
	running  bool
}

func newState() *state { return &state{of: map[types.UID]*remembered{}, busy: map[string]bool{}} }

// get returns what is remembered of a node.
func (s *state) get(uid types.UID, name string) remembered {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.entry(uid, name)
}

func (s *state) entry(uid types.UID, name string) *remembered {
	known := s.of[uid]
	if known == nil {
		known = &remembered{name: name, seen: time.Now()}
		s.of[uid] = known
	}
	return known
}

// begin takes the turn of a group for a node. It returns false if another node has it.
func (s *state) begin(uid types.UID, name, group string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.entry(uid, name)
	if known.running || s.busy[group] {
		return false
	}
	known.running, s.busy[group] = true, true
	return true
}

// end gives the turn back, and keeps how it ended. A node that was forgotten meanwhile stays so.
func (s *state) end(uid types.UID, group string, err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, group)
	known := s.of[uid]
	if known == nil {
		return
	}
	known.running = false
	if err == nil {
		known.accepted, known.failures = now, kit.Row{}
		return
	}
	known.failures = known.failures.Failed(now, backoff, err)
}

// forget drops the nodes of a name, but for one UID, empty for none. One whose deletion is under way is dropped by its end.
func (s *state) forget(name string, but types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, known := range s.of {
		if known.name == name && uid != but {
			delete(s.of, uid)
		}
	}
}

// count returns how many nodes there are whose instances are to be deleted.
func (s *state) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of)
}

// beside runs what waits for the cloud, until ctx ends.
type beside struct {
	mu      sync.Mutex
	ctx     context.Context
	running sync.WaitGroup
}

func (b *beside) begin(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ctx = ctx
}

// run begins do, and calls end with what came of it.
func (b *beside) run(do func(ctx context.Context) error, end func(error)) {
	b.mu.Lock()
	ctx := b.ctx
	b.mu.Unlock()
	b.running.Go(func() { end(do(ctx)) })
}
