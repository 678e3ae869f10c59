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
	// HoldProviderIDUnknown says that the cloud denied the node's provider ID before, and that its kubelet has reported since.
	HoldProviderIDUnknown HoldReason = "ProviderIDUnknown"
)

// guard is what is remembered from pass to pass. It is a value: a plan returns the next one and leaves its own as it was. A
// new leader begins with no denials, so that every node has to be confirmed anew, and with the deletions of the deletion log.
type guard struct {
	denials map[types.UID]denial
	// spent are the deletions that count against the limit, in no particular order.
	spent []spending
	// historyUnknown says that spent cannot be relied upon: the deletion log could not be read or written.
	historyUnknown bool
}

// denial is the row of observations in which the cloud denied a node's instance.
type denial struct {
	// observed counts all of them, credible those in which the cloud could be believed, since the kubelet last reported.
	observed, credible int
	// alone counts those in which no kubelet reported that could bear witness.
	alone int
	// first and last are when they began, and believed and lonely are when the first credible one did, and the first one alone.
	first, last, believed, lonely time.Time
	// reported is the reason for which the node was last reported as held.
	reported HoldReason
}

// spending is a number of deletions that were begun together.
type spending struct {
	At    time.Time `json:"at"`
	Count int       `json:"count"`
}

// cause is why a node is deleted.
type cause string

const (
	causeGone         cause = "gone"
	causeAnnounced    cause = "announced"
	causeAcknowledged cause = "acknowledged"
)

// actionKind is what is done. Actions are carried out in this order, so that what is held is marked before anything is
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
	// cause says why a node is deleted, and counted that it uses up the limit.
	cause   cause
	counted bool
}

// plan is what is to be done after an observation.
type plan struct {
	actions []action
	// held counts the nodes that are kept although the cloud denies their instances, unconfirmed those that wait for further
	// observations before anything is decided about them.
	held        map[HoldReason]int
	unconfirmed int
	// again is when the earliest of those that only wait for their time can be decided about; zero if there are none.
	again time.Time
	// limit is how many nodes may be deleted within the window, and spent how many were or are about to be.
	limit, spent int
}

// deletions returns how many nodes the plan deletes at the expense of the limit.
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
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b facts) int { return cmp.Compare(a.name, b.name) })
	next := guard{spent: recent(before.spent, settings, now), historyUnknown: before.historyUnknown}
	planned := plan{held: map[HoldReason]int{}, spent: total(next.spent)}
	planned.limit = settings.Limit.of(population(nodes) + planned.spent)
	said = relevant(nodes, said, settings, now)
	doubt := doubtOf(nodes, said, settings, now)
	next.denials = observe(nodes, said, before.denials, doubt == "", settings.Window, now)
	alone := nobodyHeard(nodes, now)

	var limited []facts
	for _, node := range nodes {
		want := desire(node, said)
		if want.existence != denied {
			planned.keep(node, want)
			continue
		}
		doubt := doubt
		if said[node.uid].contradicted {
			doubt = HoldProviderIDUnknown
		}
		switch decision := decideDenied(node, next.denials[node.uid], doubt, alone, settings, now); {
		case decision.hold != "":
			planned.hold(node, decision.hold, next.denials)
		case decision.cause == causeGone && !settings.Limit.Off():
			limited = append(limited, node)
		case decision.cause != "":
			planned.actions = append(planned.actions, action{kind: deleteNode, node: node, cause: decision.cause})
		default:
			planned.await(decision.until)
			planned.stillHeld(node)
		}
	}
	planned.limitDeletions(limited, &next, now)
	slices.SortStableFunc(planned.actions, func(a, b action) int { return cmp.Compare(a.kind, b.kind) })
	return planned, next
}

// relevant returns what was said of nodes that were to be asked for, and of ready ones, which bear witness. That the instance of a
// young node is not there says nothing, nor does an answer as old as the window, which is longer than anything is remembered.
func relevant(nodes []facts, said answers, settings Settings, now time.Time) answers {
	counts := answers{}
	for _, node := range nodes {
		answer, known := said[node.uid]
		switch {
		case !known, now.Sub(answer.at) >= settings.Window, !node.ready && !answer.exists && node.young(settings, now):
		case node.due(settings, now), node.ready && node.owner == ours:
			counts[node.uid] = answer
		}
	}
	return counts
}

