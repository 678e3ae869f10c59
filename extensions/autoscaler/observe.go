package autoscaler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/cloud/guard"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// observeTimeout is how long a look at the groups may take. The autoscaler gives up a call after 5 s by default, and then its round.
	observeTimeout = 3 * time.Second
	// maxAge is how old the state of a group may be with which it is still served: some rounds of the autoscaler.
	maxAge = time.Minute
	// templateAge is how long a template is believed. The autoscaler asks in every round for groups without nodes.
	templateAge = 10 * time.Minute
)

// closed belongs to a look that is not needed.
var closed = func() chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// errNoTemplate is a provider that returns neither a template nor an error.
var errNoTemplate = errors.New("the provider returned none")

// errNothingKnown is returned as long as no groups could be listed.
var errNothingKnown = errors.New("the node groups could not be listed yet")

// observer keeps what the cloud last said of each group. A group is looked at on its own, once at a time, and no caller waits for it for longer
// than observeTimeout: what hangs or fails holds up no other.
type observer struct {
	groups  provider.NodeGroups
	metrics *metrics
	log     logr.Logger
	now     func() time.Time

	mu sync.Mutex
	// ctx is the one of the looks, which outlive the calls that began them.
	ctx     context.Context
	running sync.WaitGroup
	listed  time.Time
	listing *look
	order   []string
	of      map[string]*observed
}

// observed is what is known of one group.
type observed struct {
	group    provider.NodeGroup
	status   provider.NodeGroupStatus
	at       time.Time // when the look began that saw status; zero: none did yet
	changed  time.Time // when we last changed the group: what was seen before does not count
	problem  error     // why the last look saw nothing
	looking  *look     // the one under way
	template *corev1.Node
	// templateAt is when the template was made, and templateErr why it could not. Templating is the look for it that is under way.
	templateAt  time.Time
	templateErr error
	templating  *look
	// raising says that an increase is under way. Floor is the target size that it leads to, which holds until the cloud was asked after it.
	raising bool
	floor   int
	// lowered is by how much the target was lowered since the status was seen, and leaving which instances were deleted since.
	lowered int
	leaving map[string]bool
	// served says whether the group is part of this round of the autoscaler, and leftOut that it was said that it is not.
	served, leftOut bool
}

// look is one look at the cloud that is under way.
type look struct {
	began time.Time
	done  chan struct{}
}

func newObserver(groups provider.NodeGroups, metrics *metrics, log logr.Logger) *observer {
	return &observer{groups: groups, metrics: metrics, log: log, now: time.Now, of: map[string]*observed{}}
}

// begin lets the cloud be asked until ctx ends.
func (o *observer) begin(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ctx = logr.NewContext(admission.WithPriority(ctx, admission.PriorityNewObject), o.log)
}

// refresh looks at all groups, and returns when all have been seen or the time is over. It fails if no groups are known.
func (o *observer) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	await(ctx, o.list())
	o.mu.Lock()
	if o.listed.IsZero() {
		o.mu.Unlock()
		return errNothingKnown
	}
	looks := make([]*look, 0, 2*len(o.order))
	began := o.now()
	for _, id := range o.order {
		looks = append(looks, o.lookAt(id), o.seeTemplate(id))
	}
	o.mu.Unlock()
	for _, one := range looks {
		if began.Sub(one.began) < observeTimeout { // what hung in the last round is not waited for in this one
			await(ctx, one)
		}
	}
	o.report()
	return nil
}

// ensure looks at the groups if they have not been looked at for a while: an autoscaler that was connected to another replica does not begin its
// round anew.
func (o *observer) ensure(ctx context.Context) error {
	o.mu.Lock()
	young := !o.listed.IsZero() && o.now().Sub(o.listed) < maxAge
	o.mu.Unlock()
	if young {
		return nil
	}
	return o.refresh(ctx)
}

func await(ctx context.Context, one *look) {
	select {
	case <-one.done:
	case <-ctx.Done():
	}
}

