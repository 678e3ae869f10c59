package double

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
)

// errPlanned is the end of a process that the draw asks for.
var errPlanned = errors.New("killed as drawn")

const (
	// poll is how often the quiet time is looked at, and stopGrace how long a process may take to end.
	poll      = 30 * time.Second
	stopGrace = 30 * time.Second
	// exchangeTakes is how long no manager runs between two.
	exchangeTakes = 10 * time.Second
)

// Simulate runs a manager in the world of a draw, within a bubble of testing/synctest. It returns what became of it.
func Simulate(ctx context.Context, d draw.Draw, program *managers.Manager) (Record, error) {
	w := New(d, program)
	u, err := newUsers(w)
	if err != nil {
		return Record{}, err
	}
	go w.gate.run()
	if err := u.until(ctx, 0); err != nil {
		return Record{}, err
	}
	u.run(ctx, w.first())
	err = u.until(ctx, draw.Disturbed)
	close(w.calm)
	if err == nil && program == managers.Reference { // it has no memory of the disturbances when it is compared
		err = u.endProcess(draw.Restart)
	}
	for err == nil {
		err = u.until(ctx, w.now()+poll)
		if open := w.sample(); len(open) == 0 && w.now() >= draw.Disturbed+draw.ShortestQuiet || w.now() >= draw.Disturbed+draw.LongestQuiet {
			break
		}
	}
	record := w.finish(u.judged)
	for _, replica := range u.replicas {
		replica.Retire()
	}
	for _, replica := range u.replicas {
		err = errors.Join(err, replica.Stop(stopGrace))
	}
	w.gate.close()
	if err != nil {
		return Record{}, fmt.Errorf("simulate %s: %w", program.Name, err)
	}
	return record, nil
}

// first is the manager that runs first: the reference is compared alone.
func (w *World) first() *managers.Manager {
	if w.draw.OtherFirst && w.draw.Has(draw.Exchange) {
		return w.successor(w.judged)
	}
	return w.judged
}

// successor is the manager that takes the place of another. The reference follows itself where it is compared.
func (w *World) successor(before *managers.Manager) *managers.Manager {
	if before == w.judged {
		return managers.Reference
	}
	return w.judged
}

// run starts a manager, two replicas of it if they elect a leader.
func (u *users) run(ctx context.Context, program *managers.Manager) {
	w := u.world
	w.mu.Lock()
	w.current = program
	w.mu.Unlock()
	flags, count := []string{"--allocate-node-cidrs=true", "--cluster-cidr=10.0.0.0/16"}, 1
	if w.draw.Election {
		flags, count = append(flags, "--leader-elect=true"), 2
	}
	for range count {
		replica := managers.Run(ctx, program, managers.Settings{
			Flags: flags, Transport: w.Transport(),
			Plugin: func(process *managers.Incarnation) cloudprovider.Interface { return w.provider(program, process) },
		})
		if u.replicas = append(u.replicas, replica); program == w.judged {
			u.judged = append(u.judged, replica)
		}
	}
}

// exchange has the other manager take the place of this one.
func (u *users) exchange(ctx context.Context) error {
	u.world.plan()
	for _, replica := range u.replicas {
		replica.Retire()
	}
	time.Sleep(exchangeTakes)
	u.world.mu.Lock()
	next := u.world.successor(u.world.current)
	u.world.mu.Unlock()
	u.run(ctx, next)
	return nil
}

// finish completes the record.
func (w *World) finish(replicas []*managers.Replica) Record {
	open := w.open()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record.Open, w.record.Length = open, w.now()
	if len(open) == 0 {
		w.record.Settled = w.now()
	}
	for name, state := range w.nodes {
		w.record.Nodes[name] = state.node
	}
	maps.Copy(w.record.Services, w.services)
	for _, replica := range replicas {
		for _, process := range replica.Incarnations() {
			if process.Asked() {
				continue // it may say that calls hang
			}
			if err := process.Err(); err != nil && !errors.Is(err, errPlanned) && !errors.Is(err, managers.ErrKilled) {
				w.record.Ends = append(w.record.Ends, err.Error())
			}
		}
	}
	record := w.record
	record.Calls = nil
	for _, call := range w.record.Calls {
		copied := *call
		record.Calls = append(record.Calls, &copied)
	}
	record.Writes, record.Faults = slices.Clone(record.Writes), slices.Clone(record.Faults)
	record.Removed, record.Created = maps.Clone(record.Removed), maps.Clone(record.Created)
	record.Initialized = maps.Clone(record.Initialized)
	return record
}

