package cloud

import (
	"maps"
	"slices"

	"github.com/mooring-ccm/mooring/provider"
)

// The groups of calls. A group has a queue, a window, a rate and a breaker of its own, because clouds serve each by an API of
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
	// write says that the method changes something in the cloud.
	write bool
	// whole says that the method is about no object in particular: a listing.
	whole bool
}

// operations are the methods of a plugin that call the cloud.
var operations = map[string]operation{
	"InstanceExists":               {group: GroupInstances},
	"InstanceShutdown":             {group: GroupInstances},
	"InstanceMetadata":             {group: GroupInstances},
	"NodeAddresses":                {group: GroupInstances},
	"NodeAddressesByProviderID":    {group: GroupInstances},
	"InstanceID":                   {group: GroupInstances},
	"InstanceType":                 {group: GroupInstances},
	"InstanceTypeByProviderID":     {group: GroupInstances},
	"AddSSHKeyToAllInstances":      {group: GroupInstances, write: true, whole: true},
	"CurrentNodeName":              {group: GroupInstances},
	"InstanceExistsByProviderID":   {group: GroupInstances},
	"InstanceShutdownByProviderID": {group: GroupInstances},
	"GetZone":                      {group: GroupInstances, whole: true},
	"GetZoneByProviderID":          {group: GroupInstances},
	"GetZoneByNodeName":            {group: GroupInstances},
	"ListInstances":                {group: GroupInstances, whole: true},
	"WatchInstances":               {group: GroupInstances, whole: true},
	"GetLoadBalancer":              {group: GroupLoadBalancers},
	"EnsureLoadBalancer":           {group: GroupLoadBalancers, write: true},
	"UpdateLoadBalancer":           {group: GroupLoadBalancers, write: true},
	"EnsureLoadBalancerDeleted":    {group: GroupLoadBalancers, write: true},
	"ChangeTargets":                {group: GroupLoadBalancers, write: true},
	"ListLoadBalancers":            {group: GroupLoadBalancers, whole: true},
	"ListRoutes":                   {group: GroupRoutes, whole: true},
	"CreateRoute":                  {group: GroupRoutes, write: true},
	"DeleteRoute":                  {group: GroupRoutes, write: true},
	"ReplaceRoute":                 {group: GroupRoutes, write: true},
	"ChangeRoutes":                 {group: GroupRoutes, write: true},
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
	// changes are what is to become of each object, of a method that may be about several.
	changes map[string]string
}

// repeats reports whether a call makes alone a change that an earlier one has among several. That is safe beside it, however late the
// earlier one takes effect: to make a change again that is made already is no error, and changes nothing. Any other change of the object
// might be undone. A call that was alone is not repeated: it is the change itself that hangs.
func (s subject) repeats(earlier subject) bool {
	change, alone := s.changes[s.object]
	return alone && len(earlier.several) > 0 && earlier.changes[s.object] == change
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

// groupNames returns the groups of a provider: the usual ones and those that it declares, in a fixed order.
func groupNames(limits provider.Limits) []string {
	names := []string{GroupInstances, GroupLoadBalancers, GroupRoutes}
	declared := map[string]bool{}
	for _, name := range names {
		declared[name] = true
	}
	for _, method := range slices.Sorted(maps.Keys(limits.Groups)) {
		if name := limits.Groups[method]; name != "" && !declared[name] {
			declared[name] = true
			names = append(names, name)
		}
	}
	return names
}

// bits gives each method a bit, by which to keep what is known of it for each object.
var bits = func() map[string]uint64 {
	bits := map[string]uint64{}
	for i, name := range slices.Sorted(maps.Keys(operations)) {
		bits[name] = 1 << i
	}
	return bits
}()

// bit is that of the method.
func (s subject) bit() uint64 { return bits[s.name] }
