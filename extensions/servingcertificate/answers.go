package servingcertificate

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// lookUp is Instances.Lookup.
type lookUp func(ctx context.Context, node *corev1.Node, maxAge time.Duration) (ccm.Instance, error)

// answers has the cloud asked about the instances of nodes, one question for each node at a time. No pass waits for an answer: when it has
// come, its requester is put into the queue. So a node for which the cloud hangs holds no worker, and no other node.
//
// It is not nodeview.View, which is for passes over all nodes: those wait a little for their answers, get each answer once, and ask no
// more often than they pass. Here an answer is kept for a while, serves callers that allow its age, errors included, and is about a node as it was
// when the question was put.
type answers struct {
	lookUp  lookUp
	queue   *kit.Enqueuer
	running sync.WaitGroup

	mu  sync.Mutex
	ctx context.Context // the questions' own, which outlive the passes that put them
	of  map[string]*answer
}

// answer is what the cloud said about the instance of one requester's node.
type answer struct {
	about    identity
	asking   bool
	asked    time.Time // when the last question was put
	answered time.Time // when the answer came
	observed ccm.Instance
	err      error
}

// identity is what an answer is about.
type identity struct {
	uid        types.UID
	providerID string
}

func newAnswers(lookUp lookUp, queue *kit.Enqueuer) *answers {
	return &answers{lookUp: lookUp, queue: queue, of: map[string]*answer{}}
}

// begin lets questions be put until ctx ends.
func (a *answers) begin(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx = ctx
}

// get returns what the cloud said of a node's instance if it was asked at a time or later, and has the cloud asked if not. The question is
// put as query, about the node of this identity, and allows an answer of some age. It returns false while the cloud is being asked.
func (a *answers) get(requester string, about identity, query *corev1.Node, notBefore time.Time, maxAge time.Duration) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.of[requester]
	switch {
	case known != nil && known.asking:
		return answer{}, false // of another node of this name, too: its answer brings the requester back
	case known != nil && known.about == about && !known.asked.Before(notBefore) && time.Since(known.answered) <= freshEnough:
		return *known, true
	}
	known = &answer{about: about, asking: true, asked: time.Now()}
	a.of[requester] = known
	ctx := admission.WithPriority(a.ctx, admission.PriorityNewObject)
	a.running.Go(func() {
		observed, err := a.lookUp(ctx, query, maxAge)
		a.end(requester, known, observed, err)
	})
	return answer{}, false
}

// end keeps an answer, and has the requester looked at with it.
func (a *answers) end(requester string, of *answer, observed ccm.Instance, err error) {
	a.mu.Lock()
	of.asking, of.answered, of.observed, of.err = false, time.Now(), observed, err
	a.mu.Unlock()
	a.queue.Add(types.NamespacedName{Name: requester}, priorityNew)
}

// forget drops the answer for a requester without requests.
func (a *answers) forget(requester string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.of[requester]; known != nil && !known.asking {
		delete(a.of, requester)
	}
}
