package api

// Operation names one kind of call. Calls are counted, refused and made to fail by operation.
type Operation string

// The operations of the cloud.
const (
	OpListZones          Operation = "ListZones"
	OpListMachineTypes   Operation = "ListMachineTypes"
	OpListInstances      Operation = "ListInstances"
	OpWatchInstances     Operation = "WatchInstances"
	OpGetInstance        Operation = "GetInstance"
	OpGetInstanceByName  Operation = "GetInstanceByName"
	OpCreateInstance     Operation = "CreateInstance"
	OpUpdateInstance     Operation = "UpdateInstance"
	OpDeleteInstance     Operation = "DeleteInstance"
	OpListLoadBalancers  Operation = "ListLoadBalancers"
	OpGetLoadBalancer    Operation = "GetLoadBalancer"
	OpCreateLoadBalancer Operation = "CreateLoadBalancer"
	OpUpdateLoadBalancer Operation = "UpdateLoadBalancer"
	OpDeleteLoadBalancer Operation = "DeleteLoadBalancer"
	OpChangeTargets      Operation = "ChangeTargets"
	OpListRoutes         Operation = "ListRoutes"
	OpCreateRoute        Operation = "CreateRoute"
	OpReplaceRoute       Operation = "ReplaceRoute"
	OpDeleteRoute        Operation = "DeleteRoute"
	OpChangeRoutes       Operation = "ChangeRoutes"
)

// AnyOperation stands for every operation in a Fault.
const AnyOperation Operation = "*"

// Operations returns all operations of the cloud, in the order of the reference.
func Operations() []Operation {
	return []Operation{
		OpListZones, OpListMachineTypes,
		OpListInstances, OpWatchInstances, OpGetInstance, OpGetInstanceByName, OpCreateInstance, OpUpdateInstance, OpDeleteInstance,
		OpListLoadBalancers, OpGetLoadBalancer, OpCreateLoadBalancer, OpUpdateLoadBalancer, OpDeleteLoadBalancer,
		OpChangeTargets,
		OpListRoutes, OpCreateRoute, OpReplaceRoute, OpDeleteRoute, OpChangeRoutes,
	}
}

// IsList reports whether the operation answers with pages.
func (o Operation) IsList() bool {
	switch o {
	case OpListZones, OpListMachineTypes, OpListInstances, OpListLoadBalancers, OpListRoutes:
		return true
	default:
		return false
	}
}
