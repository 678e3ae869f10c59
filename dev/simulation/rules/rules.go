// Package rules judges what Mooring did in a draw, beside what the reference did in the same one. A rule that is absolute reads Mooring's record alone.
package rules

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/simulation/double"
	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
)

// Finding is one broken rule.
type Finding struct {
	// Rule is the number of the rule, with a word for a part of it.
	Rule string
	// Character and Disturbance are the rest of its kind.
	Character   string
	Disturbance draw.Disturbance
	// Object is a node or a Service, empty for the whole. At is the time since the start.
	Object string
	At     time.Duration
	// Text is a sentence.
	Text string
}

// Kind is what findings have in common.
func (f Finding) Kind() string {
	return fmt.Sprintf("%s x %s x %s", f.Rule, f.Character, f.Disturbance)
}

// String returns the finding as a line.
func (f Finding) String() string {
	return fmt.Sprintf("%7s  %-10s  rule %s: %s", f.At.Round(time.Second), f.Object, f.Rule, f.Text)
}

// Names are the rules and their parts.
var Names = []string{
	"1", "2a-deleted", "2a-tainted", "2b-deleted", "2b-tainted", "2b-untainted", "3", "4", "4-excluded", "5-second", "5-deleted", "5-address",
	"6", "6-events", "6-idle", "7-count", "7-overlap", "8-ended", "8-repeated", "9", "10", "11", "12", "13", "13-early", "13-gone", "13-port",
}

// Tolerances of the rules.
const (
	// initialized is how much later than the reference's a node may be initialized, besides two of the longest calls.
	initialized = 10 * time.Second
	// gone is how much later the node of a deleted instance may go, besides the calls that are due.
	gone = 15 * time.Second
	// longestQuestion is the longest pause between two questions about a silent node, and minAge how old a node gets that was never initialized.
	longestQuestion = 30 * time.Second
	minAge          = 2 * time.Minute
	// together is within what time the nodes of many machines go that are deleted at once.
	together = 2 * time.Minute
	// passesAtOnce is how much later a change may reach the plugin, besides the calls that are due.
	passesAtOnce = 5 * time.Second
	// stopGrace is how long a process that is asked to end waits for the calls under way, --graceful-shutdown-timeout. Another has the lease after
	// 15 s, its duration.
	stopGrace = 20 * time.Second
	// requestTakes is how long a request to the API server is under way at most, and placeKept how long a call that changes a load balancer has a place.
	requestTakes = 35 * time.Second
	placeKept    = 10 * time.Minute
	// leadsOn is how long a leader of the reference goes on at most without its lease: --leader-elect-retry-period after it renewed the lease for the last
	// time, it tries again for --leader-elect-renew-deadline.
	leadsOn = 12 * time.Second
	// latestTurn is how late a Service hears of a node that the others have heard of, if nothing fails.
	latestTurn = time.Minute
	// written is how many writes of an object there may be above the reference's.
	written = 4
	// window is the time over which writes are counted, and margin what is added on both sides for the reference.
	window = 10 * time.Minute
	margin = 5 * time.Minute
	// rest is how long after the disturbances an object has settled.
	rest = 2 * time.Minute
	// maxBackoff is the longest pause between two calls about an object.
	maxBackoff = 2 * time.Minute
	// madeAgain is how long the cloud denies a load balancer before it is made again.
	madeAgain = 10 * time.Minute
	// arrives is how much later than that Mooring may be in the state that is asked for, besides the calls that are due.
	arrives = 15 * time.Second
	// outstanding is how many calls of a method may hang before it is called no more.
	outstanding = 8
)

// judge collects findings about one draw.
type judge struct {
	draw      draw.Draw
	reference double.Record
	mooring   double.Record
	findings  []Finding
	// longest is the longest call of either manager, end the time at which the shorter simulation ended.
	longest, end time.Duration
}

// Check returns the findings about Mooring's record, the oldest first.
func Check(d draw.Draw, reference, mooring double.Record) []Finding {
	j := &judge{draw: d, reference: reference, mooring: mooring, end: min(reference.Length, mooring.Length)}
	for _, call := range slices.Concat(reference.Calls, mooring.Calls) {
		if hung := d.Plugin.Has(draw.Hanging) && call.Err != nil; call.Ended >= 0 && !hung {
			j.longest = max(j.longest, call.Ended-call.Began)
		}
	}
	for _, rule := range []func(*judge){
		initialization, immediate, kept, removal, targets, lateness, balancers, versions, events, idle, counts, concurrency, undisturbed, arguments,
		stays, lives, early, settled,
	} {
		rule(j)
	}
	slices.SortStableFunc(j.findings, func(a, b Finding) int { return cmp.Compare(a.At, b.At) })
	return j.findings
}

// add adds a finding.
func (j *judge) add(rule, object string, at time.Duration, format string, values ...any) {
	j.findings = append(j.findings, Finding{
		Rule: rule, Object: object, At: at, Text: fmt.Sprintf(format, values...),
		Character: j.draw.Plugin.Name(), Disturbance: j.draw.Last(object, at),
	})
}

// notBeforeRest returns when something is due that the reference did at a time. The reference is restarted at the end of the disturbances, and
// forgets its pauses. What it does from then on is due when rule 13 asks for the state.
func (j *judge) notBeforeRest(reference, due time.Duration) time.Duration {
	if reference < draw.Disturbed {
		return due
	}
	return max(due, j.arrival())
}

// arrival is when Mooring has to be in the state that is asked for: two minutes after the disturbances, and the calls that are due.
func (j *judge) arrival() time.Duration {
	return draw.Disturbed + rest + arrives + 2*j.longest
}

// handover is how much longer it may take until another process leads: the old one waits for its calls, or its lease expires.
func (j *judge) handover() time.Duration {
	if slices.ContainsFunc(j.draw.Events, endsProcess) {
		return stopGrace
	}
	return 0
}

