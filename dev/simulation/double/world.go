package double

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/mooring-ccm/mooring/dev/simulation/apiserver"
	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
	"github.com/mooring-ccm/mooring/internal/names"
)

// manager is the manager's identity towards the API server. Every other client uses user.
const (
	manager = "manager"
	user    = "user"
)

// World is what surrounds one manager. Create it in the bubble of the manager.
type World struct {
	draw  draw.Draw
	start time.Time
	gate  *gate
	api   *apiserver.Server
	// calm is closed at the end of the disturbances.
	calm chan struct{}

	mu        sync.Mutex
	record    Record
	instances map[string]*instance
	balancers map[string]*balancer
	routes    map[string]*route
	nodes     map[string]*nodeState
	services  map[string]*corev1.Service
	// asked counts the calls of each method and object, process the processes.
	asked   map[string]int
	process int
	next    time.Duration // when the plugin's limiter lets the next call go
	running []*Call
	// judged is the manager that the record is about, current the one that runs: another one around an exchange. active is the process that made the
	// last call.
	judged, current *managers.Manager
	active          *managers.Incarnation
	// slow is until when watches deliver events late.
	slow time.Duration
	// seen has the call that an argument was given to, by its address.
	seen   map[any]*Call
	faults []*apiFault
	// planned is until when a process ends as drawn.
	planned time.Duration
}

// instance is a machine of the cloud.
type instance struct {
	deleted bool
	silent  bool
	renamed bool
	// generation counts the instances that had the name before. made is when this one was made, and gone when it was deleted.
	generation int
	made, gone time.Duration
}

// balancer is the load balancer of a Service.
type balancer struct {
	address string
	made    time.Duration
	gone    time.Duration // when its deletion takes effect, zero while it is not deleted
}

// route is a route of the cloud.
type route struct {
	route   cloudprovider.Route
	made    time.Duration
	deleted time.Duration // zero while it exists
	// shown says that a list or a successful creation has shown it to the manager that is judged.
	shown bool
}

// nodeState is a node of the API server and what happened to it.
type nodeState struct {
	node *corev1.Node
	// initialized says that the node was initialized once, networked that its network was once available. eligible is since when the reference would have it as a target, negative if not.
	initialized, networked bool
	eligible               time.Duration
}

// New returns a world for a manager.
func New(d draw.Draw, judged *managers.Manager) *World {
	w := &World{
		judged: judged, draw: d, start: time.Now(), gate: newGate(d.Seed), calm: make(chan struct{}),
		instances: map[string]*instance{}, balancers: map[string]*balancer{}, routes: map[string]*route{},
		nodes: map[string]*nodeState{}, services: map[string]*corev1.Service{}, asked: map[string]int{}, seen: map[any]*Call{},
		record: Record{
			Manager: judged.Name, Initialized: map[string]time.Duration{}, Removed: map[string]time.Duration{}, Created: map[string]int{},
			Nodes: map[string]*corev1.Node{}, Services: map[string]*corev1.Service{}, History: History{Refused: map[string][]time.Duration{}},
		},
	}
	w.api = apiserver.New(apiserver.Options{Seed: d.Seed, CompactAfter: -1, DrawWatches: true, Intercept: w.answer, Deliver: w.deliver, Answered: w.answered, Audit: w.audit})
	return w
}

// now is the time since the start of the simulation.
func (w *World) now() time.Duration { return time.Since(w.start) }

// fault records what a rule forbids. What another manager does around an exchange counts only where a load balancer suffers. The lock is held.
func (w *World) fault(rule, object, format string, values ...any) {
	if w.current != w.judged && !strings.HasPrefix(rule, "5") {
		return
	}
	w.record.Faults = append(w.record.Faults, Fault{Rule: rule, Object: object, At: w.now(), Text: fmt.Sprintf(format, values...)})
}

// provider returns the plugin of a new process of a manager.
func (w *World) provider(program *managers.Manager, process *managers.Incarnation) cloudprovider.Interface {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.process++
	w.record.Starts = append(w.record.Starts, w.now())
	one := &plugin{world: w, process: process, number: w.process, other: program != w.judged, began: -1}
	if w.draw.Plugin.Has(draw.Declaring) {
		return declaring{one}
	}
	return one
}

// target reports whether the reference would have a node as a target of load balancers.
func target(node *corev1.Node) bool {
	if _, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]; excluded || node.DeletionTimestamp != nil {
		return false
	}
	return !hasTaint(node, toBeDeleted)
}

// toBeDeleted is the taint of the Cluster Autoscaler.
const toBeDeleted = names.TaintToBeDeleted

func hasTaint(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}

func uninitialized(node *corev1.Node) bool {
	return hasTaint(node, cloudproviderapi.TaintExternalCloudProvider)
}

// live reports whether a Service wants a load balancer.
func live(service *corev1.Service) bool {
	return service != nil && service.DeletionTimestamp == nil && service.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// finalized reports whether a Service has the finalizer of load balancers.
func finalized(service *corev1.Service) bool { return servicehelpers.HasLBFinalizer(service) }