// start runs one look beside. What panics in it is an error of it. The lock is held.
func (o *observer) start(what string, see func(ctx context.Context) error, end func(error)) *look {
	one := &look{began: o.now(), done: make(chan struct{})}
	ctx := o.ctx
	o.running.Go(func() {
		defer close(one.done)
		end(guard.Protect(what, func() error { return see(ctx) }, end))
	})
	return one
}

// list begins to list the groups, or returns the listing under way.
func (o *observer) list() *look {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.listing != nil {
		return o.listing
	}
	var groups []provider.NodeGroup
	o.listing = o.start("listing the node groups", func(ctx context.Context) (err error) {
		groups, err = o.groups.ListNodeGroups(ctx)
		return err
	}, func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.listing = nil
		if err != nil {
			o.log.Error(err, "Could not list the node groups; the autoscaler gets the groups of the last list")
			return
		}
		o.take(groups)
	})
	return o.listing
}

// take keeps a list of the groups. The lock is held.
func (o *observer) take(groups []provider.NodeGroup) {
	o.listed = o.now()
	o.order = o.order[:0]
	listed := map[string]bool{}
	for _, group := range groups {
		if group.ID == "" || listed[group.ID] {
			o.log.Info("A node group has no ID, or the ID of another group, and is left out", "nodeGroup", group.ID)
			continue
		}
		listed[group.ID] = true
		o.order = append(o.order, group.ID)
		if o.of[group.ID] == nil {
			o.of[group.ID] = &observed{leaving: map[string]bool{}}
		}
		o.of[group.ID].group = group
	}
	slices.Sort(o.order)
	for id := range o.of {
		if !listed[id] {
			delete(o.of, id)
			o.metrics.forget(id)
		}
	}
}

// lookAt begins a look at a group, or returns the one under way. The lock is held.
func (o *observer) lookAt(id string) *look {
	known := o.of[id]
	if known.looking != nil {
		return known.looking
	}
	began := o.now()
	var status provider.NodeGroupStatus
	known.looking = o.start("looking at it", func(ctx context.Context) (err error) {
		status, err = o.groups.NodeGroupStatus(ctx, id)
		return err
	}, func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		known.looking, known.problem = nil, err
		if err == nil && !began.Before(known.changed) {
			known.take(status, began)
		}
	})
	return known.looking
}

// take keeps a status that was sought after the last change. The lock is held.
func (k *observed) take(status provider.NodeGroupStatus, at time.Time) {
	k.status, k.at, k.lowered = status, at, 0
	if !k.raising {
		k.floor = 0
	}
	clear(k.leaving)
}

// seeTemplate has the template of a group made anew if it is due. One that cannot be made says nothing about the group otherwise. The lock
// is held.
func (o *observer) seeTemplate(id string) *look {
	known := o.of[id]
	switch {
	case known.templating != nil:
		return known.templating
	case known.template != nil && o.now().Sub(known.templateAt) < templateAge:
		return &look{began: o.now(), done: closed}
	}
	var template *corev1.Node
	known.templating = o.start("making its template", func(ctx context.Context) (err error) {
		template, err = o.groups.NodeGroupTemplate(ctx, id)
		return err
	}, func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		known.templating = nil
		if err == nil && template != nil {
			known.template, known.templateAt, known.templateErr = template, o.now(), nil
			return
		}
		if known.templateErr == nil && !errors.Is(err, provider.ErrNotImplemented) {
			o.log.Error(err, "Could not make the template of a node group; the autoscaler cannot scale it up from zero nodes", "nodeGroup", id)
		}
		known.templateErr = cmp.Or(err, errNoTemplate)
	})
	return known.templating
}

// report decides which groups are part of the round that begins, so none drops out in the midst of it, and says which are not.
func (o *observer) report() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	for _, id := range o.order {
		known := o.of[id]
		known.served = !known.at.IsZero() && now.Sub(known.at) <= maxAge
		switch {
		case !known.served && !known.leftOut:
			o.log.Info("The state of a node group is unknown; leaving it out of the autoscaler's rounds",
				"nodeGroup", id, "reason", known.reason())
		case known.served && known.leftOut:
			o.log.Info("The state of a node group is known again", "nodeGroup", id)
		}
		known.leftOut = !known.served
		o.metrics.observe(id, known.at, known.served)
	}
}

