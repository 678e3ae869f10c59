package announce

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/pods"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// Settings are what of the config decides.
type Settings struct {
	// Selector selects the nodes that may be next hops of load balancers.
	Selector labels.Selector
	// ClusterNextHops and LocalNextHops are how many next hops an address gets at most, by externalTrafficPolicy.
	ClusterNextHops, LocalNextHops int
	// DrainWait is how long a node that is being removed stays a next hop of addresses that have no other.
	DrainWait time.Duration
	// PodRoutes says whether routes to pods are announced.
	PodRoutes bool
	// PodCIDRs are the ranges in which those of nodes have to be; none: nothing is announced.
	PodCIDRs []netip.Prefix
	// Unprobed says that kube-proxies are not asked how they are: all count as healthy.
	Unprobed bool
	// DrainOnCordon says that a node that is cordoned counts as being removed.
	DrainOnCordon bool
	// IgnoreExcludeLabel says that nodes which are labeled as no targets of load balancers count as others.
	IgnoreExcludeLabel bool
}

// excludes reports whether a node is left out for its label.
func (s Settings) excludes(node model.Node) bool { return node.Excluded && !s.IgnoreExcludeLabel }

// policyWait is how long a Service whose externalTrafficPolicy has become Cluster keeps the next hops of before, which serve under
// either policy: the kube-proxies of the other nodes drop its traffic until they have written their rules anew.
const policyWait = 5 * time.Second

// Input is everything that decides.
type Input struct {
	Now      time.Time
	Settings Settings
	Nodes    map[string]model.Node
	// Others are the addresses of nodes that are no machines of ours.
	Others    map[string]model.Node
	Services  map[types.NamespacedName]model.Service
	Endpoints map[types.NamespacedName]model.ByFamily
	Health    map[model.Probe]model.Health
	// Blind says that no probe of any node is answered. Then probes say nothing: what has no decision yet is taken to be well.
	Blind bool
	// Unproven says that no kube-proxy has ever answered where it is asked: that a node refuses connections there says nothing.
	Unproven bool
	// PoolOf returns the name of the pool that an address is of; empty if it is no longer in any.
	PoolOf func(netip.Addr) string
	// PoolOverlap returns the name of a pool with addresses in a range, or empty if no pool has any.
	PoolOverlap func(netip.Prefix) string
	// OwnNode is the name of the node of this replica; empty if that is not known, or not asked for.
	OwnNode string
	// Networks are those of this machine on which ARP and NDP are answered, in the order in which an address is looked for. None: no
	// address is announced on a segment.
	Networks []netip.Prefix
	// Segments say by which nodes which addresses are announced on segments. None: all by all.
	Segments []SegmentRule
	// Draining is the Draining of the previous Output: since when nodes have been seen to be removed.
	Draining map[types.UID]time.Time
	// Announced is the Table of the previous Output: what of it is not known to be wrong stays.
	Announced routing.Table
	// Local is the Local of the previous Output.
	Local map[types.UID]time.Time
}

// Output is what follows.
type Output struct {
	// Table is what is to be announced.
	Table routing.Table
	// Services says of each Service what is announced, or why it is not.
	Services map[types.NamespacedName]model.ServiceState
	// Nodes says of each node whether it is a next hop, or why not.
	Nodes map[string]model.NodeState
	// Draining is since when nodes have been seen to be removed.
	Draining map[types.UID]time.Time
	// Local are the Services with policy Local, with no time, and those whose policy was Local, with the time since when it is not.
	Local map[types.UID]time.Time
	// Next is when time alone changes the outcome; zero if it does not.
	Next time.Time
}

// Desired derives what is to be announced. It depends on nothing but its input: replicas that see the same announce the same.
func Desired(in Input) Output {
	out := Output{
		Table:    routing.Table{},
		Services: make(map[types.NamespacedName]model.ServiceState, len(in.Services)),
		Nodes:    make(map[string]model.NodeState, len(in.Nodes)),
		Draining: map[types.UID]time.Time{},
		Local:    map[types.UID]time.Time{},
	}
	for name, node := range in.Nodes {
		out.Nodes[name] = in.nextHopState(node, &out)
	}
	if in.Settings.PodRoutes {
		in.routePods(&out)
	}
	in.announceServices(&out)
	for _, service := range in.Services {
		if since, local := in.local(service); local {
			out.Local[service.UID] = since
			if !service.Local {
				out.due(since.Add(policyWait))
			}
		}
	}
	return out
}

