package service

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/leaserecord"
	"github.com/mooring-ccm/mooring/internal/sleep"
)

const (
	// AnnotationRecord on the Lease of a Record says from what load balancers were made, as JSON.
	AnnotationRecord = "mooring.dev/load-balancers"
	// ownAnnotations begin the annotations that a manager writes itself. They are no input of a load balancer.
	ownAnnotations = "mooring.dev/"
	// recordRate is for how many Services the record is written a kit.Moment later: a large one is written less often.
	recordRate = 200
	// recordLimit is how many Services a record names. An object holds 256 KiB of annotations.
	recordLimit = 3500
)

// errListing ends a pass that has to wait for the list of load balancers.
var errListing = errors.New("the load balancers are being listed")

// Record says where a leader keeps from what it made load balancers, for the next one: see leaderRecord.
type Record struct {
	leaserecord.Record
	// Origin returns what else the load balancers are made by: program and configuration. It is asked when this replica leads.
	Origin func(context.Context) (string, error)
	// WithoutList says that the record is enough where the plugin lists no load balancers.
	WithoutList bool
}

// leaderRecord is what a leader leaves to the next one, which ensures only what has changed since. It holds a digest of the inputs of each
// load balancer that is as its Service asks. What is missing or cannot be read is ensured, as by the reference.
//
// An entry is removed before the plugin is called for a change. So what a leader has begun, and not ended, is in no record. Nil: none is kept.
//
// See ADR 43.
type leaderRecord struct {
	Record
	list    func(context.Context) (*listing, error)
	wanted  chan struct{} // closed when the list is needed
	changed chan struct{} // has room for one

	mu      sync.Mutex
	origin  string
	version leaserecord.Version
	// unread says that it is not known what the Lease holds. Stored is that, and found what the leader before has left of it.
	unread        bool
	stored, found recordContent
	// failures are those of reads and writes.
	failures kit.Row
	// listed is the cloud's list, asked for at askedAt; nil: it is not there. Listing says that it is awaited.
	listed  *listing
	listing bool
	askedAt time.Time

	counting sync.Mutex
	// calls are how many calls for a change of each load balancer are under way, or wait for the record.
	calls map[types.UID]int
}

// recordContent is what the Lease holds.
type recordContent struct {
	// Origin is the digest of what is the same for all Services, and Targets of the nodes behind them.
	Origin  string `json:"origin"`
	Targets string `json:"targets"`
	// Services are the digests of inputs by the UIDs of Services.
	Services map[types.UID]string `json:"services"`
}

func newRecord(options *Record, list func(context.Context) (*listing, error)) *leaderRecord {
	if options == nil || list == nil && !options.WithoutList {
		return nil
	}
	return &leaderRecord{Record: *options, list: list, unread: true, wanted: make(chan struct{}), changed: make(chan struct{}, 1), calls: map[types.UID]int{}}
}