// open returns what is missing to the settled state.
func (w *World) open() []Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	var open []Fault
	add := func(object, format string, values ...any) {
		rule := "13"
		if machine := w.instances[object]; machine != nil && machine.deleted {
			rule = "13-gone"
		}
		fault := Fault{Rule: rule, Object: object, At: w.now(), Text: fmt.Sprintf(format, values...), Refreshed: format == otherAddresses}
		for _, value := range values {
			if targets, are := value.([]string); are {
				fault.Targets = targets
			}
		}
		open = append(open, fault)
	}
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		w.openNode(name, w.nodes[name], func(format string, values ...any) { add(name, format, values...) })
	}
	for _, name := range slices.Sorted(maps.Keys(w.services)) {
		w.openService(name, func(format string, values ...any) { add(name, format, values...) })
	}
	for _, name := range slices.Sorted(maps.Keys(w.balancers)) {
		if w.services[name] == nil && w.balancers[name].gone == 0 {
			add(name, "the load balancer of a deleted Service was left behind")
		}
	}
	return open
}

// otherAddresses is what a node lacks whose addresses the cloud has changed.
const otherAddresses = "the node has addresses %v"

// openNode adds what a node still lacks. The lock is held.
func (w *World) openNode(name string, state *nodeState, add func(string, ...any)) {
	machine := w.instances[name]
	switch {
	case machine == nil || state.node == nil:
	case generation(state.node.Spec.ProviderID) < machine.generation && ready(state.node):
		// A kubelet reports for the node of an instance that is gone, and no manager looks.
	case machine.deleted:
		add("the node of a deleted instance is still there")
	case uninitialized(state.node) && machine.renamed && state.node.Spec.ProviderID == "":
		// The cloud knows no instance of this name.
	case uninitialized(state.node):
		add("the node is not initialized")
	case state.node.Spec.ProviderID == "":
		add("the node has no provider ID")
	case hasTaint(state.node, "node.cloudprovider.kubernetes.io/shutdown") && ready(state.node):
		add("the node has the shutdown taint and is Ready")
	case w.routeOf(name, 0) == nil:
		add("the node has no route")
	case unroutable(state.node):
		add("the node has a route and is told that it has none")
	case !sameAddresses(state.node, machine):
		add(otherAddresses, state.node.Status.Addresses)
	}
}

// openService adds what a Service still lacks. The lock is held.
func (w *World) openService(name string, add func(string, ...any)) {
	service, one := w.services[name], w.balancers[name]
	switch {
	case !live(service):
		if finalized(service) {
			add("the Service is being deleted and keeps its finalizer")
		}
		return
	case one == nil:
		add("the Service has no load balancer")
		return
	case len(service.Status.LoadBalancer.Ingress) == 0 || service.Status.LoadBalancer.Ingress[0].IP != one.address:
		add("the Service has status %v and its load balancer address %s", service.Status.LoadBalancer.Ingress, one.address)
		return
	}
	var last, ensured *Call
	for _, call := range w.record.Calls {
		if call.Object != name || call.Err != nil || call.Ended < 0 {
			continue
		}
		switch call.Method {
		case "EnsureLoadBalancer":
			last, ensured = call, call
		case "UpdateLoadBalancer":
			last = call
		}
	}
	if last == nil || ensured == nil {
		add("no call about the load balancer has succeeded")
		return
	}
	if want := service.Spec.Ports[0].Port; ensured.Port != want {
		add("the load balancer has port %d, and the Service %d", ensured.Port, want)
	}
	if missing := w.missing(last.Targets); len(missing) > 0 {
		add("the load balancer lacks the targets %v", missing)
	}
	for _, target := range last.Targets {
		if state := w.nodes[target]; state == nil || !targetOrMarked(state) {
			add("the load balancer has the targets %v, which are deleted or excluded", []string{target})
		}
	}
}

// targetOrMarked reports whether a node may be a target: the autoscaler's taint is no reason to write.
func targetOrMarked(state *nodeState) bool {
	return state.node != nil && (target(state.node) || hasTaint(state.node, toBeDeleted))
}

// sameAddresses reports whether a node has the addresses of its instance, in whatever order.
func sameAddresses(node *corev1.Node, machine *instance) bool {
	spell := func(addresses []corev1.NodeAddress) []string {
		var spelled []string
		for _, one := range addresses {
			spelled = append(spelled, string(one.Type)+" "+one.Address)
		}
		sort.Strings(spelled)
		return spelled
	}
	return slices.Equal(spell(node.Status.Addresses), spell(addressesOf(node.Name, machine.generation, machine.renamed)))
}
