package admission

import (
	"cmp"
	"maps"
	"slices"
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

// Operation is what is known of a method of a plugin.
type Operation struct {
	Group string
	// pool says which loop of the reference makes such calls; empty if it makes none.
	pool string
	// Write says that the method changes something in the cloud.
	Write bool
	// whole says that the method is about no object in particular: a listing.
	whole bool
}

// Operations are the methods of a plugin that call the cloud.
var Operations = map[string]Operation{
	"InstanceExists":               {Group: GroupInstances, pool: poolNodeLifecycle},
	"InstanceShutdown":             {Group: GroupInstances, pool: poolNodeLifecycle},
	"InstanceMetadata":             {Group: GroupInstances, pool: poolNodeStatus},
	"NodeAddresses":                {Group: GroupInstances, pool: poolNodeStatus},
	"NodeAddressesByProviderID":    {Group: GroupInstances, pool: poolNodeStatus},
	"InstanceID":                   {Group: GroupInstances, pool: poolNewNodes},
	"InstanceType":                 {Group: GroupInstances, pool: poolNewNodes},
	"InstanceTypeByProviderID":     {Group: GroupInstances, pool: poolNewNodes},
	"AddSSHKeyToAllInstances":      {Group: GroupInstances, Write: true, whole: true},
	"CurrentNodeName":              {Group: GroupInstances, pool: poolNodeStatus},
	"InstanceExistsByProviderID":   {Group: GroupInstances, pool: poolNodeLifecycle},
	"InstanceShutdownByProviderID": {Group: GroupInstances, pool: poolNodeLifecycle},
	"GetZone":                      {Group: GroupInstances, pool: poolNewNodes, whole: true},
	"GetZoneByProviderID":          {Group: GroupInstances, pool: poolNewNodes},
	"GetZoneByNodeName":            {Group: GroupInstances, pool: poolNewNodes},
	"ListInstances":                {Group: GroupInstances, whole: true},
	"WatchInstances":               {Group: GroupInstances, whole: true},
	"GetLoadBalancer":              {Group: GroupLoadBalancers, pool: poolBalancerReads},
	"EnsureLoadBalancer":           {Group: GroupLoadBalancers, pool: poolServices, Write: true},
	"UpdateLoadBalancer":           {Group: GroupLoadBalancers, pool: poolTargets, Write: true},
	"EnsureLoadBalancerDeleted":    {Group: GroupLoadBalancers, pool: poolServices, Write: true},
	"ChangeTargets":                {Group: GroupLoadBalancers, pool: poolTargets, Write: true},
	"ListLoadBalancers":            {Group: GroupLoadBalancers, whole: true},
	"ListRoutes":                   {Group: GroupRoutes, pool: poolRouteList, whole: true},
	"CreateRoute":                  {Group: GroupRoutes, pool: poolRouteWrites, Write: true},
	"DeleteRoute":                  {Group: GroupRoutes, pool: poolRouteWrites, Write: true},
	"ReplaceRoute":                 {Group: GroupRoutes, pool: poolRouteWrites, Write: true},
	"ChangeRoutes":                 {Group: GroupRoutes, pool: poolRouteWrites, Write: true},
	"ListNodeGroups":               {Group: GroupInstances, whole: true},
	"NodeGroupStatus":              {Group: GroupInstances},
	"NodeGroupTemplate":            {Group: GroupInstances},
	"IncreaseNodeGroup":            {Group: GroupInstances, Write: true},
	"DecreaseNodeGroupTarget":      {Group: GroupInstances, Write: true},
	"DeleteNodeGroupInstances":     {Group: GroupInstances, Write: true},
}

// Subject is what a call is and what it is about.
type Subject struct {
	Operation
	Method string
	// Object is a node, a Service, a route; empty for a listing or several objects at once.
	Object string

	objects []string
	// key names what it is about within its group: an object, or the method. Exclusive names what only one call at a time may be about: a Service, a
	// route, a node group, a node's question, a listing.
	key       string
	exclusive []string
}

// Methods are the groups of methods that the provider declares, see provider.Limits.Groups.
type Methods map[string]string

// About returns what a call of a method is about.
func (m Methods) About(method string, objects ...string) Subject {
	s := Subject{Operation: Operations[method], Method: method, objects: objects, key: method, exclusive: []string{method}}
	kind := s.Group // whatever quota the provider says it draws on
	if kind == GroupInstances && !s.Write {
		kind = method
	}
	s.Group = cmp.Or(m[method], s.Group)
	if len(objects) == 1 {
		s.Object, s.key = objects[0], objects[0]
	}
	if len(objects) > 0 {
		s.exclusive = make([]string, len(objects))
	}
	for i, object := range objects {
		s.exclusive[i] = kind + " " + object
	}
	return s
}

// Groups returns the groups of a provider: the usual ones and the ones that it declares, in a fixed order.
func (m Methods) Groups() []string {
	names := []string{GroupInstances, GroupLoadBalancers, GroupRoutes}
	for _, method := range slices.Sorted(maps.Keys(m)) {
		if name := m[method]; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