// population is how many nodes a limit is a share of.
func population(nodes []facts) int {
	count := 0
	for _, node := range nodes {
		if node.owner != foreign {
			count++
		}
	}
	return count
}

// doubtOf returns why the cloud cannot be believed when it denies instances, or nothing. It has to know one of our nodes at
// least: an answer that knows none is an empty or a stranger's. And it must not deny nodes that are alive: a few may have
// lost their instances a moment ago, but not a greater share than may be deleted, nor more than half. A node whose end was
// announced, or acknowledged and is not ready, is no evidence against the cloud: it will be deleted, and what is decided about the
// others must not depend on whether that has happened yet.
func doubtOf(nodes []facts, said answers, settings Settings, now time.Time) HoldReason {
	known, running, deniedRunning := 0, 0, 0
	for _, node := range nodes {
		answer, asked := said[node.uid]
		if !asked {
			continue
		}
		if answer.exists {
			known++
		}
		if going := node.announced || node.acknowledged && !node.ready; node.alive(now) && !going {
			running++
			if !answer.exists {
				deniedRunning++
			}
		}
	}
	tolerated := min(max(minLimit, settings.Limit.of(running)), running/2)
	switch {
	case known == 0:
		return HoldEveryInstanceGone
	case deniedRunning > tolerated:
		return HoldRunningNodesDenied
	default:
		return ""
	}
}

// observe counts the observations in which each node's instance was denied. A row ends when the instance is there, and when
// nothing was said for as long as the window. An observation that was counted already adds nothing.
func observe(nodes []facts, said answers, before map[types.UID]denial, credible bool, window time.Duration, now time.Time,
) map[types.UID]denial {
	next := map[types.UID]denial{}
	alone := nobodyHeard(nodes, now)
	for _, node := range nodes {
		row, known := before[node.uid]
		if known && now.Sub(row.last) >= window {
			row, known = denial{}, false
		}
		answer := said[node.uid]
		switch desire(node, said).existence {
		case unsaid:
			if known {
				next[node.uid] = row.afterReports(node.alive(now), alone)
			}
		case denied:
			if !known {
				row.first = answer.at
			}
			next[node.uid] = row.with(answer.at, credible && !answer.contradicted).afterReports(node.alive(now), alone)
		case present:
		}
	}
	return next
}

// with returns the row with an observation more, unless it was counted already.
func (d denial) with(at time.Time, credible bool) denial {
	if !at.After(d.last) {
		return d
	}
	d.observed++
	d.last = at
	if credible {
		if d.credible++; d.credible == 1 {
			d.believed = at
		}
	}
	if d.alone++; d.alone == 1 {
		d.lonely = at
	}
	return d
}

// afterReports returns the row as it is after a look at the kubelets. What was denied while the node's own reported is not what it is
// denied for when that has fallen silent.
func (d denial) afterReports(alive, alone bool) denial {
	if alive {
		d.credible, d.believed = 0, time.Time{}
	}
	if alive || !alone {
		d.alone, d.lonely = 0, time.Time{}
	}
	return d
}

// nobodyHeard reports whether no kubelet reports that could confirm it: all nodes are silent, or are being removed.
func nobodyHeard(nodes []facts, now time.Time) bool {
	return !slices.ContainsFunc(nodes, func(node facts) bool {
		return node.owner != foreign && node.alive(now) && !node.announced
	})
}

