package rack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/bench/environment"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/netlab"
	"github.com/mooring-ccm/mooring/dev/program"
)

// creators is how many Services are created at the same time.
const creators = 8

// Run is a system at work, with a control plane of its own.
type Run struct {
	// System is which.
	System System

	rack    *Rack
	setup   Setup
	dir     string
	cluster *harness.Cluster
	// members are the containers of the system. The first leads.
	members []*member
	// services is how many there are.
	services int
}

// Setup is what a system does that it does not by default.
type Setup struct {
	// Probes is how often Mooring probes nodes. Zero: as by default.
	Probes time.Duration
	// Layer2 has the system answer for addresses on the segment, and announce nothing to the router.
	Layer2 bool
}

// Start starts a control plane with a node for each machine, and a system. It returns when a first Service has its routes, or is answered for.
func (r *Rack) Start(ctx context.Context, system System, setup Setup) (*Run, error) {
	run := &Run{System: system, rack: r, setup: setup}
	if err := run.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", system, err), run.Close(context.WithoutCancel(ctx)))
	}
	return run, nil
}

func (r *Run) start(ctx context.Context) (err error) {
	if r.dir, err = r.rack.folder(string(r.System)); err != nil {
		return err
	}
	r.cluster, err = harness.Open(ctx, localcluster.Options{
		Binaries: r.rack.options.Binaries, Dir: r.dir + "-control-plane", BindAddress: controlPlane.Addr(), Audit: auditv1.LevelMetadata,
	})
	if err != nil {
		return err
	}
	for _, m := range r.rack.machines {
		if err := r.register(ctx, m); err != nil {
			return fmt.Errorf("register node %s: %w", m.name, err)
		}
	}
	if r.members, err = r.install(ctx); err != nil {
		return err
	}
	for i, m := range r.members {
		if err := m.start(); err != nil {
			return err
		}
		if i > 0 || r.System != Mooring {
			continue
		}
		leads := func(ctx context.Context) error { return r.cluster.Led(ctx) }
		if err := program.Await(ctx, "the first replica leads", []*program.Program{m.running}, leads); err != nil {
			return err
		}
	}
	if r.setup.Layer2 {
		err = r.create(ctx, serviceName(0))
	} else {
		_, _, err = r.Create(ctx, 1)
	}
	if err != nil {
		return err
	}
	return r.Settle(ctx, 0)
}

// register writes the Node of a machine as a kubelet would that is ready.
func (r *Run) register(ctx context.Context, m *machine) error {
	nodes := r.cluster.Client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.name, Labels: map[string]string{corev1.LabelHostname: m.name}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	now := metav1.Now()
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: m.addr.String()}, {Type: corev1.NodeHostName, Address: m.name}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now}}
	_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

// Create creates so many Services, with endpoints on every machine, and waits until the router's kernel has a route to each. It returns the time
// from the first creation until then, and from the last creation on.
func (r *Run) Create(ctx context.Context, count int) (all, lag time.Duration, err error) {
	began, created := time.Now(), make(chan time.Time, 1)
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(creators + 1)
	last := r.services + count
	group.Go(func() error {
		workers, ctx := errgroup.WithContext(creating)
		workers.SetLimit(creators)
		for i := r.services; i < last; i++ {
			workers.Go(func() error { return r.create(ctx, serviceName(i)) })
		}
		err := workers.Wait()
		created <- time.Now()
		return err
	})
	var complete time.Time
	group.Go(func() error {
		return r.rack.follow(creating, r.programs(), func(table Table, at time.Time) bool {
			complete = at
			return len(table) >= last
		})
	})
	if err := group.Wait(); err != nil {
		return 0, 0, fmt.Errorf("%d Services get routes: %w", count, err)
	}
	r.services = last
	return complete.Sub(began), complete.Sub(<-created), nil
}

func serviceName(number int) string { return fmt.Sprintf("service-%d", number) }

