package octavia

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// The provisioning states of octavia that are decided on. All others are PENDING_CREATE, PENDING_UPDATE and PENDING_DELETE.
const (
	stateActive        = "ACTIVE"
	stateError         = "ERROR"
	statePendingDelete = "PENDING_DELETE"
	stateDeleted       = "DELETED"
)

// observation is a load balancer as one look found it.
type observation struct {
	id, name, state, driver string
	tags                    []string
	vipPortID, vipSubnetID  string
	// vips are the addresses, the first one and those of additional VIPs. vipMissing says that one of these has none.
	vips       []string
	vipMissing bool
	listeners  []observedListener
}

// observedListener is a listener with the pool behind it. Without a pool poolID is empty, and without a monitor monitorID.
type observedListener struct {
	model.Listener
	id, poolID, monitorID string
	// failed says that octavia could not carry out the last change of the listener, poolFailed of the pool, membersFailed of a member.
	failed, poolFailed, membersFailed bool
	// poolStuck says that the pool is pending while the load balancer is not: the driver ovn reports another pool when it deleted the
	// monitor of one. Octavia refuses members and monitors of such a pool until a change of the pool itself is reported.
	poolStuck bool
}

// step is what can be done about a load balancer in its state.
type step string

const (
	stepChange   step = "change"
	stepWait     step = "wait"
	stepFailover step = "failover"
	stepRecreate step = "recreate"
	stepReport   step = "report"
)

// nextStep decides by the state. Worked says that the Service shows an address already, so something may depend on it. A load balancer of
// another owner is never replaced.
func nextStep(state string, repair annotations.Repair, owns, worked bool) step {
	switch {
	case state == stateActive:
		return stepChange
	case state != stateError:
		return stepWait
	case !owns || repair == annotations.RepairNever:
		return stepReport
	case repair == annotations.RepairFailover:
		return stepFailover
	case repair == annotations.RepairAlways || !worked:
		return stepRecreate
	default:
		return stepReport
	}
}

// verb is a kind of change.
type verb string

const (
	claim          verb = "tag the load balancer"
	setMembers     verb = "set the members"
	deleteMonitor  verb = "delete the monitor"
	deletePool     verb = "delete the pool"
	deleteListener verb = "delete the listener"
	createListener verb = "create the listener"
	createPool     verb = "create the pool"
	updateListener verb = "update the listener"
	updatePool     verb = "update the pool"
	createMonitor  verb = "create the monitor"
	updateMonitor  verb = "update the monitor"
)

// change is one call that changes a load balancer.
type change struct {
	verb verb
	// key is the listener that the change is about. What is made for it in the same plan has its ID only once it is made.
	key model.Key
	// id is the listener, pool or monitor that is changed. For createPool it is the listener, for setMembers and createMonitor the pool;
	// empty for what the plan makes.
	id string
	// listener is what it shall be, and had what it is, for the verbs that compare.
	listener, had model.Listener
	// name and tags are for claim.
	name string
	tags []string
}

// claimant is the Service on whose behalf a plan is made.
type claimant struct {
	// tag is the tag of what belongs to the Service in a load balancer.
	tag string
	// owns says that the load balancer is the Service's own. Else it shares another's.
	owns bool
}

// mine reports whether a listener belongs to the Service: by its tag, or, as before there were tags, because nothing is tagged.
func (c claimant) mine(l observedListener) bool {
	return slices.Contains(l.Tags, c.tag) || c.owns && len(l.Tags) == 0
}

// planned collects changes by the order in which they are made.
type planned struct {
	claims, repairs, members, removals, listeners, updates, monitors []change
}

// plan returns the changes that bring a load balancer to what is wanted, in their order: ownership first; then members, which traffic
// depends on; then deletions, which free ports; creations; and monitors last, because the driver ovn gets stuck on a listener that comes
// after a monitor. A pool that is stuck is repaired before. Listeners of others stay. One that has a port which the Service wants is a *PortTakenError.
func plan(want model.LoadBalancer, have observation, as claimant) ([]change, error) {
	var p planned
	if change, needed := planClaim(want, have, as); needed {
		p.claims = append(p.claims, change)
	}
	existing, err := matched(want, have, as)
	if err != nil {
		return nil, err
	}
	adds := false
	for _, listener := range want.Listeners {
		has, found := existing[listener.Key()]
		adds = adds || !found || has.Protocol != listener.Protocol
	}
	withoutMonitors := adds && have.driver == annotations.DriverOVN
	for _, has := range have.listeners {
		if withoutMonitors && as.mine(has) && has.monitorID != "" {
			p.removals = append(p.removals, change{verb: deleteMonitor, key: has.Key(), id: has.monitorID})
		}
	}
	for _, has := range have.listeners {
		if as.mine(has) && !slices.ContainsFunc(want.Listeners, func(l model.Listener) bool { return kept(l, has) }) {
			p.remove(has)
		}
	}
	for _, listener := range want.Listeners {
		has, found := existing[listener.Key()]
		if !found || !kept(listener, has) {
			p.create(listener)
			continue
		}
		loses := has.monitorID != "" && (withoutMonitors || listener.Pool.Monitor == nil || listener.Pool.Monitor.Type != has.Pool.Monitor.Type)
		if withoutMonitors {
			has.monitorID = ""
		}
		p.compare(listener, has, loses && have.driver == annotations.DriverOVN)
	}
	return slices.Concat(p.claims, p.repairs, p.members, p.removals, p.listeners, p.updates, p.monitors), nil
}