// endsProcess reports whether a process ends or no longer leads.
func endsProcess(event draw.Event) bool {
	return slices.Contains([]draw.Disturbance{draw.Restart, draw.Exchange, draw.LeaseLost, draw.Crash}, event.Kind)
}

// pause is how long the kubelet of a replica that is alone waits after the end of a process until it starts another one.
func (j *judge) pause(event draw.Event) time.Duration {
	ends := 0
	for _, other := range j.draw.Events {
		if (other.Kind == draw.Restart || other.Kind == draw.Crash) && other.At <= event.At {
			ends++
		}
	}
	if j.draw.Election || event.Kind != draw.Restart && event.Kind != draw.Crash {
		return 0
	}
	return managers.Pause(ends)
}

// interrupted returns when something is due that may begin at a time: each end of a process until then, but the first, makes another handover. Each
// makes a pause.
func (j *judge) interrupted(from, due time.Duration) time.Duration {
	due += j.handover()
	ends := 0
	for _, event := range j.draw.Events {
		if endsProcess(event) && from < event.At && event.At <= due {
			if ends++; ends > 1 {
				due += stopGrace
			}
			due += j.pause(event)
		}
	}
	return due
}

// lawful returns when the reference would have done what it did at a time, had it ended with its lease. It goes on for a while after another process
// has taken the lease. Mooring ends at once.
func (j *judge) lawful(at time.Duration) time.Duration {
	taken := func(event draw.Event) bool {
		return event.Kind == draw.LeaseLost && event.At < at && at <= event.At+leadsOn
	}
	if !slices.ContainsFunc(j.draw.Events, taken) {
		return at
	}
	process := 0
	for _, call := range j.reference.Calls {
		switch {
		case call.Began <= at:
			process = call.Process
		case call.Process != process:
			return max(call.Began, call.Ended) // of the next leader: its first call fills the cache of a plugin that has one
		}
	}
	return at
}

// chance reports whether chance decides when an object arrives. A limiter that refuses at once decides by chance. Pauses double, so one more refusal
// takes as long as all earlier ones together. We compared the reference with itself, with a limiter that is one per cent slower. It broke rule 1 in
// 15 of 50 such draws, by up to two minutes, and 13-early in 5. The reference also retries at each heartbeat of a node. The contract asks for a retry
// only after a relevant change. An object that has not arrived by the end is still a finding.
func (j *judge) chance() bool { return j.draw.Plugin.Has(draw.RefusingLimiter) }

// luck is by how much jitter may delay what the reference did after some time: a retry may miss the moment from which a cloud affirms what it denied.
func (j *judge) luck(after time.Duration) time.Duration {
	if j.draw.Plugin.Has(draw.LaggingAnswers) || j.draw.Plugin.Has(draw.Denying) {
		return min(after, maxBackoff)
	}
	return 0
}

// leaves returns when the instance of a node is deleted or another one takes its name, and whether that happens.
func (j *judge) leaves(node draw.Node) (at time.Duration, leaves bool) {
	for _, event := range j.draw.Events {
		gone := event.Kind == draw.Leave || event.Kind == draw.MassLeave || event.Kind == draw.Replaced
		if gone && event.Object == node.Name && event.At >= node.Joins && (!leaves || event.At < at) {
			at, leaves = event.At, true
		}
	}
	return at, leaves
}

// initialization is rule 1: the k-th healthy node is initialized no later than the reference's k-th. A node whose instance goes before its time is up
// is none: a cloud whose answers lag affirms a deleted instance for a while, and one manager asks in that while and the other does not.
func initialization(j *judge) {
	if j.chance() {
		return
	}
	latestOf := func(at time.Duration) time.Duration {
		at = j.lawful(at)
		return j.notBeforeRest(at, j.interrupted(at, at+initialized+2*j.longest+j.luck(at)))
	}
	sorted := func(record double.Record) (times []time.Duration) {
		for _, node := range j.draw.Nodes {
			reference, is := j.reference.Initialized[node.Name]
			gone, leaves := j.leaves(node)
			if at, known := record.Initialized[node.Name]; known && (!leaves || is && latestOf(reference) < gone) {
				times = append(times, at)
			}
		}
		slices.Sort(times)
		return times
	}
	reference, mooring := sorted(j.reference), sorted(j.mooring)
	for k, at := range reference {
		latest := j.waits(at, latestOf(at), j.initializes, "", 0)
		switch {
		case k >= len(mooring) && latest < j.mooring.Length:
			j.add("1", "", latest, "the reference has initialized %d nodes, and Mooring %d", len(reference), len(mooring))
			return
		case k < len(mooring) && mooring[k] > latest && !j.otherLeads(mooring[k]):
			j.add("1", "", latest, "the node number %d is initialized after %s, and by the reference after %s", k+1, mooring[k].Round(time.Second), at.Round(time.Second))
			return
		}
	}
}

// immediate are the rules 2a, 5 in part and 12, which the double judges at the moment of the write. A rule that is not absolute
// passes if the reference breaks it for the same object. A plugin that makes a second load balancer has told the reference the same, which may
// not have managed to write the first address. The address of a second one that a call of the reference's makes is a cause.
func immediate(j *judge) {
	for _, fault := range j.mooring.Faults {
		absolute := fault.Rule == "2a-deleted" || fault.Rule == "2a-tainted"
		if !absolute && slices.ContainsFunc(j.reference.Faults, func(other double.Fault) bool { return other.Rule == fault.Rule && other.Object == fault.Object }) {
			continue
		}
		if made := j.reference.Created[fault.Object]; fault.Rule == "5-address" && made > 1 && made >= j.mooring.Created[fault.Object] {
			continue
		}
		if fault.Rule == "5-address" && j.follows(fault) {
			continue
		}
		j.add(fault.Rule, fault.Object, fault.At, "%s", fault.Text)
	}
}

