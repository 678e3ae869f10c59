package nodelifecycle

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// HoldReason is why a node is kept although the cloud denies its instance: the reason of its condition CloudInstanceGone.
type HoldReason string

const (
	// HoldEveryInstanceGone says that the cloud knows none of the instances that were asked for.
	HoldEveryInstanceGone HoldReason = "EveryInstanceGone"
	// HoldRunningNodesDenied says that the cloud denies instances whose nodes are ready.
	HoldRunningNodesDenied HoldReason = "RunningNodesDenied"
	// HoldLimitReached says that as many nodes as the limit allows were deleted.
	HoldLimitReached HoldReason = "DeletionLimitReached"
	// HoldHistoryUnknown says that it is not known how many nodes were deleted lately.
	HoldHistoryUnknown HoldReason = "DeletionHistoryUnknown"
	// HoldKubeletReports says that the node's kubelet still reports, although the node is not ready.
	HoldKubeletReports HoldReason = "KubeletReports"
)

// guard is what is remembered from pass to pass. It is a value: a plan returns the next one and leaves its own as it was. A
// new leader begins with no denials, so every node has to be confirmed anew, and with the deletions of the deletion log.
type guard struct {
	denials map[types.UID]denial
	// affirmed is when the cloud last affirmed an instance of ours, in an observation that could be believed.
	affirmed time.Time
	// spent are the deletions that count against the limit, in no particular order.
	spent []spending
	// attempts are the deletions of nodes that are still there.
	attempts map[types.UID]attempt
	// historyUnknown says that spent cannot be relied upon: the deletion log could not be read or written.
	historyUnknown bool
}

const (
	// DefaultPeriod is the reference's --node-monitor-period. The answers of one pass come within it.
	DefaultPeriod = 5 * time.Second
	// answerAge is how long an answer counts for a decision that waits for other answers.
	answerAge = 2 * time.Minute
)

// denial is the row of observations in which the cloud denied a node's instance.
type denial struct {
	// observed counts all of them, credible those since the kubelet last reported and the cloud was last not to be believed.
	observed, credible int
	// first and last are when they began, and believed when the first credible one did.
	first, last, believed time.Time
	// reported is the reason for which the node was last reported as held.
	reported HoldReason
}

// attempt is what was tried of a deletion that the limit covers.
type attempt struct {
	// noted is the time at which spent counts it; zero if it does not count.
	noted time.Time
	// since is when it was first noted. It may have happened ever since, so all further tries count as this one.
	since time.Time
	// failed is when the last one was planned that failed.
	failed time.Time
}

// cause is why a node is deleted.
type cause string

const (
	causeGone         cause = "gone"
	causeAnnounced    cause = "announced"
	causeAcknowledged cause = "acknowledged"
)

// actionKind is what is done. Actions are carried out in this order, so what is held is marked before anything is
// deleted.
type actionKind int

const (
	markHeld actionKind = iota
	clearHeld
	addTaint
	removeTaint
	deleteNode
)

// action is one change.
type action struct {
	kind actionKind
	node facts
	// reason and since say why a node is held, and since when the cloud has denied its instance.
	reason HoldReason
	since  time.Time
	// cause says why a node is deleted, counted that the limit covers that, and again that it is counted already.
	cause          cause
	counted, again bool
}

// plan is what is to be done after an observation.
type plan struct {
	actions []action
	// held counts the nodes that are kept although the cloud denies their instances.
	held map[HoldReason]int
	// due is when nodes whose instances are denied have to be asked for once more.
	due map[types.UID]time.Time
	// affirm says that denials wait for the cloud to affirm instances of ready nodes, which it has not been asked for.
	affirm bool
	// limit is how many nodes may be deleted within the window, and spent how many were or are about to be.
	limit, spent int
}

// add has something done about a node, unless that failed a short while ago.
func (p *plan) add(action action) {
	if !action.node.paused[action.kind] {
		p.actions = append(p.actions, action)
	}
}

// deletions returns how many of the deletions have to be noted before they happen.
func (p plan) deletions() int {
	count := 0
	for _, action := range p.actions {
		if action.counted {
			count++
		}
	}
	return count
}

