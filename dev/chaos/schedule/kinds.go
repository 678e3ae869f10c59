package schedule

import "slices"

// The arguments of operations.
const (
	ArgNames     = "names"     // of nodes, Services or instances, separated by commas
	ArgFor       = "for"       // how long it lasts
	ArgOperation = "operation" // an operation of the simulated cloud, or "*"
	ArgObject    = "object"    // a node or a Service: only calls about it are hit
	ArgCode      = "code"      // an HTTP status
	ArgCount     = "count"     // how many
	ArgReplica   = "replica"   // which replica of the manager
	ArgWrite     = "write"     // a write to the cloud or the API server
	ArgSide      = "side"      // before or after the effect of the write
)

// The values of ArgReplica and ArgSide.
const (
	Leader  = "leader"
	Standby = "standby"
	Before  = "before"
	After   = "after"
)

var (
	replicas = []string{Leader, Standby}
	sides    = []string{Before, After}
)

// Scope says what a kind of operation may disturb while it lasts.
type Scope int

const (
	// Workload is what users, kubelets and machines do. It disturbs nothing.
	Workload Scope = iota
	// One is a fault of one object: all others are served meanwhile.
	One
	// All is a fault that may hold everything up. It may touch nothing that it should not.
	All
)

// Kind is a kind of operation.
type Kind struct {
	// Name is the verb.
	Name string
	// Scope says what it may disturb. With ArgObject a fault of any kind disturbs that object only.
	Scope Scope
	// Sentence says what happens, for the report and the documentation.
	Sentence string
	// Required and Optional are its arguments.
	Required, Optional []string
	// weight is how often a generated schedule has it, in comparison.
	weight int
	// make draws its arguments. Nothing comes of it where the state of the generator does not allow it.
	make func(*generator) map[string]string
}

// The verbs.
const (
	NodesJoin      = "nodes-join"
	NodesLeave     = "nodes-leave"
	NodesStop      = "nodes-stop"
	NodesSilence   = "nodes-silence"
	NodesUnready   = "nodes-unready"
	NodesExclude   = "nodes-exclude"
	NodesDrop      = "nodes-drop"
	NodesResize    = "nodes-resize"
	ServicesCreate = "services-create"
	ServicesDelete = "services-delete"
	ServicesChange = "services-change"
	ServicesDemote = "services-demote"
	BalancerTamper = "balancers-tamper"
	RoutesTamper   = "routes-tamper"
	NodesMove      = "nodes-move"
	NodesRelabel   = "nodes-relabel"
	BalancersLose  = "balancers-lose"
	Converge       = "converge"

	CloudStatus    = "cloud-status"
	CloudHalf      = "cloud-half"
	CloudAsync     = "cloud-async"
	CloudHang      = "cloud-hang"
	CloudSlow      = "cloud-slow"
	CloudEmpty     = "cloud-empty"
	CloudPartial   = "cloud-partial"
	CloudStale     = "cloud-stale"
	CloudDuplicate = "cloud-duplicate"
	CloudMalformed = "cloud-malformed"
	CloudPanic     = "cloud-panic"
	CloudGoexit    = "cloud-goexit"
	CloudQuota     = "cloud-quota"

	APIDown   = "api-down"
	APICut    = "api-cut"
	APIBlock  = "api-block"
	APIStatus = "api-status"
	EtcdPause = "etcd-pause"

	ManagerKill  = "manager-kill"
	ManagerPause = "manager-pause"
	ManagerRoll  = "manager-roll"
	ManagerCrash = "manager-crash"
)

// Kinds are all kinds of operations.
func Kinds() []Kind { return slices.Concat(workload, cloudFaults, pluginQuirks, clusterFaults) }

// KindOf returns the kind of a verb.
func KindOf(verb string) (Kind, bool) {
	all := Kinds()
	i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == verb })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}

// Scope returns what the operation may disturb.
func (o Operation) Scope() Scope {
	kind, _ := KindOf(o.Verb) // Parse accepts no other
	if kind.Scope == All && o.Args[ArgObject] != "" {
		return One
	}
	return kind.Scope
}

var workload = []Kind{
	{Name: NodesJoin, Sentence: "instances are created and their nodes register", Required: []string{ArgNames}, weight: 6, make: joinNodes},
	{Name: NodesLeave, Sentence: "instances are deleted and their kubelets fall silent", Required: []string{ArgNames}, weight: 4, make: leaveNodes},
	{Name: NodesStop, Sentence: "instances are shut down, and started again later", Required: []string{ArgNames, ArgFor}, weight: 3, make: someNodes(20)},
	{Name: NodesSilence, Sentence: "kubelets of instances that run fall silent, and report again later", Required: []string{ArgNames, ArgFor}, weight: 4, make: someNodes(20)},
	{Name: NodesUnready, Sentence: "nodes are not ready while their kubelets report", Required: []string{ArgNames, ArgFor}, weight: 4, make: someNodes(20)},
	{Name: NodesExclude, Sentence: "nodes are excluded from load balancers, and included again later", Required: []string{ArgNames, ArgFor}, weight: 3, make: someNodes(10)},
	{Name: NodesDrop, Sentence: "an operator deletes Node objects; the kubelets start again and register", Required: []string{ArgNames}, weight: 2, make: dropNodes},
	{Name: NodesResize, Sentence: "instances become another machine type", Required: []string{ArgNames}, weight: 2, make: dropNodes},
	{Name: ServicesCreate, Sentence: "Services of type LoadBalancer are created", Required: []string{ArgNames}, weight: 6, make: createServices},
	{Name: ServicesDelete, Sentence: "Services are deleted", Required: []string{ArgNames}, weight: 4, make: deleteServices},
	{Name: ServicesChange, Sentence: "Services get another port", Required: []string{ArgNames}, weight: 4, make: changeServices},
	{Name: ServicesDemote, Sentence: "Services become type ClusterIP, and LoadBalancer again later", Required: []string{ArgNames, ArgFor}, weight: 2, make: demoteServices},
	{Name: BalancerTamper, Sentence: "an operator removes a target of load balancers in the cloud", Required: []string{ArgNames}, weight: 2, make: changeServices},
	{Name: RoutesTamper, Sentence: "an operator removes routes of nodes in the cloud", Required: []string{ArgNames}, weight: 2, make: dropNodes},
	{Name: NodesMove, Sentence: "instances get another address", Required: []string{ArgNames}, weight: 2, make: dropNodes},
	{Name: NodesRelabel, Sentence: "an operator gives nodes the label of another instance type", Required: []string{ArgNames}, weight: 1, make: oneNode},
	{Name: BalancersLose, Sentence: "an operator deletes load balancers in the cloud", Required: []string{ArgNames}, weight: 2, make: changeServices},
	{Name: Converge, Sentence: "the clock of the schedule stands still until everything is as it should be"},
}