// deleted returns the nodes whose instances are deleted.
func (j *judge) deleted() map[string]bool {
	deleted := map[string]bool{}
	for _, event := range j.draw.Events {
		if event.Kind == draw.Leave || event.Kind == draw.MassLeave {
			deleted[event.Object] = true
		}
	}
	return deleted
}

// limited reports whether the draw deletes more instances than the limit allows. It counts recreated instances too, and only nodes that had joined.
func (j *judge) limited() bool {
	gone, first := len(j.deleted()), j.end
	for _, event := range j.draw.Events {
		switch event.Kind {
		case draw.Replaced:
			gone++
			first = min(first, event.At)
		case draw.Leave, draw.MassLeave:
			first = min(first, event.At)
		}
	}
	nodes := 0
	for _, node := range j.draw.Nodes {
		if node.Joins <= first {
			nodes++
		}
	}
	return gone > min(max(10, nodes/4), nodes/2)
}

// affirmed returns when a call of Mooring's last said that the instance of a node exists, or runs: denials count from then on.
func (j *judge) affirmed(node string) (at time.Duration) {
	for _, call := range j.mooring.Calls {
		if call.Object == node && (kindOf(call.Method) == "InstanceExists" && call.Answer == double.Yes || kindOf(call.Method) == "InstanceShutdown" && call.Answer != "") {
			at = max(at, call.Ended)
		}
	}
	return at
}

// asksAgain returns how long after an answer about a silent node the next question is due, by the register: after a quarter of the time for which it
// has been silent, half a minute at most.
func (j *judge) asksAgain(node string, answered time.Duration) time.Duration {
	var since time.Duration
	for _, change := range j.mooring.NodeChanges {
		if change.Object == node && change.At <= answered && change.After != nil && !ready(change.After) && (change.Before == nil || ready(change.Before)) {
			since = change.At
		}
	}
	return min((answered-since)/4, longestQuestion)
}

// young returns until when the minimum age keeps a node that Mooring has not initialized, zero for others.
func (j *judge) young(node draw.Node) time.Duration {
	if _, is := j.mooring.Initialized[node.Name]; is || node.Taken {
		return 0
	}
	return node.Joins + minAge
}

// leads returns from when on the process leads that leads at a time, if it has taken over from another: that has taken its denials with it.
func (j *judge) leads(at time.Duration) (since time.Duration) {
	for _, event := range j.draw.Events {
		if endsProcess(event) && event.At <= at {
			since = max(since, event.At+stopGrace+j.pause(event))
		}
	}
	return since
}

// doubted returns when Mooring last heard before a time that the cloud denies an instance which exists: it believes no denial then.
func (j *judge) doubted(before time.Duration) (at time.Duration) {
	if !j.draw.Plugin.Has(draw.Denying) {
		return 0
	}
	deleted := j.deleted()
	for _, call := range j.mooring.Calls {
		if kindOf(call.Method) == "InstanceExists" && call.Answer == double.No && !deleted[call.Object] && call.Ended <= before {
			at = max(at, call.Ended)
		}
	}
	return at
}

// contradicted reports whether Mooring heard between two times that the cloud denies the instance of a node that is Ready, as while many machines go at
// once, and the kubelets of some have not been missed yet. It believes no denial meanwhile.
func (j *judge) contradicted(since, before time.Duration) bool {
	return slices.ContainsFunc(j.mooring.Calls, func(call *double.Call) bool {
		denies := kindOf(call.Method) == "InstanceExists" && call.Answer == double.No && since <= call.Ended && call.Ended <= before
		return denies && slices.ContainsFunc(spans(j.mooring.NodeChanges, call.Object, j.end, ready), func(s span) bool {
			return s.from <= call.Ended && call.Ended < s.to
		})
	})
}

// waits returns when something is due that the reference did at a time, if such calls of Mooring's hang or fail. A call that hangs keeps its place for a
// while, and the others wait as long. When as many hang as may, none is made until they end. What is due for a node itself is due some time after its
// own call has failed, or a list. The reference would meet the same, and luck says which manager does: by the second denial and the nodes that affirm, Mooring
// makes more of these calls.
func (j *judge) waits(since, due time.Duration, such func(*double.Call) bool, node string, after time.Duration) time.Duration {
	hanging := 0
	for _, call := range j.mooring.Calls { // as they began
		if call.Began > due || !such(call) {
			continue
		}
		hangs := call.UnderWay(call.Began + 2*j.longest + passesAtOnce)
		switch {
		case (call.Object == node || call.Method == "ListInstances") && call.Ended >= 0 && (hangs || call.Err != nil):
			due = max(due, call.Ended+after)
		case hangs && call.Began+double.ReadOutstanding > since:
			due += double.ReadOutstanding
		}
		if hangs {
			hanging++
		}
		if hanging >= outstanding {
			due = max(due, j.arrival())
		}
	}
	return due
}

// asksOfSilent reports whether a call asks what has become of an instance whose node is silent. All such questions wait in one queue.
func asksOfSilent(call *double.Call) bool {
	byName := call.Method == "InstanceID" && !errors.Is(call.Err, cloudprovider.InstanceNotFound)
	kind := kindOf(call.Method)
	return kind == "InstanceExists" || kind == "InstanceShutdown" || byName || call.Method == "ListInstances" && call.Err != nil
}

// initializes reports whether a call is about a node that Mooring has not initialized yet.
func (j *judge) initializes(call *double.Call) bool {
	at, done := j.mooring.Initialized[call.Object]
	kind := kindOf(call.Method)
	return (kind == "InstanceMetadata" || kind == "" && call.Object != "") && (!done || call.Began < at)
}