// decide returns what is to be done about the nodes, and what is to be remembered. The order of the nodes does not matter.
//
// See ADR 20.
func decide(nodes []facts, said answers, before guard, settings Settings, now time.Time) (plan, guard) {
	nodes = byName(nodes)
	next := guard{spent: recent(before.spent, settings, now), historyUnknown: before.historyUnknown, affirmed: before.affirmed}
	said = relevant(nodes, said, settings, now)
	doubt := doubtOf(nodes, said, settings, now)
	next.denials = observe(nodes, said, before.denials, doubt == "", settings.Window, now)
	next.affirm(nodes, said, doubt == "")
	planned := plan{held: map[HoldReason]int{}, due: map[types.UID]time.Time{}, spent: total(next.spent)}
	planned.limit = settings.Limit.of(population(nodes) + planned.spent - next.carryAttempts(nodes, before))
	seen := evidence{doubt: doubt, affirmed: next.affirmed, allSilent: noKubeletReports(nodes, now), askable: slices.ContainsFunc(nodes, facts.canWitness)}

	var limited []facts
	for _, node := range nodes {
		want, row := desire(node, said), next.denials[node.uid]
		if want.existence == present || !node.denied(row, settings, now) {
			planned.keep(node, want)
			continue
		}
		switch decision := decideDenied(node, row, seen, settings, now); {
		case decision.hold != "":
			planned.hold(node, decision.hold, next.denials)
		case decision.affirm && (node.announced || settings.Limit.Off() || planned.spent < planned.limit && !next.historyUnknown):
			planned.await(node, decision)
		case decision.cause == causeGone && !settings.Limit.Off():
			limited = append(limited, node)
		case decision.cause != "":
			planned.add(action{kind: deleteNode, node: node, cause: decision.cause})
		default:
			planned.await(node, decision)
		}
	}
	planned.limitDeletions(limited, &next, settings, now)
	slices.SortStableFunc(planned.actions, func(a, b action) int { return cmp.Compare(a.kind, b.kind) })
	return planned, next
}

// relevant returns what was said of nodes that were to be asked for, and of ready ones, which bear witness. An answer as old as the window
// says nothing: that is longer than anything is remembered.
func relevant(nodes []facts, said answers, settings Settings, now time.Time) answers {
	counts := answers{}
	for _, node := range nodes {
		answer, known := said[node.uid]
		if known && now.Sub(answer.at) < settings.Window && (node.due(settings, now) && !answer.witness || node.ready && node.owner == ours) {
			counts[node.uid] = answer
		}
	}
	return counts
}

// observe counts the observations in which each node's instance was denied. A row ends when the instance is there, and when
// nothing was said for as long as the window. An observation that was counted already adds nothing. One that cannot be believed takes
// their credibility from all before it.
func observe(nodes []facts, said answers, before map[types.UID]denial, credible bool, window time.Duration, now time.Time,
) map[types.UID]denial {
	next := map[types.UID]denial{}
	for _, node := range nodes {
		row, known := before[node.uid]
		if known && now.Sub(row.last) >= window {
			row, known = denial{}, false
		}
		existence := desire(node, said).existence
		if existence == present || existence == unsaid && !known {
			continue
		}
		if !credible || node.alive(now) {
			row.credible, row.believed = 0, time.Time{}
		}
		if at := said[node.uid].at; existence == denied && at.After(row.last) {
			row = row.with(at, credible && !node.alive(now))
		}
		next[node.uid] = row
	}
	return next
}

// with returns the row with an observation more.
func (d denial) with(at time.Time, credible bool) denial {
	if d.observed++; d.observed == 1 {
		d.first = at
	}
	d.last = at
	if credible {
		if d.credible++; d.credible == 1 {
			d.believed = at
		}
	}
	return d
}

// affirm remembers when the cloud affirmed an instance, or forgets it if the cloud cannot be believed.
func (g *guard) affirm(nodes []facts, said answers, credible bool) {
	if !credible {
		g.affirmed = time.Time{}
		return
	}
	for _, node := range nodes {
		if answer := said[node.uid]; answer.exists && answer.at.After(g.affirmed) {
			g.affirmed = answer.at
		}
	}
}

// denied reports whether the cloud denies the instance of a node that it is asked about, by an answer that still counts.
func (f facts) denied(row denial, settings Settings, now time.Time) bool {
	return f.due(settings, now) && row.observed > 0 && now.Sub(row.last) < answerAge
}

