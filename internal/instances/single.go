package instances

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
)

const (
	// AnswerWait is how long a pass waits for the answers to the questions that it puts. A cloud answers within a second; a node
	// for which it takes longer must not hold up what the pass can do for the others, and two seconds are what a node that is gone
	// takes from one observation to the next.
	AnswerWait = 1500 * time.Millisecond
	// callsPerNode is what a question for the state of one node costs: whether it exists, and whether it runs.
	callsPerNode = 2
	// slowPause is for how long no single node is asked for after an answer for which a pass did not wait.
	slowPause = 10 * time.Minute
)

// spotCheck asks for single nodes where that costs less than a listing. Its answers only count when they say what the last listing said:
// that an instance is there as it was. Anything else is said by a listing, so a denial has its witnesses beside it.
type spotCheck struct {
	one *perNode

	mu sync.Mutex
	// slow is when an answer last did not come within AnswerWait.
	slow time.Time
}

func (s *spotCheck) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.slow) >= slowPause
}

// waited notes that an answer did not come in time.
func (s *spotCheck) waited() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = time.Now()
}

// confirmed returns what is said of single nodes, if that was asked for, and whether all of them are as the newest listing showed
// them.
func (l *lister) confirmed(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration) ([]Observation, bool) {
	newest, ok := l.calls.newest()
	if !ok || callsPerNode*len(nodes) >= newest.value.pages || !l.confirm.usable() {
		return nil, false
	}
	before := make(map[nodeKey]Observation, len(nodes))
	for _, node := range nodes {
		known, err := newest.value.find(node, newest.at)
		if err != nil || known.Answered != node.Spec.ProviderID || known.State == provider.InstanceStateUnknown {
			return nil, false // not there, or not known by the ID that would be asked for
		}
		before[keyOf(node)] = known
	}
	// While these are asked for, no other node is. What has no answer by then is for the listing to say; the questions go on.
	var mu sync.Mutex
	answered, done := make(map[nodeKey]Observation, len(nodes)), make(chan struct{})
	go func() {
		defer close(done)
		l.confirm.one.askEach(ctx, nodes, maxAge, func(*corev1.Node) bool { return true }, func(node *corev1.Node, said Observation, err error) {
			if err != nil {
				said = Observation{}
			}
			mu.Lock()
			defer mu.Unlock()
			answered[keyOf(node)] = said
		})
	}()
	timer := time.NewTimer(AnswerWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		l.confirm.waited()
	}
	mu.Lock()
	defer mu.Unlock()
	said, same := make([]Observation, len(nodes)), true
	for i, node := range nodes {
		said[i] = answered[keyOf(node)]
		same = same && said[i].Status == Found && said[i].State == before[keyOf(node)].State
	}
	return said, same
}