// removal is rule 3 for as many deleted instances as the limit lets go: the larger of ten and a quarter, and never more than half.
func removal(j *judge) {
	if j.limited() || j.chance() {
		return
	}
	deleted := j.deleted()
	for _, node := range j.draw.Nodes {
		reference, went := j.reference.Removed[node.Name]
		if !deleted[node.Name] || !went {
			continue
		}
		// The calls about all deleted instances may be made one after the other.
		calls := time.Duration(4+2*len(deleted)) * j.longest
		due := j.notBeforeRest(reference, reference+gone+calls)
		affirmed := j.affirmed(node.Name)
		affirmed += j.asksAgain(node.Name, affirmed)
		counted := max(j.young(node), j.leads(due), j.doubted(due)) // from when on denials of all count
		due = max(due, affirmed+gone+4*j.longest, counted+gone+calls)
		for leads := j.leads(due); leads+gone+calls > due; leads = j.leads(due) { // meanwhile another one takes over
			due = leads + gone + calls
		}
		if left, _ := j.leaves(node); j.contradicted(left, due) {
			due = max(due, left+together)
		}
		if left, _ := j.leaves(node); j.draw.Plugin.Has(draw.Replicas) { // until all replicas deny it
			due = max(due, left+j.draw.Plugin.Lag+gone+calls)
		}
		if left, _ := j.leaves(node); j.draw.Plugin.Has(draw.Lagging) && j.draw.Plugin.Has(draw.Declaring) { // until the lists lack it
			due = max(due, left+j.draw.Plugin.Lag+gone+calls)
		}
		due = j.waits(reference, due, asksOfSilent, node.Name, monitor+gone+calls)
		at, done := j.mooring.Removed[node.Name]
		switch {
		case !done && due < j.mooring.Length:
			j.add("3", node.Name, due, "the reference deleted the node of a deleted instance after %s, and Mooring never", reference.Round(time.Second))
		case at > due:
			j.add("3", node.Name, due, "the reference deleted the node of a deleted instance after %s, and Mooring after %s", reference.Round(time.Second), at.Round(time.Second))
		}
	}
}

// targets is rule 4 for each call.
func targets(j *judge) {
	failed := map[string]bool{}
	for _, call := range j.reference.Calls {
		for _, node := range call.Missing {
			failed[call.Object+" "+node] = true
		}
	}
	for _, call := range j.mooring.Calls {
		missing := slices.DeleteFunc(slices.Clone(call.Missing), func(node string) bool { return failed[call.Object+" "+node] })
		if len(missing) > 0 {
			finding := fmt.Sprintf("%s of %s lacks the targets %v", call.Method, call.Object, missing)
			j.add("4", missing[0], call.Began, "%s", finding)
			return
		}
	}
}

// change is a change that has to reach the plugin.
type change struct {
	rule, object, service string
	at                    time.Duration
	// ends is when it is taken back, zero if it is not.
	ends    time.Duration
	text    string
	arrived func(*double.Call) bool
	// holds reports whether the plugin has what is to change, by the last call that says so.
	holds func(*double.Call) (has, says bool)
}

// changes returns the changes of ports and the marks of nodes that the draw has.
func changes(d draw.Draw) []change {
	var all []change
	for _, event := range d.Events {
		at := event.At
		switch event.Kind {
		case draw.PortInBeat, draw.PortChange, draw.NotReady:
			service := event.Object
			switch event.Kind {
			case draw.PortInBeat:
				at += event.For / 2
			case draw.NotReady:
				at += draw.ReadyzSeen
				service = d.Services[0].Name
			}
			all = append(all, change{"13-port", service, service, at, 0, fmt.Sprintf("the port %d", event.Number), func(call *double.Call) bool {
				return call.Method == "EnsureLoadBalancer" && call.Object == service && call.Port == int32(event.Number)
			}, func(call *double.Call) (has, says bool) {
				return call.Port != int32(event.Number), call.Method == "EnsureLoadBalancer" && call.Object == service && call.Err == nil
			}})
		case draw.Exclude:
			ends := time.Duration(0)
			if event.For > 0 {
				ends = at + event.For
			}
			for _, service := range d.Services {
				if service.Created > at {
					continue
				}
				text := fmt.Sprintf("the set of %s without %s", service.Name, event.Object)
				all = append(all, change{"4-excluded", event.Object, service.Name, at, ends, text, func(call *double.Call) bool {
					return len(call.Targets) > 0 && call.Object == service.Name && !slices.Contains(call.Targets, event.Object)
				}, func(call *double.Call) (has, says bool) {
					deletes := call.Method == "EnsureLoadBalancerDeleted"
					says = call.Object == service.Name && (len(call.Targets) > 0 || deletes) && call.Err == nil
					return slices.Contains(call.Targets, event.Object), says
				}})
			}
		}
	}
	return all
}

// absent reports whether Mooring has deleted a node by a time, and no other node has its name.
func (j *judge) absent(node string, at time.Duration) bool {
	removed, is := j.mooring.Removed[node]
	return is && removed <= at && at < j.made(node, removed)
}