// keep plans the right taint of a node whose instance exists, and removes its condition. It plans nothing for an instance of unknown
// existence.
func (p *plan) keep(node facts, want desired) {
	switch {
	case want.existence != present:
		p.stillHeld(node)
	case node.heldFor != "":
		p.add(action{kind: clearHeld, node: node})
	}
	switch {
	case want.tainted == nil || *want.tainted == node.hasShutdownTaint():
	case *want.tainted:
		p.add(action{kind: addTaint, node: node})
	default:
		p.add(action{kind: removeTaint, node: node})
	}
}

// stillHeld counts a node about which nothing new is decided, if it shows that it is held.
func (p *plan) stillHeld(node facts) {
	if node.heldFor != "" && node.owner != foreign {
		p.held[node.heldFor]++
	}
}

// decision is what may be done about a node whose instance the cloud denies: keep it for a reason, delete it for a cause, or
// wait for more observations if it has neither.
type decision struct {
	hold  HoldReason
	cause cause
	// until is when the node may be asked for again, and affirm says that only the affirmation of others is lacking. A node that the limit
	// holds need not have it.
	until  time.Time
	affirm bool
}

// evidence is what an observation says of all denials.
type evidence struct {
	// doubt is why the cloud cannot be believed, or empty.
	doubt HoldReason
	// affirmed is when the cloud last affirmed an instance of ours, and askable says that there are nodes to ask it for.
	affirmed time.Time
	askable  bool
	// allSilent says that no kubelet reports that could confirm a denial.
	allSilent bool
}

// affirms reports whether the cloud has affirmed an instance since about the first credible denial of a row: the answers of one pass come one after
// the other.
func (e evidence) affirms(row denial, now time.Time) bool {
	return !e.affirmed.Before(row.believed.Add(-DefaultPeriod)) && now.Sub(e.affirmed) < answerAge
}

// decideDenied decides about a node whose instance the cloud denies. An acknowledged deletion needs no credible denial and is not limited. An
// announced deletion is not limited and needs no minimum time: another client announced it before the cloud denied the instance. When a cluster is
// scaled to zero, for example, no instance is left that the cloud could affirm. An announced deletion then needs the minimum time instead.
func decideDenied(node facts, row denial, seen evidence, settings Settings, now time.Time) decision {
	lasted := func(since time.Time) bool { return row.last.Sub(since) >= settings.MinDenialTime }
	again := row.last // at once, but in another observation
	if !node.announced && settings.Confirmations > 1 {
		again = again.Add(settings.MinDenialTime / time.Duration(settings.Confirmations-1))
	}
	switch {
	case node.acknowledged && row.observed >= settings.Confirmations:
		return decision{cause: causeAcknowledged}
	case node.acknowledged:
		return decision{until: row.last}
	case row.observed < settings.Confirmations:
		return decision{until: again}
	case node.alive(now) && !lasted(row.first): // it may be shutting down
		return decision{until: row.first.Add(settings.MinDenialTime)}
	case node.alive(now):
		return decision{hold: HoldKubeletReports}
	case seen.doubt != "":
		return decision{hold: seen.doubt}
	case row.credible < settings.Confirmations:
		return decision{until: again}
	case !lasted(row.believed) && (!node.announced || seen.allSilent):
		return decision{until: row.believed.Add(settings.MinDenialTime)}
	case node.announced && (seen.allSilent || seen.affirms(row, now)):
		return decision{cause: causeAnnounced}
	case seen.affirms(row, now):
		return decision{cause: causeGone}
	case seen.askable:
		return decision{cause: causeGone, affirm: true, until: row.last.Add(answerAge / 4)}
	default:
		return decision{hold: HoldEveryInstanceGone}
	}
}

// await notes what a node waits for.
func (p *plan) await(node facts, decision decision) {
	p.affirm = p.affirm || decision.affirm
	p.due[node.uid] = decision.until
	p.stillHeld(node)
}