// create creates a Service, and the endpoints that kube-controller-manager would write.
func (r *Run) create(ctx context.Context, name string) error {
	_, err := r.cluster.Client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: ptr.To(false),
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	for i, m := range r.rack.machines {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.244.%d.10", i+1)}, NodeName: &m.name, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	_, err = r.cluster.Client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(ctx, slice, metav1.CreateOptions{})
	return err
}

// programs are the processes that run.
func (r *Run) programs() []*program.Program {
	var running []*program.Program
	for _, m := range r.members {
		if m.running != nil && m.running.State() == nil {
			running = append(running, m.running)
		}
	}
	return running
}

// complete reports whether every machine is a next hop of every Service.
func (r *Run) complete(table Table) bool {
	for _, hops := range table {
		if len(hops) < machines {
			return false
		}
	}
	return len(table) >= r.services
}

// Settle waits until every machine is a next hop of every Service, and has been for a while. On layer 2 it waits until the first one is answered for.
func (r *Run) Settle(ctx context.Context, quiet time.Duration) error {
	if r.setup.Layer2 {
		addr, err := r.address(ctx)
		if err == nil {
			_, err = r.answering(ctx, addr, nil)
		}
		return errors.Join(err, r.Pause(ctx, quiet))
	}
	var since time.Time
	err := r.rack.follow(ctx, r.programs(), func(table Table, at time.Time) bool {
		switch {
		case !r.complete(table):
			since = time.Time{}
			return false
		case since.IsZero():
			since = at
		}
		return at.Sub(since) >= quiet
	})
	if err != nil {
		return fmt.Errorf("every machine is a next hop of each of %d Services: %w", r.services, err)
	}
	return nil
}

// CreateAfterCrash kills what leads, creates a Service at once, and returns the time until the router's kernel has a route to it. What was
// killed starts again as a container does.
func (r *Run) CreateAfterCrash(ctx context.Context) (time.Duration, error) {
	leader := r.members[0]
	if err := leader.kill(); err != nil {
		return 0, err
	}
	if r.System == Mooring { // the other replica leads from now on
		r.members = append(r.members[1:], leader)
	}
	group, both := errgroup.WithContext(ctx)
	group.Go(func() error { return r.restart(both, leader) })
	took, _, err := r.Create(both, 1)
	return took, errors.Join(err, group.Wait())
}

// kill kills a member, and keeps what processor time it has used.
func (m *member) kill() error {
	m.spent = m.cpu()
	err := m.running.Kill()
	m.running = nil
	return err
}

// KillAll kills every program at once. All start again as containers do. It returns for how long the router's kernel had no route to
// the first Service, within the time until all routes are back and stay for a while.
func (r *Run) KillAll(ctx context.Context, quiet time.Duration) (time.Duration, error) {
	for _, m := range r.members {
		if err := m.running.Signal(syscall.SIGKILL); err != nil {
			return 0, err
		}
	}
	for _, m := range r.members {
		if err := m.kill(); err != nil {
			return 0, err
		}
	}
	var outage time.Duration
	var without, since time.Time
	group, both := errgroup.WithContext(ctx)
	group.Go(func() error { return r.restart(both, r.members...) })
	group.Go(func() error {
		lost := false // routes stay for a moment: a table that was never incomplete says nothing
		began := time.Now()
		return r.rack.follow(both, nil, func(table Table, at time.Time) bool {
			switch {
			case len(table) < r.services && without.IsZero():
				without, lost = at, true
			case len(table) >= r.services && !without.IsZero():
				outage, without = outage+at.Sub(without), time.Time{}
			}
			if !r.complete(table) || !lost && at.Sub(began) < quiet {
				since = time.Time{}
				return false
			}
			if since.IsZero() {
				since = at
			}
			return at.Sub(since) >= quiet
		})
	})
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("all routes come back: %w", err)
	}
	return outage, nil
}

