package rules

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/mooring-ccm/mooring/dev/simulation/double"
)

// The reference's periods and pauses, by its source and its flags' defaults.
const (
	// monitor is the period at which silent nodes are asked about, and status the one of the status pass.
	monitor = 5 * time.Second
	status  = 5 * time.Minute
	// routePass is the period of the routes.
	routePass = 10 * time.Second
	// cleanup is the resync that enqueues a Service which is to be cleaned up.
	cleanup = 30 * time.Second
	// nodeRetry and serviceRetry are the pauses after a first failure, which double up to the longest ones.
	nodeRetry, longestNodeRetry       = 5 * time.Millisecond, 1000 * time.Second
	serviceRetry, longestServiceRetry = 5 * time.Second, 300 * time.Second
)

// The register's budgets: calls that Mooring may make and the reference would not.
const (
	longestPause = 2 * time.Minute  // a retry in each, because no pause is longer
	driftCheck   = time.Minute      // one GetLoadBalancer a minute and cluster
	affirmations = 3                // questions about ready nodes a round before deletions
	places       = 6                // lists of routes that may follow each other when nodes change, from the start of a process on
	round        = 10 * time.Second // the denials that share a round
)

// due counts the calls of each method that the reference's source would ask for on the objects as they were in a run, given the answers that
// its calls got, and the register's budget.
type due struct {
	record  double.Record
	end     time.Duration
	methods map[string]int
}

// dueCalls returns the calls that are due until a time.
func dueCalls(record double.Record, end time.Duration) map[string]int {
	d := &due{record: record, end: end, methods: map[string]int{}}
	d.metadata()
	d.lifecycle()
	d.balancers()
	d.routes()
	return d.methods
}

// span is a time in which an object was in a state.
type span struct {
	from, to time.Duration
	// changes counts the versions that others wrote in it, the first one included.
	changes int
}

func (s span) length() time.Duration { return s.to - s.from }

// spans returns the times in which the versions of an object were in a state, the last one open until the end.
func spans[T any](changes []double.Change[T], object string, end time.Duration, holds func(*T) bool) []span {
	var all []span
	holding := false
	for _, change := range changes {
		if change.Object != object || change.At > end {
			continue
		}
		is := change.After != nil && holds(change.After)
		switch {
		case is && !holding:
			all = append(all, span{from: change.At, to: end, changes: 1})
		case is && !change.Ours:
			all[len(all)-1].changes++
		case !is && holding:
			all[len(all)-1].to = change.At
		}
		holding = is
	}
	return all
}