// hold keeps a node. An event says so once for each reason, and the condition of one that is ours shows it.
func (p *plan) hold(node facts, reason HoldReason, denials map[types.UID]denial) {
	p.held[reason]++
	row := denials[node.uid]
	shown := node.heldFor
	if node.owner != ours {
		shown = row.reported
	}
	if shown != reason && (shown != "" || node.released != reason) {
		p.add(action{kind: markHeld, node: node, reason: reason, since: row.first})
	}
	if !node.paused[markHeld] {
		row.reported = reason
	}
	denials[node.uid] = row
}

// limitDeletions deletes as many of the nodes as the limit still allows, and holds the rest. Nodes whose deletion has not failed come first, and
// among these the nodes denied for longest. A deletion that may have happened is retried without counting again: a node dies once. It gives way to
// others when it has been retried for as long as the window.
func (p *plan) limitDeletions(nodes []facts, next *guard, settings Settings, now time.Time) {
	slices.SortStableFunc(nodes, func(a, b facts) int {
		return cmp.Or(next.attempts[a.uid].failed.Compare(next.attempts[b.uid].failed), next.denials[a.uid].first.Compare(next.denials[b.uid].first))
	})
	waiting := false
	var counted []facts
	for _, node := range nodes {
		switch {
		case node.paused[deleteNode]:
			p.stillHeld(node)
		case next.historyUnknown:
			p.hold(node, HoldHistoryUnknown, next.denials)
		case !next.attempts[node.uid].noted.IsZero():
			counted = append(counted, node)
		case p.spent < p.limit:
			p.spent++
			p.add(action{kind: deleteNode, node: node, cause: causeGone, counted: true})
			next.spend(node.uid, now)
		default:
			waiting = true
			p.hold(node, HoldLimitReached, next.denials)
		}
	}
	for _, node := range counted {
		if waiting && now.Sub(next.attempts[node.uid].since) >= settings.Window {
			p.hold(node, HoldLimitReached, next.denials)
			continue
		}
		p.add(action{kind: deleteNode, node: node, cause: causeGone, counted: true, again: true})
		next.unspend(next.attempts[node.uid].noted)
		next.spend(node.uid, now)
	}
}

// carryAttempts takes over what was tried of nodes that are still there, and returns how many of these count. It is forgotten when
// neither the limit needs it nor the order of further deletions.
func (g *guard) carryAttempts(nodes []facts, before guard) (counted int) {
	g.attempts = map[types.UID]attempt{}
	for _, node := range nodes {
		tried, known := before.attempts[node.uid]
		if counts := slices.ContainsFunc(g.spent, func(s spending) bool { return s.At.Equal(tried.noted) }); !counts {
			tried.noted, tried.since = time.Time{}, time.Time{}
		}
		if _, isDenied := g.denials[node.uid]; !known || tried.noted.IsZero() && !isDenied {
			continue
		}
		g.attempts[node.uid] = tried
		if !tried.noted.IsZero() {
			counted++
		}
	}
	return counted
}

// spend counts the deletion of a node.
func (g *guard) spend(node types.UID, now time.Time) {
	tried := g.attempts[node]
	tried.noted = now
	if tried.since.IsZero() {
		tried.since = now
	}
	g.attempts[node] = tried
	for i := range g.spent {
		if g.spent[i].At.Equal(now) {
			g.spent[i].Count++
			return
		}
	}
	g.spent = append(g.spent, spending{At: now, Count: 1})
}

// unspend removes one deletion from the deletions recorded for a time.
func (g *guard) unspend(at time.Time) {
	if i := slices.IndexFunc(g.spent, func(s spending) bool { return s.At.Equal(at) }); i >= 0 {
		g.spent[i].Count--
	}
	g.spent = slices.DeleteFunc(g.spent, func(s spending) bool { return s.Count <= 0 })
}

// conclude returns the guard that knows what became of a deletion which the limit covers: whether it may have happened, and whether it
// failed. What cannot have happened does not count, unless an earlier try of it may have.
func (g guard) conclude(done action, at time.Time, possible, failed bool) guard {
	g.spent, g.attempts = slices.Clone(g.spent), maps.Clone(g.attempts)
	tried := g.attempts[done.node.uid]
	if failed {
		tried.failed = at
	}
	if !possible && !done.again {
		g.unspend(at)
		tried.noted, tried.since = time.Time{}, time.Time{}
	}
	g.attempts[done.node.uid] = tried
	return g
}
