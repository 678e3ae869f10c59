package runner

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mooring-ccm/mooring/dev/chaos/model"
	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// workers is how many objects of a mass event are changed at once.
const workers = 32

// carryOut carries an operation out, and returns when it is over.
func (r *run) carryOut(ctx context.Context, o schedule.Operation) {
	if o.Scope() != schedule.Workload {
		object := ""
		if o.Args[schedule.ArgObject] != "" {
			object = "service " + o.Args[schedule.ArgObject]
		}
		ends := r.checker.FaultBegins(o, object)
		defer func() { ends(r.now()) }()
	}
	var err error
	switch o.Verb {
	case schedule.CloudAsync:
		err = r.env.record.service.AddFault(api.Fault{
			Operation: api.OpCreateLoadBalancer, Mode: api.FaultAsync, Count: o.Number(schedule.ArgCount),
		})
	case schedule.APIDown, schedule.EtcdPause:
		err = r.outage(ctx, o)
	case schedule.APICut, schedule.APIBlock, schedule.ManagerKill, schedule.ManagerPause, schedule.ManagerRoll, schedule.ManagerCrash:
		err = r.disturbReplica(ctx, o)
	default:
		if o.Scope() == schedule.Workload {
			err = r.changeFixture(ctx, o)
			break
		}
		end := r.env.faults.begin(o)
		err = r.env.faults.publish()
		r.last(ctx, o)
		end()
		err = errors.Join(err, r.env.faults.publish())
	}
	r.fail(ctx, o, err)
}

// last waits for as long as an operation lasts.
func (r *run) last(ctx context.Context, o schedule.Operation) {
	select {
	case <-ctx.Done():
	case <-time.After(o.For()):
	}
}

// outage stops the API server or etcd for a while.
func (r *run) outage(ctx context.Context, o schedule.Operation) error {
	r.exclusive.Lock()
	defer r.exclusive.Unlock()
	if o.Verb == schedule.EtcdPause {
		err := r.env.cluster.PauseEtcd()
		r.last(ctx, o)
		return errors.Join(err, r.env.cluster.ResumeEtcd())
	}
	err := r.env.cluster.StopAPIServer(ctx)
	r.last(ctx, o)
	return errors.Join(err, r.env.cluster.StartAPIServer(context.WithoutCancel(ctx)))
}

// chosen returns the replica that leads, or the other one.
func (r *run) chosen(which string) *replica {
	leader := slices.IndexFunc(r.replicas, func(one *replica) bool { return one.name == r.checker.Leader() })
	if which == schedule.Leader {
		return r.replicas[max(leader, 0)]
	}
	return r.replicas[1-max(leader, 0)]
}

func (r *run) leader() *replica { return r.chosen(schedule.Leader) }

// disturbReplica does something to a process or its connections.
func (r *run) disturbReplica(ctx context.Context, o schedule.Operation) error {
	one := r.chosen(o.Args[schedule.ArgReplica])
	switch o.Verb {
	case schedule.APICut:
		one.api.Cut()
	case schedule.APIBlock:
		one.api.Block(true)
		r.last(ctx, o)
		one.api.Block(false)
	case schedule.ManagerKill:
		err := one.end(ctx, syscall.SIGKILL)
		r.last(ctx, o)
		return errors.Join(err, one.start())
	case schedule.ManagerPause:
		r.checker.Paused(one.name)
		err := one.signal(syscall.SIGSTOP)
		r.last(ctx, o)
		r.checker.Resumed(r.now(), one.name)
		return errors.Join(err, one.signal(syscall.SIGCONT))
	case schedule.ManagerRoll:
		for _, one := range r.replicas {
			if err := errors.Join(one.end(ctx, syscall.SIGTERM), one.start()); err != nil {
				return err
			}
		}
	case schedule.ManagerCrash:
		r.leader().arm(o.Args[schedule.ArgWrite], o.Args[schedule.ArgSide])
	}
	return nil
}