// objects returns the names of all objects in a history.
func objects[T any](changes []double.Change[T]) []string {
	found := map[string]bool{}
	for _, change := range changes {
		found[change.Object] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// processes counts the processes that led in a span.
func (d *due) processes(s span) int {
	count, leads := 0, d.leads()
	for i, start := range leads {
		end := d.end
		if i+1 < len(leads) {
			end = leads[i+1]
		}
		if start <= s.to && end >= s.from {
			count++
		}
	}
	return count
}

// leads returns when the processes began to lead, in order: with their first call. A standby calls nothing, and one that never does counts from its
// start on.
func (d *due) leads() []time.Duration {
	first := map[int]time.Duration{}
	for _, call := range d.record.Calls {
		if at, is := first[call.Process]; !is || call.Began < at {
			first[call.Process] = call.Began
		}
	}
	leads := slices.Clone(d.record.Starts)
	for i := range leads {
		if at, is := first[i+1]; is {
			leads[i] = at
		}
	}
	slices.Sort(leads)
	return leads
}

// failed counts the calls of methods or kinds about an object that failed, and were begun in a span.
func (d *due) failed(s span, object string, methods ...string) int {
	count := 0
	for _, call := range d.record.Calls {
		if call.Object == object && (slices.Contains(methods, call.Method) || slices.Contains(methods, kindOf(call.Method))) && (call.Err != nil || call.Ended < 0) && s.from <= call.Began && call.Began <= s.to {
			count++
		}
	}
	return count
}

// retries is how many retries there are in a time at most: the pause doubles after each.
func retries(length, pause, longest time.Duration) int {
	count := 0
	for length > 0 && count < 10000 {
		length -= pause
		pause = min(2*pause, longest)
		count++
	}
	return count
}

// metadata adds InstanceMetadata: for a node that is to be initialized one at each change, each start of a process and each retry, and for an
// initialized one a status period. A process that starts forgets the pauses. With the old interfaces, a question by the ID that fails is followed by
// one by the name.
func (d *due) metadata() {
	for _, name := range objects(d.record.NodeChanges) {
		for _, s := range spans(d.record.NodeChanges, name, d.end, uninitialized) {
			byID := d.failed(s, name, "NodeAddressesByProviderID")
			attempts := s.changes + d.processes(s) - 1
			attempts += min(d.failed(s, name, "InstanceMetadata")-byID, attempts*retries(s.length(), nodeRetry, longestNodeRetry)+int(s.length()/longestPause))
			// A write that conflicts or fails is tried again with another question. A success is a call without an effect.
			attempts += d.refused(s, name)
			d.methods["InstanceMetadata"] += attempts + min(byID, attempts)
		}
		for _, s := range spans(d.record.NodeChanges, name, d.end, func(node *corev1.Node) bool { return !uninitialized(node) }) {
			d.methods["InstanceMetadata"] += d.processes(s) + int(s.length()/status)
			d.methods["InstanceMetadata"] += d.failed(s, name, "NodeAddressesByProviderID") // it asks by the name then
			if len(d.record.Starts) > 1 {
				d.methods["InstanceMetadata"]++ // the first period of a process is shorter, which spreads the nodes
			}
		}
	}
}

// refused counts the requests about an object that the API server answered wrongly in a span.
func (d *due) refused(s span, object string) int {
	count := 0
	for _, at := range d.record.Refused[object] {
		if s.from <= at && at <= s.to {
			count++
		}
	}
	return count
}

// lifecycle adds InstanceExists and InstanceShutdown: one a monitor period for a node that is not Ready. The register adds the second question
// of a denial and a round of affirmations.
func (d *due) lifecycle() {
	for _, name := range objects(d.record.NodeChanges) {
		for _, s := range spans(d.record.NodeChanges, name, d.end, func(node *corev1.Node) bool { return !ready(node) }) {
			passes := int(s.length()/monitor) + d.processes(s)
			d.methods["InstanceExists"] += passes
			d.methods["InstanceShutdown"] += passes
		}
	}
	last := -round
	for _, call := range d.record.Calls {
		if kindOf(call.Method) != "InstanceExists" || call.Answer != double.No || call.Began > d.end {
			continue
		}
		d.methods["InstanceExists"]++
		if call.Ended-last >= round {
			last = call.Ended
			d.methods["InstanceExists"] += affirmations
		}
	}
}

// balancers adds the calls about load balancers: one at each change that the reference acts on, each start of a process, each change of the set
// of nodes and each retry. Before a deletion and after a failed update it asks whether there is one.
func (d *due) balancers() {
	sets, call := d.setChanges(), d.fastest(ensureOrUpdate)
	for _, name := range objects(d.record.ServiceChanges) {
		for _, s := range spans(d.record.ServiceChanges, name, d.end, wanted) {
			// One node after the other is looked at, and for each all Services that there are.
			updates := gathered(sets, s, func(at time.Duration) time.Duration { return time.Duration(d.balancersAt(at)) * call })
			changes := gathered(d.changed(name), s, func(time.Duration) time.Duration { return call })
			failures := d.failed(s, name, ensureOrUpdate)
			d.methods[ensureOrUpdate] += d.processes(s) + changes + updates
			again := (d.processes(s)+changes+updates)*retries(s.length(), serviceRetry, longestServiceRetry) + int(s.length()/longestPause)
			d.methods[ensureOrUpdate] += min(failures, again) + d.refused(s, name)
			d.methods[ensureOrUpdate] += d.following(s, name)
		}
		d.methods["GetLoadBalancer"] += d.failed(span{to: d.end}, name, "UpdateLoadBalancer")
		for _, s := range spans(d.record.ServiceChanges, name, d.end, needsCleanup) {
			attempts := s.changes + d.processes(s) - 1 + int(s.length()/cleanup)
			attempts += min(d.failed(s, name, "EnsureLoadBalancerDeleted", "GetLoadBalancer"), retries(s.length(), serviceRetry, longestServiceRetry)) + d.refused(s, name)
			d.methods["GetLoadBalancer"] += attempts
			d.methods["EnsureLoadBalancerDeleted"] += attempts
		}
	}
	d.methods["GetLoadBalancer"] += int(d.end/driftCheck) + 1
}

// following is the register's budget for targets that follow while their Service cannot be ensured: an update after each Ensure that failed with
// targets that no call has written.
func (d *due) following(s span, service string) (count int) {
	var written []string
	for _, call := range d.record.Calls {
		if call.Object != service || kindOf(call.Method) != ensureOrUpdate || call.Began < s.from || call.Began > s.to {
			continue
		}
		switch {
		case call.Err == nil:
			written = call.Targets
		case call.Method == "EnsureLoadBalancer" && written != nil && !slices.Equal(written, call.Targets):
			count++
		}
	}
	return count
}

// setChanges returns when the reference would look whether targets have changed: a node came, went, was excluded or included, or got its
// provider ID. The register adds a change of a target's addresses.
func (d *due) setChanges() (times []time.Duration) {
	for _, change := range d.record.NodeChanges {
		before, after := change.Before, change.After
		if before == nil || after == nil || excluded(before) != excluded(after) || before.Spec.ProviderID != after.Spec.ProviderID ||
			!apiequality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses) {
			times = append(times, change.At)
		}
	}
	return times
}

// changed returns when others changed a Service in a way that the reference acts on.
func (d *due) changed(name string) (times []time.Duration) {
	for _, change := range d.record.ServiceChanges {
		if change.Object != name || change.Ours || change.Before == nil || change.After == nil {
			continue
		}
		if !apiequality.Semantic.DeepEqual(change.Before.Spec, change.After.Spec) || !apiequality.Semantic.DeepEqual(change.Before.Annotations, change.After.Annotations) {
			times = append(times, change.At)
		}
	}
	return times
}

// fastest is what the fastest call of a kind took.
func (d *due) fastest(kind string) time.Duration {
	fastest := d.end
	for _, call := range d.record.Calls {
		if kindOf(call.Method) == kind && call.Ended >= 0 && call.Err == nil {
			fastest = min(fastest, call.Ended-call.Began)
		}
	}
	return fastest
}

// balancersAt counts the Services that wanted load balancers at a time.
func (d *due) balancersAt(at time.Duration) (count int) {
	want := map[string]bool{}
	for _, change := range d.record.ServiceChanges {
		if change.At <= at {
			want[change.Object] = change.After != nil && wanted(change.After)
		}
	}
	for _, is := range want {
		if is {
			count++
		}
	}
	return count
}

// gathered counts the passes that triggers in a span cause. A pass takes some time, and all triggers during a pass share the next one.
func gathered(triggers []time.Duration, s span, pass func(at time.Duration) time.Duration) (count int) {
	var last time.Duration // when the last pass began or will
	for _, at := range triggers {
		switch {
		case at < s.from || s.to < at || count > 0 && at <= last:
			continue
		case count == 0:
			last = at
		default:
			last = max(at, last+pass(at))
		}
		count++
	}
	return count
}

// routes adds one listing for each period and for each of the register's places. For each listing it adds the missing and the surplus routes.
func (d *due) routes() {
	d.methods["ListRoutes"] = places*len(d.record.Starts) + int(d.end/routePass)
	for _, call := range d.record.Calls {
		if call.Method != "ListRoutes" || call.Listed == nil || call.Began > d.end {
			continue
		}
		nodes := d.nodesAt(call.Ended)
		for node := range nodes {
			if !slices.Contains(call.Listed, node) {
				d.methods["CreateRoute"]++
			}
		}
		for _, node := range call.Listed {
			if !nodes[node] {
				d.methods["DeleteRoute"]++
			}
		}
	}
}

// nodesAt returns the nodes that there were at a time.
func (d *due) nodesAt(at time.Duration) map[string]bool {
	nodes := map[string]bool{}
	for _, change := range d.record.NodeChanges {
		switch {
		case change.At > at:
		case change.After == nil:
			delete(nodes, change.Object)
		default:
			nodes[change.Object] = true
		}
	}
	return nodes
}

// ensureOrUpdate is the kind of calls of which either may follow a change.
const ensureOrUpdate = "EnsureLoadBalancer and UpdateLoadBalancer"

// kindOf returns the kind of calls that a method belongs to, nothing for one that is not counted.
func kindOf(method string) string {
	switch method {
	case "EnsureLoadBalancer", "UpdateLoadBalancer":
		return ensureOrUpdate
	case "NodeAddresses", "NodeAddressesByProviderID": // of the old interfaces, once for each answer of InstanceMetadata
		return "InstanceMetadata"
	case "InstanceExistsByProviderID":
		return "InstanceExists"
	case "InstanceShutdownByProviderID":
		return "InstanceShutdown"
	case "InstanceID", "InstanceType", "InstanceTypeByProviderID", "GetZoneByProviderID", "GetZoneByNodeName", "ListInstances":
		return "" // the rest of one InstanceMetadata, and what a plugin declares
	}
	return method
}

// counts is rule 7: calls of each kind, at most the larger of the reference's and of what is due in Mooring's run. Where chance decides, the reference
// that runs before or after Mooring may exceed itself, and its calls do not count.
func counts(j *judge) {
	made := func(record double.Record) map[string]int {
		counts := map[string]int{}
		for _, call := range record.Calls {
			if kind := kindOf(call.Method); kind != "" && call.Began <= j.end && !(call.Other && j.chance()) {
				counts[kind]++
			}
		}
		return counts
	}
	reference, mooring := made(j.reference), made(j.mooring)
	allowed := dueCalls(j.mooring, j.end)
	for _, kind := range slices.Sorted(maps.Keys(mooring)) {
		if mooring[kind] > max(reference[kind], allowed[kind]) {
			method, _, _ := strings.Cut(kind, " ")
			j.add("7-count", "", j.lastCall(method, ""), "%d calls of %s, by the reference %d, and due %d", mooring[kind], kind, reference[kind], allowed[kind])
		}
	}
}

func wanted(service *corev1.Service) bool {
	return service.DeletionTimestamp == nil && service.Spec.Type == corev1.ServiceTypeLoadBalancer
}

func needsCleanup(service *corev1.Service) bool {
	return servicehelpers.HasLBFinalizer(service) && !wanted(service)
}

func excluded(node *corev1.Node) bool {
	_, is := node.Labels[corev1.LabelNodeExcludeBalancers]
	return is
}
