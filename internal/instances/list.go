package instances

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/provider"
)

// lister asks a cloud that can list all of its instances.
type lister struct {
	list    provider.ListInstancesFunc
	metrics *metrics
	calls   singleflight[*snapshot]
	stream  *stream // nil unless the provider offers a watch
	confirm spotCheck
	// single has room for the one node that is asked for alone, as in the reference.
	single chan struct{}

	// Written by one listing and read before the next one, which the shared call orders.
	pace   pace
	count  uint64 // of listings
	flawed indistinguishableLog

	// takes is how long the last listing took, for everybody.
	takes atomic.Int64
}

// newLister returns a lister of the instances of a cloud that may also be asked for one instance.
func newLister(list provider.ListInstancesFunc, one *perNode, metrics *metrics) *lister {
	l := &lister{list: list, confirm: spotCheck{one: one}, single: make(chan struct{}, 1), metrics: metrics}
	l.calls.due = l.pace.due
	return l
}

// run makes one listing.
func (l *lister) run(ctx context.Context) (*snapshot, error) {
	began := time.Now()
	l.pace.begin(began)
	assembly := l.assembly()
	err := l.list(ctx, func(page []provider.Instance) error {
		l.metrics.pages.Inc()
		return assembly.add(page)
	})
	took := l.pace.end(time.Now(), err != nil && ctx.Err() == nil) // an error after all callers have gone says nothing about the cloud
	l.takes.Store(int64(took))
	l.metrics.listed(began, assembly, took, err)
	if err != nil {
		return nil, &ListingError{Err: err}
	}
	l.flawed.note(ctx, assembly.indistinguishable)
	return assembly.finish(), nil
}

// assembly returns an empty one that knows the newest snapshot.
func (l *lister) assembly() *assembly {
	l.count++
	before := newSnapshot(0)
	if newest, ok := l.calls.newest(); ok {
		before = newest.value
	}
	return &assembly{before: before, number: l.count, changed: map[string]*entry{}, most: mostListed}
}

// newest returns the snapshot of the newest listing, nil before the first.
func (l *lister) newest() *snapshot {
	newest, _ := l.calls.newest()
	return newest.value
}

// lookup takes the watch's word that an instance is there. Everything else takes a listing. If that denies the instance, as listings that lag do,
// or takes much longer than the last one and ten pages of a slow cloud, the cloud is asked for the node alone, as the reference asks. So it is if an earlier listing has not
// returned, and none is made. Only that the instance is there counts then: a denial has its witnesses beside it in a listing.
func (l *lister) lookup(ctx context.Context, node *corev1.Node, age age) (Observation, error) {
	type answered struct {
		observation Observation
		err         error
	}
	listed := make(chan answered, 1)
	go func() {
		l.each(ctx, []*corev1.Node{node}, age, false, func(_ *corev1.Node, observation Observation, err error) {
			listed <- answered{observation, err}
		})
	}()
	patience := time.NewTimer(max(2*maxRest, 3*time.Duration(l.takes.Load())))
	defer patience.Stop()
	var first *answered
	select {
	case said := <-listed:
		denied := said.err == nil && said.observation.Status == NotFound
		if !denied && !errors.Is(said.err, classify.ErrStillRunning) {
			return said.observation, said.err
		}
		first, listed = &said, nil
	case <-patience.C:
	}
	select {
	case said := <-listed:
		return said.observation, said.err
	case l.single <- struct{}{}:
		observation, err := l.confirm.one.lookup(ctx, node, age)
		<-l.single
		if err == nil && observation.Status == Found {
			return observation, nil
		}
	case <-ctx.Done():
	}
	if first != nil {
		return first.observation, first.err
	}
	said := <-listed
	return said.observation, said.err
}

// each looks all nodes up at once: by the watch if that shows all of them, of their states only by questions for single nodes if that costs less, and
// otherwise all in one listing, so what it says is of one time and from one source. It makes a listing only if the newest does not answer for all
// of them.
func (l *lister) each(ctx context.Context, nodes []*corev1.Node, age age, states bool, yield Yield) {
	said, known := l.stream.look(ctx, nodes, age.notBefore)
	if !known {
		single := age
		age.notBefore = l.stream.latest(age.notBefore)
		if states {
			if said, known = l.confirmed(ctx, nodes, single); !known && said != nil {
				age.notBefore = age.asked
			}
		}
	}
	if known {
		for i, node := range nodes {
			yield(node, said[i], nil)
		}
		return
	}
	l.listed(ctx, nodes, age, yield)
}

// listed looks all nodes up in one listing.
func (l *lister) listed(ctx context.Context, nodes []*corev1.Node, age age, yield Yield) {
	listed, err := l.calls.get(ctx, age.notBefore, l.run)
	if err == nil && !listed.value.answersAll(nodes, listed.at, age.asked) {
		listed, err = l.calls.get(ctx, age.asked, l.run)
	}
	for _, node := range nodes {
		var observation Observation
		answer := err
		if err == nil {
			observation, answer = listed.value.find(node, listed.at)
		}
		yield(node, observation, answer)
	}
}