var cloudFaults = []Kind{
	{Name: CloudStatus, Scope: All, Sentence: "calls are refused with a status: 401, 403, 404 of a proxy, 409, 429, 500, 503", weight: 12, make: refusals,
		Required: []string{ArgOperation, ArgCode, ArgFor}, Optional: []string{ArgObject}},
	{Name: CloudHalf, Scope: All, Sentence: "writes take effect and are answered with 500", weight: 5, make: halfDone,
		Required: []string{ArgOperation, ArgFor}, Optional: []string{ArgObject}},
	{Name: CloudAsync, Scope: All, Sentence: "load balancers are accepted and then end in state error", weight: 2, make: countOnly(3), Required: []string{ArgCount}},
	{Name: CloudHang, Scope: All, Sentence: "calls get no answer", weight: 6, make: anyCall(15), Required: []string{ArgOperation, ArgFor}, Optional: []string{ArgObject}},
	{Name: CloudSlow, Scope: All, Sentence: "calls take a second longer", weight: 3, make: anyCall(15), Required: []string{ArgOperation, ArgFor}, Optional: []string{ArgObject}},
	{Name: CloudEmpty, Scope: All, Sentence: "lists are empty, and well-formed", weight: 5, make: lists(15), Required: []string{ArgOperation, ArgFor}},
	// Believed for as long as --node-deletion-min-denial-time says, so a lie about some instances is shorter: see ADR 85.
	{Name: CloudPartial, Scope: All, Sentence: "lists lack every third element, and say that they are whole", weight: 4, make: lists(3), Required: []string{ArgOperation, ArgFor}},
	{Name: CloudStale, Scope: All, Sentence: "lists are as they were when this began", weight: 4, make: lists(3), Required: []string{ArgOperation, ArgFor}},
	{Name: CloudDuplicate, Scope: All, Sentence: "lists have every element twice", weight: 3, make: lists(15), Required: []string{ArgOperation, ArgFor}},
	{Name: CloudMalformed, Scope: All, Sentence: "calls are answered with something that is not JSON", weight: 3, make: anyCall(10), Required: []string{ArgOperation, ArgFor}, Optional: []string{ArgObject}},
	{Name: CloudPanic, Scope: All, Sentence: "the plugin panics", weight: 5, make: anyCall(10), Required: []string{ArgOperation, ArgFor}, Optional: []string{ArgObject}},
	{Name: CloudGoexit, Scope: All, Sentence: "the plugin ends the goroutine of the call", weight: 2, make: anyCall(10), Required: []string{ArgOperation, ArgFor}, Optional: []string{ArgObject}},
	{Name: CloudQuota, Scope: All, Sentence: "calls above a quota are refused with 429", weight: 3, make: quotas, Required: []string{ArgOperation, ArgCount, ArgFor}},
}

var clusterFaults = []Kind{
	{Name: APIDown, Scope: All, Sentence: "the API server ends, and starts again later", weight: 3, make: during(15), Required: []string{ArgFor}},
	{Name: APICut, Scope: All, Sentence: "all connections of a replica to the API server are cut, watches among them", weight: 4, make: ofReplica(0), Required: []string{ArgReplica}},
	{Name: APIBlock, Scope: All, Sentence: "a replica does not reach the API server", weight: 3, make: ofReplica(25), Required: []string{ArgReplica, ArgFor}},
	{Name: APIStatus, Scope: All, Sentence: "the API server refuses writes of managers with a status: 409, 422, 429, 500", weight: 4, make: apiRefusals, Required: []string{ArgCode, ArgFor}},
	{Name: EtcdPause, Scope: All, Sentence: "etcd stands still", weight: 2, make: during(10), Required: []string{ArgFor}},
	{Name: ManagerKill, Scope: All, Sentence: "a replica is killed, and another one starts later", weight: 5, make: ofReplica(5), Required: []string{ArgReplica, ArgFor}},
	{Name: ManagerPause, Scope: All, Sentence: "a replica is stopped by SIGSTOP, and goes on later", weight: 4, make: ofReplica(30), Required: []string{ArgReplica, ArgFor}},
	{Name: ManagerRoll, Scope: All, Sentence: "both replicas are replaced, one after the other, as by a rolling upgrade", weight: 2, make: nothing},
	{Name: ManagerCrash, Scope: All, Sentence: "the leader is killed right before or after the effect of its next write of a kind", weight: 8, make: crashes,
		Required: []string{ArgWrite, ArgSide}},
}