// due says that time alone changes the outcome at a moment.
func (out *Output) due(at time.Time) {
	if out.Next.IsZero() || at.Before(out.Next) {
		out.Next = at
	}
}

// local reports whether the next hops of a Service are those of policy Local, and since when its policy is another one.
func (in Input) local(service model.Service) (since time.Time, local bool) {
	if service.Local {
		return time.Time{}, true
	}
	since, was := in.Local[service.UID]
	if was && since.IsZero() {
		since = in.Now
	}
	return since, was && in.Now.Before(since.Add(policyWait))
}

// nextHopState says whether a node may be a next hop of load balancers. Whether it is Ready does not matter: that is the word of its kubelet, 40 s old
// when it matters, and Unknown for all nodes when the API server has lost sight of them. Probes say whether traffic gets through.
func (in Input) nextHopState(node model.Node, out *Output) model.NodeState {
	state := model.NodeState{NextHop: model.Out}
	health := in.Health[model.Probe{Node: node.Name}]
	if in.Settings.Unprobed {
		health = model.Healthy
	}
	removal := node.Removal
	switch {
	case removal != "":
	case node.Cordoned && in.Settings.DrainOnCordon:
		removal = model.RemovalByCordon
	case health == model.HealthLeaving:
		removal = model.RemovalSaidByKubeProxy
	}
	if removal != "" {
		since, known := in.Draining[node.UID]
		if !known {
			since = in.Now
		}
		out.Draining[node.UID] = since
		state.Since, state.Removal = since, removal
	}
	end := state.Since.Add(in.Settings.DrainWait)
	switch {
	case node.Uninitialized:
		state.Reason = model.NodeUninitialized
	case in.Settings.excludes(node):
		state.Reason = model.NodeExcluded
	case !in.Settings.Selector.Matches(labels.Set(node.Labels)):
		state.Reason = model.NodeNotSelected
	case len(node.Addresses) == 0:
		state.Reason = model.NodeWithoutAddress
	case health == model.Unhealthy:
		state.Reason = model.NodeNotAnswering
	case removal != "" && !in.Now.Before(end):
		state.Reason = model.NodeDrained
	default:
		state.NextHop, state.Reason = in.confirmed(health, removal != "")
		if removal != "" {
			out.due(end)
		}
	}
	return state
}

// confirmed says what a node is that nothing speaks against, by whether something speaks for it.
func (in Input) confirmed(health model.Health, removed bool) (model.NextHopState, model.Reason) {
	switch {
	case health == model.HealthUnknown && !in.Blind:
		return model.Fallback, model.NodeNotProbed
	case health == model.HealthRefused && !in.Unproven:
		return model.Fallback, model.NodeRefusing
	case health == model.HealthDamped:
		return model.Fallback, model.NodeFlapping
	case removed:
		return model.Draining, model.NodeDraining
	default:
		return model.In, ""
	}
}

// routePods adds the routes to the pods of each node.
func (in Input) routePods(out *Output) {
	ranges := pods.Desired(pods.Input{Nodes: in.Nodes, Within: in.Settings.PodCIDRs, PoolOverlap: in.PoolOverlap})
	for name, of := range ranges {
		state := out.Nodes[name]
		state.PodCIDRs, state.PodProblems = of.Announced, of.Problems
		out.Nodes[name] = state
		for _, cidr := range of.Announced {
			hop := in.Nodes[name].Address(model.FamilyOf(cidr.Addr()))
			out.Table[cidr] = routing.Route{Prefix: cidr, NextHops: []netip.Addr{hop}, Kind: routing.PodCIDR}
		}
	}
}

// announceServices adds the routes to load balancers, and says of each Service what became of it.
func (in Input) announceServices(out *Output) {
	segments := map[segment][model.Families]hops{}
	everywhere := in.hops(out.Nodes, func(node model.Node, family model.Family) (netip.Addr, model.Reason) {
		return node.Address(family), model.NodeWithoutFamily
	})
	sharing := map[netip.Addr][]model.Service{}
	for _, service := range in.Services {
		for _, addr := range service.Addresses {
			sharing[addr.Unmap()] = append(sharing[addr.Unmap()], service)
		}
	}
	states, owners := make(map[netip.Addr]model.AddressState, len(sharing)), in.owners()
	for addr, services := range sharing {
		services = deciding(services)
		if owner, is := owners[addr]; is {
			states[addr] = model.AddressState{Addr: addr, Pool: in.pool(addr), Reason: model.NodeAddress, Owner: owner}
			continue
		}
		state := in.announce(addr, services, &everywhere[model.FamilyOf(addr)], mostFor(services))
		state.Pool = in.pool(addr)
		state.Blind, state.Unproven = in.Blind, in.Unproven
		states[addr] = state
		if len(state.NextHops) > 0 {
			prefix := netip.PrefixFrom(addr, addr.BitLen())
			out.Table[prefix] = routing.Route{Prefix: prefix, NextHops: state.NextHops, Kind: routing.ServiceAddress, Pool: state.Pool,
				Uncertain: in.Blind, Segment: in.onSegment(addr, services, out.Nodes, segments)}
		}
	}
	for key, service := range in.Services {
		state := model.ServiceState{UID: service.UID, Addresses: make([]model.AddressState, 0, len(service.Addresses))}
		for _, addr := range service.Addresses {
			state.Addresses = append(state.Addresses, states[addr.Unmap()])
		}
		out.Services[key] = state
	}
}

