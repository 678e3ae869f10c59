package instances

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/provider"
)

// lister asks a cloud that can list all of its instances.
type lister struct {
	list    provider.ListInstancesFunc
	metrics *metrics
	failed  recentError
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
func newLister(list provider.ListInstancesFunc, one *perNode, window time.Duration, metrics *metrics) *lister {
	l := &lister{list: list, confirm: spotCheck{one: one}, single: make(chan struct{}, 1), pace: pace{window: window}, metrics: metrics}
	l.calls.due = l.pace.due
	return l
}

// run makes one listing.
func (l *lister) run(ctx context.Context) (*snapshot, error) {
	if err := l.failed.get(); err != nil {
		return nil, &ListingError{Err: err, ago: true}
	}
	began := time.Now()
	l.pace.begin(began)
	assembly := l.assembly()
	err := l.list(ctx, func(page []provider.Instance) error {
		l.metrics.pages.Inc()
		return assembly.add(page)
	})
	took := l.pace.end(time.Now())
	l.takes.Store(int64(took))
	l.metrics.listed(began, assembly, took, err)
	if ctx.Err() == nil {
		l.failed.note(err) // an error after all callers have gone says nothing about the cloud
	}
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

// listPatience is how long a node waits for a listing before it is asked for alone: ten pages of a slow cloud. A listing that hangs must not hold
// up nodes that join.
const listPatience = 10 * time.Second

// lookup takes the watch's word that an instance is there. Everything else takes a listing. If that denies the instance, as listings that lag do,
// or takes much longer than the last one, the cloud is asked for the node alone, as the reference asks. So it is if an earlier listing has not
// returned, and none is made. Only that the instance is there counts then: a denial has its witnesses beside it in a listing.
func (l *lister) lookup(ctx context.Context, node *corev1.Node, maxAge time.Duration) (Observation, error) {
	type answered struct {
		observation Observation
		err         error
	}
	listed := make(chan answered, 1)
	go func() {
		observation, err := l.lookupListed(ctx, node, maxAge)
		listed <- answered{observation, err}
	}()
	patience := time.NewTimer(max(listPatience, 3*time.Duration(l.takes.Load())))
	defer patience.Stop()
	var first *answered
	select {
	case said := <-listed:
		denied := said.err == nil && said.observation.Status == NotFound
		if !denied && !errors.Is(said.err, cloud.ErrStillRunning) {
			return said.observation, said.err
		}
		first, listed = &said, nil
	case <-patience.C:
	}
	select {
	case said := <-listed:
		return said.observation, said.err
	case l.single <- struct{}{}:
		observation, err := l.confirm.one.lookup(ctx, node, maxAge)
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

// lookupListed looks a node up without asking for it alone.
func (l *lister) lookupListed(ctx context.Context, node *corev1.Node, maxAge time.Duration) (Observation, error) {
	age := ageOf(maxAge)
	var watched Observation
	if l.stream.look(ctx, age.notBefore, func(find find) bool {
		var err error
		watched, err = find(node)
		return err == nil && watched.Status == Found
	}) {
		return watched, nil
	}
	age.notBefore = l.stream.latest(age.notBefore)
	listed, err := l.calls.get(ctx, age.notBefore, l.run)
	if err != nil {
		return Observation{}, err
	}
	observation, err := listed.value.find(node, listed.at)
	if conclusive(observation, err, listed.at, age.asked) {
		return observation, err
	}
	if listed, err = l.calls.get(ctx, age.asked, l.run); err != nil {
		return Observation{}, err
	}
	return listed.value.find(node, listed.at)
}

// each looks all nodes up at once: by the watch if that shows all of them, and otherwise all in one listing, so what it
// says is of one time and from one source. It makes a listing only if the newest does not answer for all of them.
func (l *lister) each(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration, yield Yield) {
	age := ageOf(maxAge)
	if watched, ok := l.watched(ctx, nodes, age); ok {
		for i, node := range nodes {
			yield(node, watched[i], nil)
		}
		return
	}
	age.notBefore = l.stream.latest(age.notBefore)
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

// watched returns what the watch has reported of nodes, if it shows all of them.
func (l *lister) watched(ctx context.Context, nodes []*corev1.Node, age age) ([]Observation, bool) {
	observations := make([]Observation, len(nodes))
	ok := l.stream.look(ctx, age.notBefore, func(find find) bool {
		for i, node := range nodes {
			observation, err := find(node)
			if err != nil || observation.Status != Found {
				return false
			}
			observations[i] = observation
		}
		return true
	})
	return observations, ok
}

func (l *lister) peek(node *corev1.Node, notBefore time.Time) (Observation, bool) {
	listed, ok := l.calls.newest()
	if watched, at := l.stream.peek(node); at.After(listed.at) {
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
	// ago says that another caller met it, within errorHold.
	ago bool
}

// Error says what was tried.
func (e *ListingError) Error() string {
	if e.ago {
		return "listing the cloud's instances, a moment ago: " + e.Err.Error()
	}
	return "listing the cloud's instances: " + e.Err.Error()
}

// Unwrap returns the cloud's error.
func (e *ListingError) Unwrap() error { return e.Err }

// errorHold is how long a failed listing answers for callers that ask after it: an outage costs a call a second, however many
// nodes are waiting. What the cloud itself asks for, by a Retry-After, its client holds to. A single node is not asked for for as long after the
// first error; that pause doubles with each further one.
const errorHold = time.Second

// recentError is the error of a listing that has just failed.
type recentError struct {
	mu    sync.Mutex
	until time.Time
	err   error
}

// get returns the error for as long as it answers for others, and nil after that.
func (r *recentError) get() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Until(r.until) <= 0 {
		return nil
	}
	return r.err
}

// note keeps an error, if it is one.
func (r *recentError) note(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until, r.err = time.Now().Add(errorHold), err
}