// lateness is the part of the rules 4 and 13 about changes that pass at once.
func lateness(j *judge) {
	arrival := func(record double.Record, one change, refused bool) (time.Duration, bool) {
		for _, call := range record.Calls {
			if call.Began >= one.at && one.arrived(call) && (refused || call.Err == nil) {
				return call.Began, true
			}
		}
		return 0, false
	}
	refused := !j.chance() // else the limiter may refuse what the reference calls at once and Mooring has wait for its turn: nothing arrives
	all := changes(j.draw)
	// One Service after the other hears of a node. The last one in the reference may be the first here, and the other way round.
	latest := map[time.Duration]time.Duration{}
	for _, one := range all {
		if reference, ok := arrival(j.reference, one, refused); ok && one.rule == "4-excluded" && reference < one.at+latestTurn {
			latest[one.at] = max(latest[one.at], reference)
		}
	}
	for _, one := range all {
		if !j.held(one) || j.absent(one.object, one.at) {
			continue
		}
		reference, ok := arrival(j.reference, one, refused)
		reference = j.lawful(reference)
		due := j.notBeforeRest(reference, max(reference, j.lawful(latest[one.at]))+passesAtOnce+2*j.longest)
		due = j.interrupted(one.at, due)
		due += j.queued(one.service, one.at, due)
		if answered := j.timedOut(one.service, one.at); answered > 0 {
			due = max(due, answered+passesAtOnce+2*j.longest)
		}
		superseded := one.ends > 0 && one.ends <= due || slices.ContainsFunc(all, func(next change) bool {
			return next.rule == one.rule && next.object == one.object && one.at < next.at && next.at <= due
		})
		ended := slices.ContainsFunc(j.draw.Events, func(event draw.Event) bool { // the load balancer goes meanwhile
			return (event.Kind == draw.Deleted || event.Kind == draw.TypeChange) && event.Object == one.service && event.At <= due && one.at < event.At+event.For
		})
		if !ok || superseded || ended || due >= j.mooring.Length {
			continue
		}
		at, arrived := arrival(j.mooring, one, true)
		switch {
		case j.busy(one, due):
		case !arrived:
			j.add(one.rule, one.object, due, "%s, set after %s, never reaches the plugin, and by the reference after %s",
				one.text, one.at, reference.Round(time.Second))
		case at > due:
			j.add(one.rule, one.object, due, "%s, set after %s, reaches the plugin after %s, and by the reference after %s",
				one.text, one.at, at.Round(time.Second), reference.Round(time.Second))
		}
	}
}

// queued returns what the calls take that come before a Service's, where users make, change and delete many at once: one about each of the others.
func (j *judge) queued(service string, from, to time.Duration) (length time.Duration) {
	if !slices.ContainsFunc(j.draw.Events, func(event draw.Event) bool {
		return event.Kind == draw.Bulk && event.At <= to && from <= event.At+event.For
	}) {
		return 0
	}
	seen := map[string]bool{service: true}
	for _, call := range j.mooring.Calls {
		if ensures := strings.HasPrefix(call.Method, "EnsureLoadBalancer"); ensures && !seen[call.Object] && from <= call.Began && call.Began <= to {
			seen[call.Object] = true
			length += min(max(call.Ended-call.Began, 0), j.longest)
		}
	}
	return length
}

// timedOut returns when the API server answered the last request about a Service that timed out and may have been under way at a time, zero if none
// was: Mooring makes one pass after the other over a Service.
func (j *judge) timedOut(service string, at time.Duration) (answered time.Duration) {
	for _, event := range j.draw.Events {
		if event.Kind != draw.Timeouts || event.Object != service {
			continue
		}
		for _, one := range j.mooring.Refused[service] {
			if max(at, event.At) < one && one <= at+requestTakes {
				answered = max(answered, one)
			}
		}
	}
	return answered
}

// busy reports whether a call of Mooring's about a Service is under way at a time, and is for long, or such calls about others that have all places.
// Changes of targets have as many places as those of Services, but share them where the plugin declares a number for all. Which call hangs is chance,
// and by the reference it has its worker for ever, too.
func (j *judge) busy(one change, at time.Duration) bool {
	methods := []string{"UpdateLoadBalancer"}
	switch of := []string{"EnsureLoadBalancer", "EnsureLoadBalancerDeleted"}; {
	case j.draw.Plugin.Has(draw.Declaring):
		methods = append(methods, of...)
	case one.rule == "13-port":
		methods = of
	}
	taken, leader := 0, j.leader(at)
	for _, call := range j.mooring.Calls {
		switch long := call.UnderWay(call.Began + 2*j.longest + passesAtOnce); {
		case !long || at <= call.Began || !call.UnderWay(at):
		case call.Object == one.service:
			return true
		case slices.Contains(methods, call.Method) && call.Process == leader && at < call.Began+placeKept:
			taken++
		}
	}
	return taken >= double.Allowed(methods[0], j.draw.Plugin)
}

// leader returns the process of Mooring's that made the newest call by a time. Calls of processes before it may never return.
func (j *judge) leader(at time.Duration) (process int) {
	var newest time.Duration
	for _, call := range j.mooring.Calls {
		if newest <= call.Began && call.Began <= at {
			newest, process = call.Began, call.Process
		}
	}
	return process
}

// held reports whether the plugin had from Mooring what a change is to change: a node that was no target need not leave.
func (j *judge) held(one change) bool {
	held := one.rule == "13-port" // the first call may have failed
	for _, call := range j.mooring.Calls {
		if has, says := one.holds(call); says && call.Began < one.at {
			held = has
		}
	}
	return held
}

// balancers is rule 5: no second load balancer but by a call that the reference also makes. A Service that was of another type for a while has lost its
// first one.
func balancers(j *judge) {
	for _, service := range j.draw.Services {
		asked := 1
		for _, event := range j.draw.Events {
			if event.Kind == draw.TypeChange && event.Object == service.Name {
				asked++
			}
		}
		asked += len(j.remade(service.Name))
		if made, reference := j.mooring.Created[service.Name], j.reference.Created[service.Name]; made > max(asked, reference) {
			j.add("5-second", service.Name, j.lastCall("EnsureLoadBalancer", service.Name), "%d load balancers were made, and by the reference %d", made, reference)
		}
	}
}

// remade returns the addresses of the load balancers that the cloud made again because it denied one that was there to an Ensure. It names those whose
// Ensure the reference's source asks for on the objects and answers of Mooring's run: chance decides which of these calls meets a denial.
func (j *judge) remade(service string) (addresses []string) {
	var before *double.Call
	for _, call := range j.mooring.Calls {
		if call.Method != "EnsureLoadBalancer" || call.Object != service {
			continue
		}
		if call.Denied && call.Address != "" && j.asksFor(call, before) {
			addresses = append(addresses, call.Address)
		}
		before = call
	}
	return addresses
}