// fresh reports whether what is known of a group may be answered with. A round that goes on for longer than what it began with is believed ends
// with an error.
func (k *observed) fresh(now time.Time) bool { return k.served && now.Sub(k.at) <= 2*maxAge }

// reason is why a group is not known.
func (k *observed) reason() string {
	switch {
	case k.problem != nil:
		return k.problem.Error()
	case k.looking != nil:
		return "the cloud has not answered yet"
	default:
		return "it was not looked at for a while"
	}
}

// snapshot is what is known of a group, as a copy that may be kept.
type snapshot struct {
	group       provider.NodeGroup
	status      provider.NodeGroupStatus
	template    *corev1.Node
	templateErr error
}

// all returns the groups that are served, in the order of their IDs.
func (o *observer) all() []snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	served := make([]snapshot, 0, len(o.order))
	for _, id := range o.order {
		if known := o.of[id]; known.fresh(now) {
			served = append(served, known.snapshot())
		}
	}
	return served
}

// get returns one group. One that is not known is an error for the autoscaler.
func (o *observer) get(id string) (snapshot, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.of[id]
	switch {
	case o.listed.IsZero():
		return snapshot{}, errNothingKnown
	case known == nil:
		return snapshot{}, fmt.Errorf("%w: %q; there are %q", provider.ErrNodeGroupNotFound, id, strings.Join(o.order, ", "))
	case !known.fresh(o.now()):
		return snapshot{}, &staleError{id, known.reason()}
	}
	return known.snapshot(), nil
}

// latest looks at one group anew and returns what it saw.
func (o *observer) latest(ctx context.Context, id string) (snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	began := o.now()
	for {
		known := o.of[id]
		switch {
		case known == nil:
			return snapshot{}, fmt.Errorf("%w: %q; there are %q", provider.ErrNodeGroupNotFound, id, strings.Join(o.order, ", "))
		case !known.at.Before(began):
			return known.snapshot(), nil
		}
		one := o.lookAt(id)
		o.mu.Unlock()
		await(ctx, one)
		o.mu.Lock()
		if err := known.problem; err != nil && !one.began.Before(began) && known.looking != one {
			return snapshot{}, &staleError{id, err.Error()}
		}
		if ctx.Err() != nil {
			return snapshot{}, &staleError{id, fmt.Sprintf("the cloud has not answered within %s", observeTimeout)}
		}
	}
}

// staleError says that the state of a group is not known.
type staleError struct{ group, reason string }

func (e *staleError) Error() string {
	return fmt.Sprintf("the state of the node group %q is not known: %s", e.group, e.reason)
}

// snapshot returns a copy, with what was done since the cloud was asked. The lock is held.
func (k *observed) snapshot() snapshot {
	status := provider.NodeGroupStatus{TargetSize: max(k.status.TargetSize-k.lowered, k.floor), Instances: slices.Clone(k.status.Instances)}
	for i, instance := range status.Instances {
		if k.leaving[instance.ProviderID] && instance.State != provider.NodeGroupInstanceDeleting {
			status.Instances[i].State = provider.NodeGroupInstanceDeleting
			status.TargetSize--
		}
	}
	status.TargetSize = max(status.TargetSize, 0)
	return snapshot{group: k.group, status: status, template: k.template.DeepCopy(), templateErr: k.templateErr}
}

// raise notes that an increase begins, and returns false if one is under way already.
func (o *observer) raise(id string, delta int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.of[id]
	if known == nil || known.raising {
		return false
	}
	known.raising, known.floor = true, known.status.TargetSize-known.lowered+delta
	return true
}

// raised notes the end of an increase.
func (o *observer) raised(id string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.of[id]
	if known == nil {
		return
	}
	known.raising, known.changed = false, o.now()
	if err != nil { // the next look says by how much
		known.floor = 0
	}
}

// lower notes that the target size was lowered by what was not there yet, or that instances were deleted.
func (o *observer) lower(id string, by int, deleted ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.of[id]
	if known == nil {
		return
	}
	known.changed = o.now()
	known.lowered += by
	for _, providerID := range deleted {
		known.leaving[providerID] = true
	}
}