// each does something for all names of an operation.
func each(ctx context.Context, o schedule.Operation, do func(ctx context.Context, name string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for _, name := range o.Names() {
		group.Go(func() error { return do(ctx, name) })
	}
	return group.Wait()
}

// changeFixture does what users, machines and kubelets do.
func (r *run) changeFixture(ctx context.Context, o schedule.Operation) error {
	switch o.Verb {
	case schedule.NodesJoin:
		return each(ctx, o, r.fixture.join)
	case schedule.NodesDrop:
		return each(ctx, o, r.fixture.drop)
	case schedule.BalancerTamper:
		return each(ctx, o, r.tamperBalancer)
	case schedule.BalancersLose:
		return each(ctx, o, r.loseBalancer)
	case schedule.NodesRelabel:
		return each(ctx, o, r.fixture.relabel)
	case schedule.RoutesTamper:
		return each(ctx, o, r.tamperRoute)
	}
	if change := machineChange(o.Verb); change != nil {
		return r.there(ctx, o, func(ctx context.Context, name string, back bool) error {
			return r.fixture.change(ctx, name, func(m *machine) { change(m, step(back)) })
		})
	}
	change := serviceChange(o.Verb)
	return r.there(ctx, o, func(ctx context.Context, name string, back bool) error {
		return r.fixture.serve(ctx, name, func(s *wish) { change(s, step(back)) })
	})
}

func step(back bool) int {
	if back {
		return -1
	}
	return 1
}

// there makes a change of objects and, if the operation lasts, takes it back.
func (r *run) there(ctx context.Context, o schedule.Operation, change func(ctx context.Context, name string, back bool) error) error {
	err := each(ctx, o, func(ctx context.Context, name string) error { return change(ctx, name, false) })
	if o.For() == 0 || err != nil {
		return err
	}
	r.last(ctx, o)
	return each(ctx, o, func(ctx context.Context, name string) error { return change(ctx, name, true) })
}

// machineChange returns how a verb changes a machine; nil if it changes none.
func machineChange(verb string) func(m *machine, by int) {
	switch verb {
	case schedule.NodesLeave:
		return func(m *machine, _ int) { m.gone = true }
	case schedule.NodesStop:
		return func(m *machine, by int) { m.stopped += by }
	case schedule.NodesSilence:
		return func(m *machine, by int) { m.silent += by }
	case schedule.NodesUnready:
		return func(m *machine, by int) { m.unready += by }
	case schedule.NodesExclude:
		return func(m *machine, by int) { m.excluded += by }
	case schedule.NodesResize:
		return func(m *machine, _ int) { m.large = !m.large }
	case schedule.NodesMove:
		return func(m *machine, _ int) { m.moves++ }
	default:
		return nil
	}
}

// serviceChange returns how a verb changes a Service.
func serviceChange(verb string) func(s *wish, by int) {
	switch verb {
	case schedule.ServicesDelete:
		return func(s *wish, _ int) { s.gone = true }
	case schedule.ServicesChange:
		return func(s *wish, _ int) { s.port++ }
	case schedule.ServicesDemote:
		return func(s *wish, by int) { s.demoted += by }
	default: // schedule.ServicesCreate: to be there is what a Service is made for
		return func(*wish, int) {}
	}
}

// tamperBalancer removes a target of a Service's load balancer.
func (r *run) tamperBalancer(ctx context.Context, service string) error {
	for _, balancer := range r.env.record.service.LoadBalancers() {
		if len(balancer.Targets) == 0 || r.env.faults.serviceOf(balancer.Name) != service {
			continue
		}
		_, err := r.env.cloud.ChangeTargets(ctx, balancer.Name, api.TargetsChange{Remove: balancer.Targets[:1]})
		return ignore(err, http.StatusNotFound, http.StatusConflict)
	}
	return nil
}

// loseBalancer deletes a Service's load balancer, and changes the Service, which has another made at once: without a change managers wait for
// ten minutes of denials. What takes its place has another address.
func (r *run) loseBalancer(ctx context.Context, service string) error {
	for _, balancer := range r.env.record.service.LoadBalancers() {
		if r.env.faults.serviceOf(balancer.Name) != service {
			continue
		}
		r.checker.Disturbs(r.now(), balancer.Tags[sim.TagServiceUID])
		if err := ignore(r.env.cloud.DeleteLoadBalancer(ctx, balancer.Name, 0), http.StatusNotFound, http.StatusConflict); err != nil {
			return err
		}
		return r.fixture.annotate(ctx, service, r.now())
	}
	return nil
}

// tamperRoute removes the routes of a node.
func (r *run) tamperRoute(ctx context.Context, node string) error {
	var found []string
	cidr := r.fixture.cidr(node)
	err := r.env.cloud.ListRoutes(ctx, clusterName, func(page []api.Route) error {
		for _, route := range page {
			if route.DestinationCIDR == cidr && cidr != "" && !model.Foreign(route.TargetName) {
				found = append(found, route.ID)
			}
		}
		return nil
	})
	for _, id := range found {
		err = errors.Join(err, ignore(r.env.cloud.DeleteRoute(ctx, id), http.StatusNotFound))
	}
	return err
}

// ignore returns an error unless it is a refusal with one of the statuses: then another client was faster.
func ignore(err error, statuses ...int) error {
	var refused *api.Error
	if errors.As(err, &refused) && slices.Contains(statuses, refused.Status) {
		return nil
	}
	return err
}