// kept reports whether an existing listener can become what is wanted: octavia cannot change the protocol of one.
func kept(wanted model.Listener, has observedListener) bool {
	return wanted.Key() == has.Key() && wanted.Protocol == has.Protocol
}

// matched returns the Service's listeners by key.
func matched(want model.LoadBalancer, have observation, as claimant) (map[model.Key]observedListener, error) {
	existing := map[model.Key]observedListener{}
	for _, has := range have.listeners {
		if as.mine(has) {
			existing[has.Key()] = has
			continue
		}
		if slices.ContainsFunc(want.Listeners, func(l model.Listener) bool { return l.Key() == has.Key() }) {
			return nil, &PortTakenError{LoadBalancer: have.id, Port: has.Port, Protocol: has.Protocol, Tags: has.Tags}
		}
	}
	return existing, nil
}

// remove plans what deletes a listener with its pool. Members go with the pool.
func (p *planned) remove(has observedListener) {
	if has.poolID != "" {
		p.removals = append(p.removals, change{verb: deletePool, key: has.Key(), id: has.poolID})
	}
	p.removals = append(p.removals, change{verb: deleteListener, key: has.Key(), id: has.id})
}

// create plans a listener with its pool.
func (p *planned) create(wanted model.Listener) {
	p.listeners = append(p.listeners, change{verb: createListener, key: wanted.Key(), listener: wanted})
	p.createPool(wanted, "")
}

// createPool plans a pool for a listener, whose ID is empty if the plan makes it.
func (p *planned) createPool(wanted model.Listener, listenerID string) {
	key := wanted.Key()
	p.listeners = append(p.listeners, change{verb: createPool, key: key, id: listenerID, listener: wanted})
	if len(wanted.Pool.Members) > 0 {
		p.listeners = append(p.listeners, change{verb: setMembers, key: key, listener: wanted})
	}
	if wanted.Pool.Monitor != nil {
		p.monitors = append(p.monitors, change{verb: createMonitor, key: key, listener: wanted})
	}
}

// compare plans what makes an existing listener the wanted one. Sticks says that the plan leaves the pool stuck unless it changes it too.
func (p *planned) compare(wanted model.Listener, has observedListener, sticks bool) {
	key := wanted.Key()
	if has.failed || listenerDiffers(wanted, has.Listener) {
		p.updates = append(p.updates, change{verb: updateListener, key: key, id: has.id, listener: wanted, had: has.Listener})
	}
	switch {
	case has.poolID == "":
		p.createPool(wanted, has.id)
		return
	case has.Pool.Protocol != wanted.Pool.Protocol: // which octavia cannot change
		p.removals = append(p.removals, change{verb: deletePool, key: key, id: has.poolID})
		p.createPool(wanted, has.id)
		return
	case has.poolStuck:
		p.repairs = append(p.repairs, change{verb: updatePool, key: key, id: has.poolID, listener: wanted, had: has.Listener})
	}
	if sticks || has.poolFailed || !has.poolStuck && poolDiffers(wanted.Pool, has.Pool) {
		p.updates = append(p.updates, change{verb: updatePool, key: key, id: has.poolID, listener: wanted, had: has.Listener})
	}
	if has.membersFailed || !sameMembers(wanted.Pool.Members, has.Pool.Members) {
		p.members = append(p.members, change{verb: setMembers, key: key, id: has.poolID, listener: wanted, had: has.Listener})
	}
	p.compareMonitor(wanted, has)
}

func (p *planned) compareMonitor(wanted model.Listener, has observedListener) {
	key, monitor := wanted.Key(), wanted.Pool.Monitor
	switch {
	case monitor == nil && has.monitorID == "":
	case monitor == nil:
		p.removals = append(p.removals, change{verb: deleteMonitor, key: key, id: has.monitorID})
	case has.monitorID == "":
		p.monitors = append(p.monitors, change{verb: createMonitor, key: key, id: has.poolID, listener: wanted})
	case has.Pool.Monitor.Type != monitor.Type: // which octavia cannot change
		p.removals = append(p.removals, change{verb: deleteMonitor, key: key, id: has.monitorID})
		p.monitors = append(p.monitors, change{verb: createMonitor, key: key, id: has.poolID, listener: wanted})
	case monitorDiffers(*monitor, *has.Pool.Monitor):
		p.monitors = append(p.monitors, change{verb: updateMonitor, key: key, id: has.monitorID, listener: wanted, had: has.Listener})
	}
}