func (in Input) pool(addr netip.Addr) string {
	if in.PoolOf == nil {
		return ""
	}
	return in.PoolOf(addr)
}

// maxOwned is how many addresses of a node are kept from Services. Its kubelet may write any number.
const maxOwned = 8

// owners returns the names of the nodes that have addresses. Announced as a load balancer's, such an address would lead what is for
// the machine, its kubelet and its API server, to another one.
func (in Input) owners() map[netip.Addr]string {
	owners := map[netip.Addr]string{}
	for _, nodes := range []map[string]model.Node{in.Nodes, in.Others} {
		for name, node := range nodes {
			all := slices.Concat(node.Addresses, node.External)
			for _, addr := range all[:min(len(all), maxOwned)] {
				if other, twice := owners[addr]; !twice || name < other {
					owners[addr] = name
				}
			}
		}
	}
	return owners
}

// onSegment returns the next hop of an address for the hosts of its own network, invalid if there is none. All traffic of an address goes
// to one node. It is chosen among the nodes with an InternalIP on the network, and that InternalIP is the next hop. Segments are the nodes
// of each network.
func (in Input) onSegment(addr netip.Addr, services []model.Service, nodes map[string]model.NodeState,
	segments map[segment][model.Families]hops) netip.Addr {
	nodeSelectors, rules := in.segmentsOf(addr, services)
	if len(in.Segments) > 0 && rules == "" {
		return netip.Addr{}
	}
	for _, network := range in.Networks {
		if !network.Contains(addr) {
			continue
		}
		there, known := segments[segment{network, rules}]
		if !known {
			there = in.hops(nodes, func(node model.Node, _ model.Family) (netip.Addr, model.Reason) {
				at := slices.IndexFunc(node.Addresses, network.Contains)
				if at < 0 || !matchAny(nodeSelectors, node.Labels) {
					return netip.Addr{}, model.NodeWithoutAddress
				}
				return node.Addresses[at], ""
			})
			segments[segment{network, rules}] = there
		}
		if state := in.announce(addr, services, &there[model.FamilyOf(addr)], 1); len(state.NextHops) > 0 {
			return state.NextHops[0]
		}
	}
	return netip.Addr{}
}

// SegmentRule is an advertisement on segments: which addresses it selects, and by which nodes. Nil selects all.
type SegmentRule struct {
	Pools           map[string]bool
	Services, Nodes []labels.Selector
}

// matchAny reports whether one of the selectors matches labels, or there is none.
func matchAny(selectors []labels.Selector, of map[string]string) bool {
	return selectors == nil || slices.ContainsFunc(selectors, func(one labels.Selector) bool { return one.Matches(labels.Set(of)) })
}

// segment is a network as some advertisements see it.
type segment struct {
	network netip.Prefix
	rules   string
}

// segmentsOf returns the selectors of the nodes by which an address is announced on segments, nil for all, and which advertisements say so,
// empty if none does.
func (in Input) segmentsOf(addr netip.Addr, services []model.Service) (nodes []labels.Selector, rules string) {
	pool, every := in.pool(addr), len(in.Segments) == 0
	for i, rule := range in.Segments {
		selected := slices.ContainsFunc(services, func(service model.Service) bool { return matchAny(rule.Services, service.Labels) })
		if rule.Pools != nil && !rule.Pools[pool] || !selected {
			continue
		}
		every = every || rule.Nodes == nil
		nodes, rules = append(nodes, rule.Nodes...), rules+strconv.Itoa(i)+" "
	}
	if every {
		nodes = nil
	}
	return nodes, rules
}

// hop is a node that may be a next hop of addresses of one family.
type hop struct {
	node  string
	addr  netip.Addr
	state model.NextHopState
}