// Death takes the last machine off the network, and returns the time until it is the next hop of no route.
func (r *Run) Death(ctx context.Context) (time.Duration, error) {
	return r.link(ctx, r.rack.segment.Cut, func(hops []netip.Addr, dead netip.Addr) bool { return !slices.Contains(hops, dead) })
}

// Return gives the last machine its network again, and returns the time until it is a next hop of every route.
func (r *Run) Return(ctx context.Context) (time.Duration, error) {
	return r.link(ctx, r.rack.segment.Join, func(hops []netip.Addr, back netip.Addr) bool { return slices.Contains(hops, back) })
}

// link changes the network of the last machine, and returns the time until the next hops of every route are as wanted.
func (r *Run) link(ctx context.Context, change func(context.Context, *netlab.Host) error, wanted func([]netip.Addr, netip.Addr) bool) (time.Duration, error) {
	last := r.rack.machines[machines-1]
	began := time.Now()
	if err := change(ctx, last.host); err != nil {
		return 0, err
	}
	var complete time.Time
	err := r.rack.follow(ctx, r.programs(), func(table Table, at time.Time) bool {
		complete = at
		for _, hops := range table {
			if !wanted(hops, last.addr) {
				return false
			}
		}
		return len(table) >= r.services
	})
	return complete.Sub(began), err
}

// Pause lets time pass.
func (r *Run) Pause(ctx context.Context, d time.Duration) error {
	began := time.Now()
	return r.rack.follow(ctx, r.programs(), func(_ Table, at time.Time) bool { return at.Sub(began) >= d })
}

// Use is what a system used over some time.
type Use struct {
	// CPUSeconds is the processor time of all its programs.
	CPUSeconds float64
	// Writes are those to the API server, and LeaseWrites those of leases, which are no part of them.
	Writes, LeaseWrites int
}

// Measure returns what a system uses while something is done.
func (r *Run) Measure(ctx context.Context, something func() error) (Use, error) {
	before, err := r.cluster.Mark(ctx)
	if err != nil {
		return Use{}, err
	}
	cpu := r.cpu()
	if err := something(); err != nil {
		return Use{}, err
	}
	use := Use{CPUSeconds: r.cpu() - cpu}
	events, err := r.cluster.AuditEvents(ctx)
	if err != nil {
		return Use{}, fmt.Errorf("what %s wrote: %w", r.System, err)
	}
	for _, event := range events[before:] {
		switch {
		case !localcluster.IsWrite(event) || !slices.Contains(r.System.users(), event.User.Username):
		case event.ObjectRef != nil && event.ObjectRef.Resource == "leases":
			use.LeaseWrites++
		default:
			use.Writes++
		}
	}
	return use, nil
}

// Memory returns what all programs that run have resident, in MiB.
func (r *Run) Memory() (mib float64, err error) {
	for _, p := range r.programs() {
		resident, err := environment.Resident(p.PID())
		if err != nil {
			return 0, fmt.Errorf("read the memory of %s: %w", r.System, err)
		}
		mib += float64(resident) / (1 << 20)
	}
	return mib, nil
}

// cpu returns the processor time of all programs so far.
func (r *Run) cpu() (seconds float64) {
	for _, m := range r.members {
		seconds += m.cpu()
	}
	return seconds
}

func (m *member) cpu() float64 {
	if m.running == nil {
		return m.spent
	}
	// One that ends at this moment is noticed by follow.
	now, _ := environment.CPUSeconds(m.running.PID())
	return m.spent + now
}

// Close ends the programs and the control plane, and waits until the router has forgotten all routes.
func (r *Run) Close(ctx context.Context) error {
	var errs []error
	for _, m := range r.members {
		if m.running != nil {
			errs = append(errs, m.running.Stop(ctx, stopGrace))
		}
	}
	if r.cluster != nil {
		errs = append(errs, r.cluster.Stop(ctx))
	}
	gone := func(table Table, _ time.Time) bool { return len(table) == 0 }
	return errors.Join(append(errs, r.rack.follow(ctx, nil, gone))...)
}
