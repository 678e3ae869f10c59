package cloud

import (
	"maps"
	"slices"

	"github.com/mooring-ccm/mooring/provider"
)

// The groups of calls. A group has a queue and a rate of its own, because clouds serve each by an API of
// its own. A provider may declare others, see provider.Limits.Groups.
const (
	// GroupInstances are calls about nodes' instances.
	GroupInstances = "instances"
	// GroupLoadBalancers are calls about Services' load balancers.
	GroupLoadBalancers = "load_balancers"
	// GroupRoutes are calls about routes.
	GroupRoutes = "routes"
)

// operation is what is known of a method of a plugin.
type operation struct {
	group string
	// pool says which loop of the reference makes such calls; empty if it makes none.
	pool string
	// write says that the method changes something in the cloud.
	write bool
	// whole says that the method is about no object in particular: a listing.
	whole bool
}

// operations are the methods of a plugin that call the cloud.
var operations = map[string]operation{
	"InstanceExists":               {group: GroupInstances, pool: poolNodeLifecycle},
	"InstanceShutdown":             {group: GroupInstances, pool: poolNodeLifecycle},
	"InstanceMetadata":             {group: GroupInstances, pool: poolNodeStatus},
	"NodeAddresses":                {group: GroupInstances, pool: poolNodeStatus},
	"NodeAddressesByProviderID":    {group: GroupInstances, pool: poolNodeStatus},
	"InstanceID":                   {group: GroupInstances, pool: poolNewNodes},
	"InstanceType":                 {group: GroupInstances, pool: poolNewNodes},
	"InstanceTypeByProviderID":     {group: GroupInstances, pool: poolNewNodes},
	"AddSSHKeyToAllInstances":      {group: GroupInstances, write: true, whole: true},
	"CurrentNodeName":              {group: GroupInstances, pool: poolNodeStatus},
	"InstanceExistsByProviderID":   {group: GroupInstances, pool: poolNodeLifecycle},
	"InstanceShutdownByProviderID": {group: GroupInstances, pool: poolNodeLifecycle},
	"GetZone":                      {group: GroupInstances, pool: poolNewNodes, whole: true},
	"GetZoneByProviderID":          {group: GroupInstances, pool: poolNewNodes},
	"GetZoneByNodeName":            {group: GroupInstances, pool: poolNewNodes},
	"ListInstances":                {group: GroupInstances, whole: true},
	"WatchInstances":               {group: GroupInstances, whole: true},
	"GetLoadBalancer":              {group: GroupLoadBalancers, pool: poolBalancerReads},
	"EnsureLoadBalancer":           {group: GroupLoadBalancers, pool: poolServices, write: true},
	"UpdateLoadBalancer":           {group: GroupLoadBalancers, pool: poolTargets, write: true},
	"EnsureLoadBalancerDeleted":    {group: GroupLoadBalancers, pool: poolServices, write: true},
	"ChangeTargets":                {group: GroupLoadBalancers, pool: poolTargets, write: true},
	"ListLoadBalancers":            {group: GroupLoadBalancers, whole: true},
	"ListRoutes":                   {group: GroupRoutes, pool: poolRouteList, whole: true},
	"CreateRoute":                  {group: GroupRoutes, pool: poolRouteWrites, write: true},
	"DeleteRoute":                  {group: GroupRoutes, pool: poolRouteWrites, write: true},
	"ReplaceRoute":                 {group: GroupRoutes, pool: poolRouteWrites, write: true},
	"ChangeRoutes":                 {group: GroupRoutes, pool: poolRouteWrites, write: true},
	"ListNodeGroups":               {group: GroupInstances, whole: true},
	"NodeGroupStatus":              {group: GroupInstances},
	"NodeGroupTemplate":            {group: GroupInstances},
	"IncreaseNodeGroup":            {group: GroupInstances, write: true},
	"DecreaseNodeGroupTarget":      {group: GroupInstances, write: true},
	"DeleteNodeGroupInstances":     {group: GroupInstances, write: true},
}

// subject is what a call is and what it is about.
type subject struct {
	operation
	name   string // of the method
	object string // a node, a Service, a route; empty for a listing or several objects at once
	// several are those objects.
	several []string
}

// key names what a call is about within its group: an object, or the method if it is about no particular object.
func (s subject) key() string {
	if s.object == "" {
		return s.name
	}
	return s.object
}

// keys names all that a call is about.
func (s subject) keys() []string {
	if len(s.several) > 0 {
		return s.several
	}
	return []string{s.key()}
}

// exclusive names what only one call at a time may be about: a Service, a route, a node group, a node's question, a listing.
func (s subject) exclusive() []string {
	kind := operations[s.name].group // whatever quota the provider says it draws on
	switch {
	case s.object == "" && len(s.several) == 0:
		return []string{s.name}
	case kind == GroupInstances && !s.write:
		kind = s.name
	}
	var names []string
	for _, key := range s.keys() {
		names = append(names, kind+" "+key)
	}
	return names
}

// sortedKeys returns the keys of a map in their order.
func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// groupNames returns the groups of a provider: the usual ones and the ones that it declares, in a fixed order.
func groupNames(limits provider.Limits) []string {
	names := []string{GroupInstances, GroupLoadBalancers, GroupRoutes}
	declared := map[string]bool{}
	for _, name := range names {
		declared[name] = true
	}
	for _, method := range sortedKeys(limits.Groups) {
		if name := limits.Groups[method]; name != "" && !declared[name] {
			declared[name] = true
			names = append(names, name)
		}
	}
	return names
}