// candidates are hops of which some are to be chosen, with the hashes by which that is done.
type candidates struct {
	hops   []hop
	hashes []uint64
}

func (c *candidates) add(hop hop) {
	c.hops, c.hashes = append(c.hops, hop), append(c.hashes, routing.Hash(hop.node))
}

// hops are the nodes that may be next hops of one family.
type hops struct {
	in, draining, fallback candidates
	byName                 map[string]hop
	// why says why another node is no next hop, and out counts these reasons.
	why map[string]model.Reason
	out map[model.Reason]int
}

// hops returns the nodes that may be next hops. The address at which one is, or else why it has none, is what the function says.
func (in Input) hops(states map[string]model.NodeState,
	address func(model.Node, model.Family) (netip.Addr, model.Reason)) [model.Families]hops {
	var result [model.Families]hops
	for family := range model.Families {
		of := hops{byName: map[string]hop{}, why: map[string]model.Reason{}, out: map[model.Reason]int{}}
		for name, node := range in.Nodes {
			state := states[name]
			addr, reason := address(node, family)
			candidate := hop{node: name, addr: addr, state: state.NextHop}
			if state.NextHop == model.Out {
				reason = state.Reason
			}
			switch {
			case state.NextHop == model.Out || !candidate.addr.IsValid():
				of.why[name] = reason
				of.out[reason]++
				continue
			case candidate.state == model.Draining:
				of.draining.add(candidate)
			case candidate.state == model.Fallback:
				of.fallback.add(candidate)
			default:
				of.in.add(candidate)
			}
			of.byName[name] = candidate
		}
		result[family] = of
	}
	return result
}

// deciding returns the Services that choose the next hops of an address. Namespaces share one with policy Cluster only: a Service that was
// turned to Local since chooses none for the others.
func deciding(services []model.Service) []model.Service {
	across := slices.ContainsFunc(services, func(service model.Service) bool { return service.Key.Namespace != services[0].Key.Namespace })
	local := func(service model.Service) bool { return service.Local }
	if !across || !slices.ContainsFunc(services, func(service model.Service) bool { return !local(service) }) {
		return services
	}
	return slices.DeleteFunc(services, local)
}

// unlimited is what announce is told where the settings alone bound the next hops.
const unlimited = routing.MaxNextHops

// mostFor returns how many next hops an address of these Services has at most for routers that spread the connections of a client: with
// session affinity one, as a node does not know which pod another node has chosen. It takes all namespaces that share the address: no tenant
// leaves another with one node.
func mostFor(services []model.Service) int {
	affine := map[string]bool{}
	for _, service := range services {
		affine[service.Key.Namespace] = affine[service.Key.Namespace] || service.Affinity
	}
	for _, wanted := range affine {
		if !wanted {
			return unlimited
		}
	}
	if len(affine) == 0 {
		return unlimited
	}
	return 1
}