// planClaim says by tags that the load balancer serves the Service. A Service that does not own it changes neither its name nor the tags
// that describe the owner.
func planClaim(want model.LoadBalancer, have observation, as claimant) (change, bool) {
	wanted := want.Tags
	if !as.owns {
		wanted = slices.DeleteFunc(slices.Clone(wanted), model.Describes)
	}
	uids := map[string]bool{}
	for _, owner := range model.Owners(wanted) {
		uids[string(owner.UID)] = true
	}
	tags := slices.DeleteFunc(slices.Clone(have.tags), func(tag string) bool {
		owners := model.Owners([]string{tag})
		return len(owners) == 1 && uids[string(owners[0].UID)] || as.owns && model.Describes(tag) || slices.Contains(wanted, tag)
	})
	tags = append(tags, wanted...)
	name := have.name
	if as.owns {
		name = want.Name
	}
	return change{verb: claim, name: name, tags: tags}, name != have.name || !sameSet(tags, have.tags)
}

// release returns the tags of a shared load balancer without those of the Service, and without the cluster's if no other Service of ours is left.
func release(want model.LoadBalancer, have observation) []string {
	uids := map[string]bool{}
	for _, owner := range model.Owners(want.Tags) {
		uids[string(owner.UID)] = true
	}
	others := slices.ContainsFunc(model.Owners(have.tags), func(o model.Owner) bool { return !uids[string(o.UID)] })
	return slices.DeleteFunc(slices.Clone(have.tags), func(tag string) bool {
		owners := model.Owners([]string{tag})
		return tag == want.Name || len(owners) == 1 && uids[string(owners[0].UID)] || !others && slices.Contains(want.Tags, tag)
	})
}

func listenerDiffers(wanted, has model.Listener) bool {
	timeouts := wanted.Timeouts != nil && (has.Timeouts == nil || *wanted.Timeouts != *has.Timeouts)
	return timeouts || wanted.Name != has.Name || wanted.ConnectionLimit != has.ConnectionLimit || wanted.XForwardedFor != has.XForwardedFor ||
		wanted.TLSContainerRef != has.TLSContainerRef || !slices.Equal(wanted.AllowedCIDRs, has.AllowedCIDRs) ||
		!containsAll(has.Tags, wanted.Tags)
}

func poolDiffers(wanted, has model.Pool) bool {
	return wanted.Name != has.Name || wanted.Algorithm != has.Algorithm || wanted.Persistence != has.Persistence || !containsAll(has.Tags, wanted.Tags)
}

func monitorDiffers(wanted, has model.Monitor) bool {
	return wanted.Name != has.Name || wanted.Delay != has.Delay || wanted.Timeout != has.Timeout || wanted.MaxRetries != has.MaxRetries ||
		wanted.MaxRetriesDown != has.MaxRetriesDown || wanted.URLPath != has.URLPath || wanted.HTTPMethod != has.HTTPMethod ||
		wanted.ExpectedCodes != has.ExpectedCodes || !containsAll(has.Tags, wanted.Tags)
}

// sameMembers compares members but for the subnet, which octavia fixes when a member is added.
func sameMembers(wanted, has []model.Member) bool {
	return slices.EqualFunc(wanted, has, func(a, b model.Member) bool {
		a.SubnetID, b.SubnetID = "", ""
		return a == b
	})
}

func containsAll(tags, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(tag string) bool { return !slices.Contains(tags, tag) })
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}

// unsupportedProtocol returns the protocol of a listener or pool that the driver is known not to have, empty if it may have all. It is asked
// before anything is changed: a protocol is changed by a deletion, after which a refusal would be too late.
func unsupportedProtocol(driver string, want model.LoadBalancer) string {
	if driver != annotations.DriverOVN {
		return ""
	}
	for _, listener := range want.Listeners {
		for _, protocol := range []string{listener.Protocol, listener.Pool.Protocol} {
			if !slices.Contains([]string{"TCP", "UDP", "SCTP"}, protocol) {
				return protocol
			}
		}
	}
	return ""
}

// creation is a load balancer as one call creates it. With the driver ovn monitors follow later: it leaves those of the call out.
func creation(want model.LoadBalancer, serial bool) model.LoadBalancer {
	want.Listeners = slices.Clone(want.Listeners)
	if serial {
		want.Listeners = nil
	}
	if want.Provider == annotations.DriverOVN {
		for i := range want.Listeners {
			want.Listeners[i].Pool.Monitor = nil
		}
	}
	return want
}

// PortTakenError says that a listener which is not the Service's has a port that it wants.
type PortTakenError struct {
	// LoadBalancer is the shared one.
	LoadBalancer string
	Port         int
	Protocol     string
	// Tags are those of the listener.
	Tags []string
}

// Error says whose the port is.
func (e *PortTakenError) Error() string {
	return fmt.Sprintf("load balancer %s: port %d has a listener (%s) of another Service already, tags %q: give this Service another port",
		e.LoadBalancer, e.Port, e.Protocol, strings.Join(e.Tags, ", "))
}