// digestOf returns a short digest of what is encoded as JSON.
func digestOf(of any) string {
	data, err := json.Marshal(of)
	if err != nil {
		return "" // agrees with nothing, see agrees
	}
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// digestOfInputs returns the digest of what a load balancer is made from, without annotations that a manager writes itself.
func digestOfInputs(service *corev1.Service) string {
	own := map[string]string{}
	maps.Copy(own, service.Annotations)
	maps.DeleteFunc(own, func(key, _ string) bool { return strings.HasPrefix(key, ownAnnotations) })
	copied := *service
	copied.Annotations = own
	values := make([]any, len(followed))
	for i, field := range followed {
		values[i] = field.of(&copied)
	}
	return digestOf(values)
}

// sum returns the digest of the members of a set.
func (t *targetSet) sum() string {
	if t.digest == nil {
		return digestOf(t.members)
	}
	return t.digest()
}

// recordOf returns what is recorded of load balancers. They must be as their Services ask, with these targets. The targets of
// Services that select by labels have these in their identities, which are others then: such Services are left out.
func recordOf(all map[types.NamespacedName]state, targets *targetSet, origin string, calls map[types.UID]int) recordContent {
	content := recordContent{Origin: origin, Targets: targets.sum(), Services: map[types.UID]string{}}
	for _, key := range slices.SortedFunc(maps.Keys(all), byName) {
		known, made := all[key], all[key].made
		if len(content.Services) < recordLimit && made != nil && made.settled() && !known.failing() && len(known.drift) == 0 &&
			calls[made.service.UID] == 0 && maps.Equal(made.targets, targets.members) {
			content.Services[made.service.UID] = digestOfInputs(made.lastEnsured)
		}
	}
	return content
}

// settled reports whether a load balancer is as its Service asks, as far as is known, and the Service shows it.
func (m *made) settled() bool {
	return m.ensured && !m.failing && m.lastEnsured != nil && m.status != nil && !m.unpublished && m.stillDiffers == "" && m.denial.answers == 0
}

// agrees reports whether a Service shows a load balancer that the leader before has made from the same inputs, with the same targets.
func (c recordContent) agrees(service *corev1.Service, targets *targetSet, origin string) bool {
	condition := conditionOf(service)
	if condition == nil || condition.Status != metav1.ConditionTrue || !hasFinalizer(service) || origin == "" {
		return false
	}
	recorded, found := c.Services[service.UID]
	return found && recorded != "" && recorded == digestOfInputs(service) && c.Origin == origin && c.Targets == targets.sum()
}

// adoptable returns what the leader before has made for a Service, if the record and the cloud's list agree with the Service; otherwise nil.
// While the list is awaited, the error is errListing.
func (r *leaderRecord) adoptable(ctx context.Context, service *corev1.Service, targets *targetSet) (*made, error) {
	if r == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read(ctx)
	if !r.found.agrees(service, targets, r.origin) {
		return nil, nil
	}
	adopted := &made{
		service: service, ensured: true, lastEnsured: service, targets: targets.members,
		status: service.Status.LoadBalancer.DeepCopy(),
	}
	if r.list == nil {
		return adopted, nil
	}
	if !r.hasList() {
		return nil, errListing
	}
	if r.listed == nil {
		return nil, nil
	}
	balancer, found := r.listed.byService[service.UID]
	if !found || !sameIngress(balancer.Status.Ingress, service.Status.LoadBalancer.Ingress) ||
		len(differences(service, adopted, targets, balancer, r.listed.mark)) > 0 {
		return nil, nil
	}
	adopted.baseline = balancer.Status.DeepCopy()
	return adopted, nil
}

// hasList asks for the list that all Services of a new leader are compared with, and reports whether it is there, or has failed or taken too
// long: each load balancer is ensured then. The lock is held.
func (r *leaderRecord) hasList() bool {
	if r.askedAt.IsZero() {
		r.askedAt, r.listing = time.Now(), true
		close(r.wanted)
	}
	return !r.listing || time.Since(r.askedAt) >= kit.LongestRetry/2
}

// askForList asks for that list once it is needed.
func (r *leaderRecord) askForList(ctx context.Context) {
	select {
	case <-r.wanted:
	case <-ctx.Done():
		return
	}
	listed, err := r.list(ctx)
	if err != nil && ctx.Err() == nil {
		logf.FromContext(ctx).Info("Load balancers could not be listed; each is ensured", "reason", err.Error())
	}
	r.mu.Lock()
	r.listing, r.listed = false, listed
	r.mu.Unlock()
	// The list names each target of each load balancer. What has not been taken over by then is ensured.
	_ = sleep.For(ctx, kit.LongestRetry/2)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed, r.found = nil, recordContent{}
}

// read reads what the leader before has left, once. The lock is held.
func (r *leaderRecord) read(ctx context.Context) {
	if !r.unread || r.failures.Rests(time.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*kit.Moment)
	defer cancel()
	text, version, err := r.Read(ctx)
	if err == nil && r.origin == "" {
		r.origin, err = r.Origin(ctx)
	}
	if err != nil {
		r.failed(ctx, err)
		return
	}
	var content recordContent
	if err := json.Unmarshal([]byte(text), &content); text != "" && err != nil {
		content = recordContent{}
		logf.FromContext(ctx).Info("The record of load balancers is not readable; each is ensured", "lease", r.String(), "reason", err.Error())
	}
	r.version, r.unread, r.failures, r.stored = version, false, kit.Row{}, content
	r.found = recordContent{Origin: content.Origin, Targets: content.Targets, Services: maps.Clone(content.Services)}
}

// failed says that the Lease could not be read or written. It is tried again after a pause. The lock is held.
func (r *leaderRecord) failed(ctx context.Context, err error) {
	if r.failures.Count == 0 {
		logf.FromContext(ctx).Info("The record of load balancers cannot be kept; the next leader ensures each", "lease", r.String(), "reason", err.Error())
	}
	r.failures = r.failures.Failed(time.Now(), kit.Backoff{First: DefaultFirstRetry, Longest: kit.EventInterval}, err)
	r.unread = r.unread || errors.Is(err, leaserecord.ErrOutdated)
}

// write stores a content, unless the last try was a short while ago. The lock is held.
func (r *leaderRecord) write(ctx context.Context, content recordContent) {
	if r.unread || r.failures.Rests(time.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*kit.Moment)
	defer cancel()
	text, err := json.Marshal(content)
	var version leaserecord.Version
	if err == nil {
		version, err = r.Write(ctx, r.version, string(text), time.Now())
	}
	if err != nil {
		r.failed(ctx, err)
		return
	}
	r.version, r.stored, r.failures = version, content, kit.Row{}
}

// calling removes a Service from the record before the plugin is called for a change, and returns what ends the call. Its write removes all
// whose calls wait for the record. Where the targets change, all entries go: the other load balancers change, too. A Lease that cannot be written
// delays no call for longer than two kit.Moments.
func (r *leaderRecord) calling(ctx context.Context, service *corev1.Service, targets *targetSet) (returned func()) {
	if r == nil {
		return func() {}
	}
	r.count(service.UID, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read(ctx)
	delete(r.found.Services, service.UID)
	content := recordContent{Origin: r.stored.Origin, Targets: r.stored.Targets, Services: maps.Clone(r.stored.Services)}
	calls := r.count("", 0)
	maps.DeleteFunc(content.Services, func(uid types.UID, _ string) bool { return calls[uid] > 0 })
	if targets != nil && content.Targets != targets.sum() {
		content.Services = nil
	}
	if len(content.Services) < len(r.stored.Services) {
		r.write(ctx, content)
	}
	return func() {
		r.count(service.UID, -1)
		r.note()
	}
}

// count says that calls for a load balancer have begun or ended, and returns how many of each are under way.
func (r *leaderRecord) count(uid types.UID, begun int) map[types.UID]int {
	r.counting.Lock()
	defer r.counting.Unlock()
	r.calls[uid] += begun
	maps.DeleteFunc(r.calls, func(_ types.UID, calls int) bool { return calls == 0 })
	return maps.Clone(r.calls)
}

// pause is how long the record stays as it is, unless a call waits for it to be written.
func (r *leaderRecord) pause() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return kit.Moment + time.Duration(len(r.stored.Services))*kit.Moment/recordRate
}

// note says that there may be something to record.
func (r *leaderRecord) note() {
	if r == nil {
		return
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// run writes the record some time after it has changed, until ctx ends.
func (r *leaderRecord) run(ctx context.Context, states *states, targets *targets) {
	if r == nil {
		return
	}
	var listing sync.WaitGroup
	defer listing.Wait()
	listing.Go(func() { r.askForList(ctx) })
	for {
		select {
		case <-r.changed:
		case <-ctx.Done():
			return
		}
		if !sleep.For(ctx, r.pause()) {
			return
		}
		r.save(ctx, states, targets)
	}
}

// save writes the record if it has changed.
func (r *leaderRecord) save(ctx context.Context, states *states, targets *targets) {
	settled := targets.settledSet()
	if settled == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read(ctx)
	calls := r.count("", 0) // before the rows: the row that is read may be of before a call which ends between the two
	content := recordOf(states.all(), settled, r.origin, calls)
	if !r.unread && content.equal(r.stored) {
		return
	}
	if r.write(ctx, content); !content.equal(r.stored) {
		r.note() // again after the pause
	}
}

func (c recordContent) equal(other recordContent) bool {
	return c.Origin == other.Origin && c.Targets == other.Targets && maps.Equal(c.Services, other.Services)
}

// adopt takes over from the leader before what it has made and what has not changed since.
func (r *reconciler) adopt(ctx context.Context, p *pass) error {
	if p.service == nil || p.want.awaits || p.known.failing() || p.known.removed {
		return nil
	}
	made, err := r.record.adoptable(ctx, p.service, p.want.latest)
	if err != nil || made == nil {
		return err
	}
	logf.FromContext(ctx).V(1).Info("Left the load balancer as it is: nothing that it was made from has changed")
	p.known.made = made
	r.record.note()
	return nil
}