// announce chooses the next hops of an address that these Services have, as many as most.
func (in Input) announce(addr netip.Addr, services []model.Service, hops *hops, most int) model.AddressState {
	slices.SortFunc(services, func(a, b model.Service) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	family, limit := model.FamilyOf(addr), in.Settings.ClusterNextHops
	state := model.AddressState{Addr: addr}
	var sets []candidates
	for _, service := range services {
		endpoints := in.Endpoints[service.Key][family]
		var set candidates
		var one model.AddressState
		if _, local := in.local(service); local {
			limit = in.Settings.LocalNextHops
			set, one = in.localHops(addr, service, endpoints, hops)
		}
		if !service.Local && len(set.hops) == 0 {
			set, one = clusterHops(endpoints, hops)
		}
		if len(set.hops) > 0 {
			sets = append(sets, set)
		}
		if state.Reason == "" || len(set.hops) > 0 && len(sets) == 1 {
			state.Reason, state.Out = one.Reason, one.Out
		}
	}
	common := common(sets)
	var chosen []hop
	for _, i := range routing.Rendezvous(routing.Hash(addr.String()), common.hashes, min(limit, most)) {
		chosen = append(chosen, common.hops[i])
	}
	slices.SortFunc(chosen, func(a, b hop) int { return cmp.Or(a.addr.Compare(b.addr), cmp.Compare(a.node, b.node)) })
	chosen = slices.CompactFunc(chosen, func(a, b hop) bool { return a.addr == b.addr }) // two Node objects of one machine
	for _, one := range chosen {
		state.NextHops = append(state.NextHops, one.addr)
	}
	return state
}

// clusterHops returns the nodes that take traffic of a Service with policy Cluster: all that work, as kube-proxy passes on what it has no
// endpoint for. Without any endpoint nothing is announced: all traffic then goes to another cluster with the same address.
func clusterHops(endpoints model.Endpoints, hops *hops) (candidates, model.AddressState) {
	switch {
	case !endpoints.Any:
		return candidates{}, model.AddressState{Reason: model.NoEndpoints}
	case len(hops.in.hops) > 0:
		return hops.in, model.AddressState{Reason: model.Announced}
	case len(hops.draining.hops) > 0:
		return hops.draining, model.AddressState{Reason: model.AnnouncedDraining}
	case len(hops.fallback.hops) > 0:
		return hops.fallback, model.AddressState{Reason: model.AnnouncedUnconfirmed}
	default:
		return candidates{}, model.AddressState{Reason: model.NoNextHop, Out: hops.out}
	}
}

// localHops returns the nodes that take traffic of a Service with policy Local: those with ready endpoints that kube-proxy knows
// of. If there are none, those with endpoints that end but serve, to which kube-proxy sends traffic while its health check
// already says no (KEP-1669), or as long as it does not know of a ready one; and if there are none of these either, those with ready
// endpoints about which kube-proxy could not be asked.
func (in Input) localHops(addr netip.Addr, service model.Service, endpoints model.Endpoints, hops *hops) (candidates, model.AddressState) {
	if !endpoints.Any {
		return candidates{}, model.AddressState{Reason: model.NoEndpoints}
	}
	var ready, draining, ending, fallback candidates
	why := map[model.Reason]int{}
	if len(endpoints.Ready)+len(endpoints.Terminating) == 0 {
		why[model.NodeNotNamed] = 0
	}
	for node := range endpoints.Ready {
		hop, may := hops.byName[node]
		if !may {
			why[cmp.Or(hops.why[node], model.NodeUnknown)]++
			continue
		}
		switch open, known := in.portOpen(addr, hop, service.HealthCheckNodePort); {
		case !known || open && hop.state == model.Fallback:
			fallback.add(hop)
		case !open:
			why[model.NodePortClosed]++
		case hop.state == model.Draining:
			draining.add(hop)
		default:
			ready.add(hop)
		}
	}
	for node := range endpoints.Terminating {
		if hop, may := hops.byName[node]; may {
			ending.add(hop)
		} else if !endpoints.Ready[node] {
			why[cmp.Or(hops.why[node], model.NodeUnknown)]++
		}
	}
	switch {
	case len(ready.hops) > 0:
		return ready, model.AddressState{Reason: model.Announced}
	case len(draining.hops) > 0:
		return draining, model.AddressState{Reason: model.AnnouncedDraining}
	case len(ending.hops) > 0:
		return ending, model.AddressState{Reason: model.AnnouncedTerminating}
	case len(fallback.hops) > 0:
		return fallback, model.AddressState{Reason: model.AnnouncedUnconfirmed}
	default:
		return candidates{}, model.AddressState{Reason: model.NoNextHop, Out: why}
	}
}

// portOpen reports whether the health-check node port of a node lets traffic in, and whether that is known. What is announced stays
// open until its port says something: a port that is new, because the policy of its Service is, must not take a node out that has
// served before, and back in a second later.
func (in Input) portOpen(addr netip.Addr, hop hop, port int32) (open, known bool) {
	if port == 0 {
		return true, true
	}
	switch in.Health[model.Probe{Node: hop.node, Port: port}] {
	case model.Healthy:
		return true, true
	case model.HealthUnknown:
		announced := in.Announced[netip.PrefixFrom(addr, addr.BitLen())].NextHops
		stays := in.Blind || slices.Contains(announced, in.Nodes[hop.node].Address(model.FamilyOf(addr)))
		return stays, stays
	case model.HealthRefused:
		return false, false
	default:
		return false, true
	}
}

// common returns what all sets have in common, or all of them together if that is nothing: Services that share an address share
// its next hops too.
func common(sets []candidates) candidates {
	switch len(sets) {
	case 0:
		return candidates{}
	case 1:
		return sets[0]
	}
	count := map[string]int{}
	byName := map[string]hop{}
	for _, set := range sets {
		for _, hop := range set.hops {
			count[hop.node]++
			byName[hop.node] = hop
		}
	}
	var shared, all candidates
	for name, hop := range byName {
		all.add(hop)
		if count[name] == len(sets) {
			shared.add(hop)
		}
	}
	if len(shared.hops) > 0 {
		return shared
	}
	return all
}