// asksFor reports whether the reference's source asks for an Ensure after the one before: the process has started, the Service has changed, or
// the last Ensure, a write or an update of targets has failed. An update whose load balancer the cloud denies is no failure.
func (j *judge) asksFor(call, before *double.Call) bool {
	if before == nil || before.Process != call.Process || before.Err != nil {
		return true
	}
	since := func(at time.Duration) bool { return before.Began < at && at <= call.Began }
	changed := func(at time.Duration) bool { // the port may have changed at the moment when the call before began without it
		return since(at) || at == before.Began && call.Port != before.Port
	}
	if slices.ContainsFunc((&due{record: j.mooring}).changed(call.Object), changed) || slices.ContainsFunc(j.mooring.Refused[call.Object], since) {
		return true
	}
	failed := false
	for _, other := range j.mooring.Calls {
		switch {
		case other.Object != call.Object || !since(other.Began):
		case other.Method == "UpdateLoadBalancer":
			failed = other.Err != nil
		case other.Method == "GetLoadBalancer":
			if failed && other.Answer != double.No {
				return true
			}
			failed = false
		}
	}
	return false
}

// follows reports whether a changed address is the one that the plugin returned last, of a load balancer that was made again.
func (j *judge) follows(fault double.Fault) bool {
	var returned, shown string
	for _, call := range j.mooring.Calls {
		if call.Object == fault.Object && call.Address != "" && call.Ended <= fault.At {
			returned = call.Address
		}
	}
	for _, change := range j.mooring.ServiceChanges {
		if change.Object == fault.Object && change.At == fault.At {
			shown = ""
			if change.After != nil && len(change.After.Status.LoadBalancer.Ingress) > 0 {
				shown = change.After.Status.LoadBalancer.Ingress[0].IP
			}
		}
	}
	return shown == returned && (slices.Contains(j.remade(fault.Object), returned) || j.lost(fault.Object, fault.At))
}

// lost reports whether the last Ensure before a time made a load balancer again that a deletion took late, and that was denied for ten minutes.
func (j *judge) lost(service string, at time.Duration) (lost bool) {
	const never = time.Duration(-1)
	denied := never
	for _, call := range j.mooring.Calls {
		switch {
		case call.Object != service || call.Ended < 0 || call.Ended > at:
		case call.Method == "EnsureLoadBalancer":
			lost, denied = denied != never && call.Began-denied >= madeAgain, never
		case call.Method == "GetLoadBalancer" && call.Answer == double.Yes:
			denied = never
		case call.Method == "GetLoadBalancer" && call.Answer == double.No && denied == never:
			denied = call.Ended
		}
	}
	return lost && j.deniedLate(service)
}

// lastCall returns when the last call about an object began.
func (j *judge) lastCall(method, object string) (at time.Duration) {
	for _, call := range j.mooring.Calls {
		if call.Method == method && (object == "" || call.Object == object) {
			at = call.Began
		}
	}
	return at
}

// versions is rule 6: writes of each object in any ten minutes.
func versions(j *judge) {
	times := func(record double.Record) map[string][]time.Duration {
		of := map[string][]time.Duration{}
		for _, write := range record.Writes {
			of[write.Object] = append(of[write.Object], write.At)
		}
		return of
	}
	// By its source it writes a Service that it has not come to three times, two around the first call and one after the last, and once whenever a call
	// returns another address. A Service that is made one of another type and back is such a Service again. Beside a plugin that hands back what it
	// was given, it writes none of these: it compares that with itself. A node that it initializes it writes once, and whenever a label or an address
	// is another then. Beside a plugin that changes its arguments, luck says whether it ever initializes one.
	due, reached, address := map[string][]time.Duration{}, map[string]bool{}, map[string]string{}
	for _, call := range j.mooring.Calls {
		switch call.Method {
		case "EnsureLoadBalancerDeleted":
			if call.Ended >= 0 && call.Err == nil {
				reached[call.Object], address[call.Object] = false, ""
			}
		case "EnsureLoadBalancer":
			if !reached[call.Object] {
				reached[call.Object] = true
				due[call.Object] = append(due[call.Object], call.Began, call.Began, call.Began)
			}
			if before := address[call.Object]; call.Address != "" && before != call.Address {
				address[call.Object] = call.Address
				if before != "" {
					due[call.Object] = append(due[call.Object], call.Ended)
				}
			}
		}
	}
	for _, change := range j.mooring.NodeChanges {
		if change.Ours && untaints(change) {
			due[change.Object] = append(due[change.Object], change.At)
		}
	}
	for _, event := range j.draw.Events {
		if _, ever := j.reference.Initialized[event.Object]; !ever && (event.Kind == draw.HandLabel || event.Kind == draw.Renamed) {
			due[event.Object] = append(due[event.Object], event.At)
		}
	}
	j.rates("6", "writes", times(j.mooring), times(j.reference), due)
}

// untaints reports whether a change takes the uninitialized taint from a node.
func untaints(change double.Change[corev1.Node]) bool {
	return change.Before != nil && change.After != nil && uninitialized(change.Before) && !uninitialized(change.After)
}

// events is rule 6 for writes of Events about each object. For what Mooring has called and written, the reference would by its source send some: one
// before a load balancer is ensured or deleted, one after each call and each failure to create a route, one for a node that is initialized or deleted.
func events(j *judge) {
	times := func(record double.Record) map[string][]time.Duration {
		of := map[string][]time.Duration{}
		for _, write := range record.Events {
			of[write.Object] = append(of[write.Object], write.At)
		}
		return of
	}
	due := map[string][]time.Duration{}
	for _, call := range j.mooring.Calls {
		switch call.Method {
		case "EnsureLoadBalancer", "EnsureLoadBalancerDeleted":
			due[call.Object] = append(due[call.Object], call.Began, call.Began)
		case "UpdateLoadBalancer":
			due[call.Object] = append(due[call.Object], call.Began)
		case "CreateRoute":
			if call.Err != nil {
				due[call.Object] = append(due[call.Object], call.Ended)
			}
		}
	}
	for _, change := range j.mooring.NodeChanges {
		if change.Ours && change.Before != nil && (change.After == nil || untaints(change)) {
			due[change.Object] = append(due[change.Object], change.At)
		}
	}
	j.rates("6-events", "writes of Events", times(j.mooring), times(j.reference), due)
}