func (l *lister) peek(node *corev1.Node, notBefore time.Time) (Observation, bool) {
	listed, ok := l.calls.newest()
	if watched, at := l.stream.peek(node); at.After(listed.at) && watched.Status == Found {
		return watched, !at.Before(notBefore)
	}
	if !ok || listed.at.Before(notBefore) {
		return Observation{}, false
	}
	observation, err := listed.value.find(node, listed.at)
	return observation, err == nil
}

// ListingError says that the cloud's instances could not be listed: an error that is about no single node. How long the cloud asks to wait before the
// next listing its client has heard already.
type ListingError struct {
	// Err is the cloud's.
	Err error
}

// Error says what was tried.
func (e *ListingError) Error() string {
	return "listing the cloud's instances: " + e.Err.Error()
}

// Unwrap returns the cloud's error.
func (e *ListingError) Unwrap() error { return e.Err }

const (
	// AnswerWait is how long a pass waits for the answers to the questions that it puts. A cloud answers within a second; a node
	// for which it takes longer must not hold up what the pass can do for the others, and two seconds are what a node that is gone
	// takes from one observation to the next.
	AnswerWait = 1500 * time.Millisecond
	// callsPerNode is what a question for the state of one node costs: whether it exists, and whether it runs.
	callsPerNode = 2
)

// spotCheck asks for single nodes where that costs less than a listing. Its answers only count when they say what the last listing said:
// that an instance is there as it was. Anything else is said by a listing, so a denial has its witnesses beside it.
//
// After an answer that did not come within AnswerWait no single node is asked for, for as long as a cloud may ask for a pause.
type spotCheck struct {
	one *perNode
	// slow is when that last happened, in nanoseconds of the epoch.
	slow atomic.Int64
}

// confirmed returns what is said of single nodes, if that was asked for, and whether all of them are as the newest listing showed
// them.
func (l *lister) confirmed(ctx context.Context, nodes []*corev1.Node, age age) ([]Observation, bool) {
	newest, ok := l.calls.newest()
	if !ok || callsPerNode*len(nodes) >= newest.value.pages || time.Since(time.Unix(0, l.confirm.slow.Load())) < classify.MaxRetryAfter {
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
		ask := func(ctx context.Context, node *corev1.Node) (Observation, error) {
			return l.confirm.one.state(ctx, node, age, true)
		}
		l.confirm.one.fanOut(ctx, nodes, func(node *corev1.Node, said Observation, err error) {
			if err != nil {
				said = Observation{}
			}
			mu.Lock()
			defer mu.Unlock()
			answered[keyOf(node)] = said
		}, ask)
	}()
	timer := time.NewTimer(AnswerWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		l.confirm.slow.Store(time.Now().UnixNano())
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

const (
	// restFactor is for how many times the time that the last listing took the cloud rests before the next, up to maxRest.
	restFactor = 3
	// maxRest bounds the pause between listings. Listings that take longer than a third of it cost a cluster that grows more calls for each
	// node that joins: the pause is the same, and there are more pages.
	maxRest = 5 * time.Second
	// debtShare is the share of maxRest by which listings together may have begun before their rest was over, until they have rested longer than they
	// had to for as long. It is little beside the rest of a large cloud, each listing of which has many pages.
	debtShare = 5
)

// pace says when the next listing may begin: callers that come in a burst share one, and the cloud rests. Nodes that join for a while, and of
// which each takes a listing from after it appeared, cost a quarter of the cloud's time, and somewhat more at the end of a burst.
// See ADR 10.
type pace struct {
	began, ended time.Time
	took         time.Duration
	// failed says that the last listing ended with an error: an outage costs a call now and then, however many nodes are waiting. What the cloud itself
	// asks for, by a Retry-After, its client holds to.
	failed bool
	// restDebt is how much rest the listings up to the last one lacked.
	restDebt time.Duration
}

// due returns when a listing may begin for which the first waits since a time, and the last since another. If no caller has come for twice the window,
// it may begin before the rest is over: a longer wait would not be shared.
func (p *pace) due(first, last time.Time) time.Time {
	due := p.rested()
	if early := last.Add(2 * DefaultWindow); early.Before(due) && !p.failed && p.restDebt+due.Sub(early) <= maxRest/debtShare {
		due = early
	}
	if shared := first.Add(DefaultWindow); shared.After(due) {
		due = shared
	}
	return due
}

// rested returns when the cloud has rested for long enough from the last listing.
func (p *pace) rested() time.Time {
	rest := min(restFactor*p.took, maxRest)
	if p.failed {
		rest = max(rest, AnswerWait)
	}
	return p.ended.Add(rest)
}

// begin notes that a listing begins.
func (p *pace) begin(now time.Time) {
	if !p.ended.IsZero() {
		p.restDebt = max(0, p.restDebt+p.rested().Sub(now))
	}
	p.began = now
}

// end notes that a listing has ended, and returns how long it took.
func (p *pace) end(now time.Time, failed bool) time.Duration {
	p.ended, p.took, p.failed = now, now.Sub(p.began), failed
	return p.took
}