// keep gives a node whose instance exists the right taint, and takes the word of a missing instance from it. About an
// instance of which nothing was said there is nothing to do.
func (p *plan) keep(node facts, want desired) {
	switch {
	case want.existence == unsaid:
		p.stillHeld(node)
	case node.heldFor != "":
		p.actions = append(p.actions, action{kind: clearHeld, node: node})
	}
	switch {
	case want.tainted == nil || *want.tainted == node.hasShutdownTaint():
	case *want.tainted:
		p.actions = append(p.actions, action{kind: addTaint, node: node})
	default:
		p.actions = append(p.actions, action{kind: removeTaint, node: node})
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
	// until is when the observation may be made that decides, if time is all that is lacking.
	until time.Time
}

// decideDenied decides about a node whose instance the cloud denies. What an operator has acknowledged needs no credibility and no
// limit; what was announced needs no limit, and no time: somebody else has said it before the cloud did. If nothing is left that the
// cloud could know, as when a cluster is scaled to zero, what was announced needs the time instead.
func decideDenied(node facts, row denial, doubt HoldReason, alone bool, settings Settings, now time.Time) decision {
	lasted := func(since time.Time) bool { return row.last.Sub(since) >= settings.MinDenialTime }
	switch {
	case row.observed < settings.Confirmations:
		return decision{}
	case node.acknowledged:
		return decision{cause: causeAcknowledged}
	case node.alive(now) && !lasted(row.first): // it may be shutting down
		return decision{until: row.first.Add(settings.MinDenialTime)}
	case node.alive(now):
		return decision{hold: HoldKubeletReports}
	case doubt == HoldEveryInstanceGone && node.announced && alone:
		if row.alone < settings.Confirmations {
			return decision{}
		}
		if !lasted(row.lonely) {
			return decision{until: row.lonely.Add(settings.MinDenialTime)}
		}
		return decision{cause: causeAnnounced}
	case doubt != "":
		return decision{hold: doubt}
	case row.credible < settings.Confirmations:
		return decision{}
	case node.announced:
		return decision{cause: causeAnnounced}
	case !lasted(row.believed):
		return decision{until: row.believed.Add(settings.MinDenialTime)}
	default:
		return decision{cause: causeGone}
	}
}

// await notes that a node waits for another observation: the next one, or one at a time.
func (p *plan) await(until time.Time) {
	switch {
	case until.IsZero():
		p.unconfirmed++
	case p.again.IsZero() || until.Before(p.again):
		p.again = until
	}
}

// hold keeps a node. An event says so once for each reason, and the condition of one that is ours shows it.
func (p *plan) hold(node facts, reason HoldReason, denials map[types.UID]denial) {
	p.held[reason]++
	row := denials[node.uid]
	shown := node.heldFor
	if node.owner != ours {
		shown = row.reported
	}
	if shown != reason {
		p.actions = append(p.actions, action{kind: markHeld, node: node, reason: reason, since: row.first})
	}
	row.reported = reason
	denials[node.uid] = row
}

// limitDeletions deletes as many of the nodes as the limit still allows, those first that have been denied for longest, and holds the
// rest.
func (p *plan) limitDeletions(nodes []facts, next *guard, now time.Time) {
	first := func(node facts) time.Time { return next.denials[node.uid].first }
	slices.SortStableFunc(nodes, func(a, b facts) int { return first(a).Compare(first(b)) })
	allowed, reason := min(max(0, p.limit-p.spent), len(nodes)), HoldLimitReached
	if next.historyUnknown {
		allowed, reason = 0, HoldHistoryUnknown
	}
	for _, node := range nodes[:allowed] {
		p.actions = append(p.actions, action{kind: deleteNode, node: node, cause: causeGone, counted: true})
	}
	if allowed > 0 {
		p.spent += allowed
		next.spent = append(next.spent, spending{At: now, Count: allowed})
	}
	for _, node := range nodes[allowed:] {
		p.hold(node, reason, next.denials)
	}
}

// recent returns the deletions that still count, none of them from the future: the clock may have been put back. A deletion may happen up to applyTime after it was planned, so that it
// counts for that much longer than the window.
func recent(spent []spending, settings Settings, now time.Time) []spending {
	counts := settings.Window + settings.applyTime()
	return slices.DeleteFunc(notAfter(spent, now), func(s spending) bool { return now.Sub(s.At) >= counts })
}

// notAfter returns deletions none of which is later than a time.
func notAfter(spent []spending, now time.Time) []spending {
	current := slices.Clone(spent)
	for i := range current {
		if current[i].At.After(now) {
			current[i].At = now
		}
	}
	return current
}

func total(spent []spending) int {
	count := 0
	for _, s := range spent {
		count += s.Count
	}
	return count
}

// refund returns a guard that does not count deletions planned at a time, because they did not happen.
func (g guard) refund(at time.Time, count int) guard {
	g.spent = slices.Clone(g.spent)
	for i := range g.spent {
		if g.spent[i].At.Equal(at) {
			refunded := min(count, g.spent[i].Count)
			g.spent[i].Count -= refunded
			count -= refunded
		}
	}
	g.spent = slices.DeleteFunc(g.spent, func(s spending) bool { return s.Count <= 0 })
	g.denials = maps.Clone(g.denials)
	return g
}