// made returns when an object is made the next time: what is written to it after that concerns another object of its name.
func (j *judge) made(object string, after time.Duration) time.Duration {
	for _, change := range j.mooring.NodeChanges {
		if change.Object == object && change.Before == nil && change.At > after {
			return change.At
		}
	}
	return j.mooring.Length
}

// rates compares how often something happened to each object in any ten minutes with how often it did by the reference, and how often its source
// asks for it.
func (j *judge) rates(rule, what string, mooring, reference, due map[string][]time.Duration) {
	within := func(times []time.Duration, from, to time.Duration) (count int) {
		for _, at := range times {
			if from <= at && at <= min(to, j.end) {
				count++
			}
		}
		return count
	}
	if len(j.reference.Ends) > len(j.mooring.Ends) {
		return // the reference's process was down, and writes nothing then
	}
	more := written
	if j.chance() {
		more *= 2
	}
	// A process does not know which events another one has sent about what goes on failing.
	says := func(from time.Duration) int {
		if rule != "6-events" {
			return more
		}
		return more * (1 + within(j.mooring.Starts, from+1, from+window))
	}
	for _, object := range slices.Sorted(maps.Keys(mooring)) {
		for _, from := range mooring[object] {
			ours := within(mooring[object], from, min(from+window, j.made(object, from)))
			theirs := max(within(reference[object], from-margin, from+window+margin), within(due[object], from-margin, from+window+margin))
			if j.chance() {
				for _, times := range reference {
					theirs = max(theirs, within(times, from-margin, from+window+margin))
				}
			}
			if ours > theirs+says(from) {
				j.add(rule, object, from, "%d %s within ten minutes, and by the reference %d", ours, what, theirs)
				break
			}
		}
	}
}

// idle is the end of rule 6: an object that has settled is not written, unless the reference writes it too. What may arrive late is written
// late.
func idle(j *judge) {
	if j.chance() || j.succeeded() {
		return
	}
	settled := func(write double.Write) bool { return write.At >= j.arrival() }
	written := map[string]bool{}
	for _, write := range j.reference.Writes {
		written[write.Object] = written[write.Object] || settled(write)
	}
	open := j.mooring.Open
	if sample, ok := sampleAt(j.mooring, j.arrival()); ok {
		open = slices.Concat(open, sample.Open)
	}
	for _, one := range open {
		written[one.Object] = true // rule 13 says so
	}
	// What the cloud says of a node that was renamed is seen by the next status pass, whenever that is.
	seen := map[string]time.Duration{}
	for _, event := range j.draw.Events {
		if event.Kind == draw.Renamed {
			seen[event.Object] = event.At + event.For + j.draw.Plugin.Lag + status + j.longest
		}
	}
	if j.draw.Plugin.Has(draw.PartialSuccess) { // an answer may have lacked addresses
		for _, node := range j.draw.Nodes {
			seen[node.Name] = max(seen[node.Name], draw.Disturbed+status+j.longest)
		}
	}
	for _, call := range j.mooring.Calls { // a question that fails, or hung until the end of the disturbances, is repeated in the next period
		missed := kindOf(call.Method) == "InstanceMetadata" && j.renamed(call.Object, call.Began) && call.Ended <= seen[call.Object]
		if call.Err != nil && (missed || call.Ended >= draw.Disturbed) {
			seen[call.Object] = max(seen[call.Object], call.Ended+status+j.longest)
		}
	}
	for _, call := range j.mooring.Calls { // a check that finds that a deletion took the load balancer late is said in a condition
		if call.Method == "GetLoadBalancer" && call.Answer == double.No && j.deniedLate(call.Object) {
			written[call.Object] = true
		}
	}
	for _, write := range j.mooring.Writes {
		if settled(write) && !written[write.Object] && write.At > seen[write.Object] && write.Verb != "delete" { // rule 3 judges deletions
			written[write.Object] = true
			j.add("6-idle", write.Object, write.At, "%s of %s by %s, %s after the disturbances", write.Verb, write.Resource, write.Client, write.At-draw.Disturbed)
		}
	}
}

// renamed reports whether the cloud has renamed the instance of a node by a time.
func (j *judge) renamed(node string, at time.Duration) bool {
	return slices.ContainsFunc(j.draw.Events, func(event draw.Event) bool {
		return event.Kind == draw.Renamed && event.Object == node && event.At <= at
	})
}

// lives is rule 11: the process ends no oftener than the reference's, or than leases were lost.
func lives(j *judge) {
	lost := 0
	for _, event := range j.draw.Events {
		if event.Kind == draw.LeaseLost {
			lost++
		}
	}
	if ours, theirs := len(j.mooring.Ends), max(len(j.reference.Ends), lost); ours > theirs {
		j.add("11", "", j.mooring.Length, "the process ended %d times, and the reference's %d times: %s", ours, theirs, j.mooring.Ends[0])
	}
}

// early is rule 13 two minutes after the disturbances, for what the reference has reached by then. It is restarted at their end where it is compared,
// and not where it has taken the place of Mooring: there its pauses may last for another five minutes, as may those before the next start of a process.
func early(j *judge) {
	if j.chance() || j.succeeded() {
		return
	}
	reference, ok := sampleAt(j.reference, draw.Disturbed+rest)
	mooring, reached := sampleAt(j.mooring, j.arrival())
	if !ok || !reached {
		return
	}
	for _, one := range j.missing(reference.Open, mooring.Open) {
		// What stays open until the end is a finding of settled. What the cloud has changed is seen within a status period, as by a reference that
		// is not restarted. A load balancer that the cloud denies after it was made is made again after ten minutes, and by the reference when it
		// is restarted.
		if one.Refreshed || j.deniedLate(one.Object) {
			continue
		}
		if !slices.ContainsFunc(j.mooring.Open, func(last double.Fault) bool { return last.Object == one.Object }) {
			j.add("13-early", one.Object, one.At, "%s after the disturbances: %s", one.At-draw.Disturbed, one.Text)
		}
	}
}

// deniedLate reports whether the cloud may deny a load balancer that was made: it was deleted before, and takes its time for that.
func (j *judge) deniedLate(service string) bool {
	return j.draw.Plugin.Has(draw.EventualDeletion) && slices.ContainsFunc(j.draw.Events, func(event draw.Event) bool {
		return event.Object == service && (event.Kind == draw.TypeChange || event.Kind == draw.Deleted)
	})
}

// sampleAt returns the first sample from a time on.
func sampleAt(record double.Record, at time.Duration) (double.Sample, bool) {
	i := slices.IndexFunc(record.Samples, func(sample double.Sample) bool { return sample.At >= at })
	if i < 0 {
		return double.Sample{}, false
	}
	return record.Samples[i], true
}

// succeeded reports whether the reference has taken the place of Mooring at the end.
func (j *judge) succeeded() bool { return j.otherLeads(j.mooring.Length) }

// otherLeads reports whether the reference is in the place of Mooring at a time.
func (j *judge) otherLeads(at time.Duration) (other bool) {
	for _, call := range j.mooring.Calls {
		if call.Began <= at {
			other = call.Other
		}
	}
	return other
}

// settled is rule 13 at the end of the draw, for what the reference reaches too.
func settled(j *judge) {
	for _, one := range j.missing(j.reference.Open, j.mooring.Open) {
		if j.abandoned(one) || j.unpublished(one) || j.deniedAtEnd(one.Object) {
			continue
		}
		j.add(one.Rule, one.Object, one.At, "%s", one.Text)
	}
}

// abandoned reports whether the reference, in the place of Mooring, has given up the update that would settle the targets of a Service. The cloud denied it
// a load balancer that is there, so it waits for the next change of the nodes. Where the reference is compared, its restart ends this wait.
func (j *judge) abandoned(one double.Fault) bool {
	var set []string // the targets of the last call that succeeded
	update, question := &double.Call{}, &double.Call{}
	for _, call := range j.mooring.Calls {
		if call.Object != one.Object {
			continue
		}
		if kindOf(call.Method) == ensureOrUpdate && call.Err == nil {
			set = call.Targets
		}
		update, question = question, call
	}
	denied := update.Method == "UpdateLoadBalancer" && update.Denied && question.Method == "GetLoadBalancer" && question.Denied
	return denied && update.Other && question.Other && len(one.Targets) > 0 && !slices.ContainsFunc(one.Targets, func(node string) bool {
		return slices.Contains(set, node) == slices.Contains(update.Targets, node)
	})
}

// unpublished reports whether the reference, in the place of Mooring, made the load balancer of a Service and failed to write its address. It tries again
// when it starts.
func (j *judge) unpublished(one double.Fault) bool {
	byOther := false
	for _, call := range j.mooring.Calls {
		if call.Method == "EnsureLoadBalancer" && call.Object == one.Object {
			byOther = call.Other && call.Err == nil
		}
	}
	return byOther && j.succeeded() && strings.HasPrefix(one.Text, "the Service has status")
}

// deniedAtEnd reports whether a deletion that came late took a load balancer that was made again, and Mooring has heard of it too late to make another
// one by the end: the cloud denies it for ten minutes first, and a pause may follow. The reference, in its place, makes another one when it starts.
func (j *judge) deniedAtEnd(service string) bool {
	if !j.deniedLate(service) {
		return false
	}
	denied, since := false, time.Duration(0)
	for _, call := range j.mooring.Calls {
		switch {
		case call.Object != service || call.Ended < 0:
		case call.Method == "GetLoadBalancer" && call.Answer == double.No:
			if !denied {
				denied, since = true, call.Ended
			}
		case call.Err == nil:
			denied = false
		}
	}
	return denied && (j.succeeded() || j.mooring.Length-since < madeAgain+driftCheck+maxBackoff+2*j.longest)
}

// unlucky reports whether a node takes several calls in a row, and the plugin's limiter has refused one of the last attempt. Chance decides which
// attempt it lets in as a whole. By 14 other chances of one draw, Mooring left nodes in five, and the reference in ten if it was not restarted.
func (j *judge) unlucky(node string) bool {
	last := -1
	for i, call := range j.mooring.Calls {
		if call.Object == node {
			last = i
		}
	}
	return j.chance() && j.draw.Plugin.Has(draw.OldInterfaces) && last >= 0 &&
		j.mooring.Calls[last].Err != nil && j.mooring.Length-j.mooring.Calls[last].Began <= maxBackoff+2*j.longest
}

// missing returns what Mooring has not reached and the reference has, but for nodes that the limit may hold, which stay targets. Where chance decides
// which objects the plugin refuses, it decides which are left, too, and how many are if the reference has taken the place of Mooring.
func (j *judge) missing(reference, mooring []double.Fault) (missing []double.Fault) {
	if j.chance() && (len(mooring) <= len(reference) || j.succeeded()) {
		return nil
	}
	for _, one := range mooring {
		held := (one.Rule == "13-gone" || strings.Contains(one.Text, "has the target")) && j.limited()
		same := func(other double.Fault) bool { return other.Object == one.Object }
		if !held && !j.unlucky(one.Object) && !slices.ContainsFunc(reference, same) {
			missing = append(missing, one)
		}
	}
	return missing
}
