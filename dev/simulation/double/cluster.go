package double

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
)

const (
	// heartbeat is how often a kubelet writes a status that has not changed, and nodeMonitorGrace when the node lifecycle controller calls a
	// silent kubelet unknown.
	heartbeat        = 5 * time.Minute
	nodeMonitorGrace = 50 * time.Second
	// boot is how long an instance takes until its kubelet reports, and flap how long a flapping one is silent and reports.
	boot = time.Minute
	flap = 40 * time.Second
	// beat is how often the annotation of a Service changes.
	beat = 5 * time.Second
	// readyzSeen is how long /readyz fails before a user changes something.
	readyzSeen = draw.ReadyzSeen
	// brokenRequests is how many requests of informers fail while /readyz does.
	brokenRequests = 4
)

// users are the kubelets, the users and the controllers of the cluster.
type users struct {
	world    *World
	client   *kubernetes.Clientset
	replicas []*managers.Replica
	// judged are the replicas of the manager that is judged.
	judged  []*managers.Replica
	actions []action
}

// action is something that happens at a time.
type action struct {
	at time.Duration
	do func(context.Context) error
}

// newUsers returns the users of a draw with the actions that it asks for.
func newUsers(w *World) (*users, error) {
	config := w.api.Config(user)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the users: %w", err)
	}
	u := &users{world: w, client: client}
	for i, node := range w.draw.Nodes {
		u.at(node.Joins, func(ctx context.Context) error { return u.join(ctx, i, node) })
		for at := node.Joins + heartbeat; at < draw.Disturbed+draw.LongestQuiet; at += heartbeat {
			u.at(at+time.Duration(i)*time.Second, func(ctx context.Context) error { return u.report(ctx, node.Name) })
		}
	}
	for _, service := range w.draw.Services {
		u.at(service.Created, func(ctx context.Context) error { return u.serve(ctx, service.Name) })
	}
	for _, event := range w.draw.Events {
		u.plan(event)
	}
	slices.SortStableFunc(u.actions, func(a, b action) int { return cmp.Compare(a.at, b.at) })
	return u, nil
}

func (u *users) at(at time.Duration, do func(context.Context) error) {
	u.actions = append(u.actions, action{at, do})
}

// until carries out what is due by a time.
func (u *users) until(ctx context.Context, end time.Duration) error {
	for len(u.actions) > 0 && u.actions[0].at <= end {
		next := u.actions[0]
		u.actions = u.actions[1:]
		if pause := next.at - u.world.now(); pause > 0 {
			time.Sleep(pause)
		}
		u.world.gate.wait("user at " + next.at.String())
		if err := next.do(ctx); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("at %s: %w", next.at, err)
		}
	}
	time.Sleep(end - u.world.now())
	u.world.gate.wait("clock at " + end.String())
	return nil
}

// plan adds the actions of a disturbance.
func (u *users) plan(event draw.Event) {
	name, end := event.Object, event.At+event.For
	switch event.Kind {
	case draw.Leave, draw.MassLeave:
		u.at(event.At, func(context.Context) error { return u.machine(name, true, true) })
		u.at(event.At+nodeMonitorGrace, func(ctx context.Context) error { return u.report(ctx, name) })
	case draw.Silent:
		u.at(event.At, func(context.Context) error { return u.machine(name, false, true) })
		u.at(event.At+nodeMonitorGrace, func(ctx context.Context) error { return u.report(ctx, name) })
		u.at(max(end, event.At+nodeMonitorGrace)+time.Minute, func(ctx context.Context) error {
			_ = u.machine(name, false, false) // it never fails
			return u.report(ctx, name)
		})
	case draw.TaintReturns:
		u.at(event.At, func(ctx context.Context) error {
			return u.taint(ctx, name, cloudproviderapi.TaintExternalCloudProvider)
		})
	case draw.ToBeDeleted:
		u.at(event.At, func(ctx context.Context) error { return u.taint(ctx, name, toBeDeleted) })
	case draw.Exclude:
		u.at(event.At, func(ctx context.Context) error { return u.label(ctx, name, corev1.LabelNodeExcludeBalancers, "") })
	case draw.HandLabel:
		u.at(event.At, func(ctx context.Context) error { return u.label(ctx, name, corev1.LabelTopologyZone, "by-hand") })
	case draw.Beat, draw.PortInBeat:
		for at := event.At; at < end+time.Minute; at += beat {
			u.at(at, func(ctx context.Context) error {
				return u.change(ctx, name, func(service *corev1.Service) { service.Annotations = map[string]string{"beat": at.String()} })
			})
		}
		if event.Kind == draw.PortInBeat {
			u.at(event.At+event.For/2, func(ctx context.Context) error { return u.port(ctx, name, event.Number) })
		}
	case draw.PortChange:
		u.at(event.At, func(ctx context.Context) error { return u.port(ctx, name, event.Number) })
	case draw.Bulk:
		u.planBulk(event)
	case draw.TypeChange:
		for at, kind := range map[time.Duration]corev1.ServiceType{event.At: corev1.ServiceTypeClusterIP, end: corev1.ServiceTypeLoadBalancer} {
			u.at(at, func(ctx context.Context) error {
				return u.change(ctx, name, func(service *corev1.Service) { service.Spec.Type = kind })
			})
		}
	case draw.Deleted:
		u.at(event.At, func(ctx context.Context) error {
			return u.client.CoreV1().Services(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{})
		})
	case draw.Replaced, draw.Renamed, draw.Flap, draw.LostLabels, draw.Busy:
		u.planNode(event)
	default:
		u.planFault(event)
	}
}

// planNode adds the actions of what happens to a node and its instance.
func (u *users) planNode(event draw.Event) {
	name, end := event.Object, event.At+event.For
	switch event.Kind {
	case draw.Replaced:
		u.at(event.At, func(context.Context) error { u.replace(name); return nil })
		u.at(event.At+nodeMonitorGrace, func(ctx context.Context) error { return u.report(ctx, name) })
		u.at(max(end, event.At+nodeMonitorGrace)+boot, func(ctx context.Context) error { return u.register(ctx, name) })
	case draw.Renamed:
		u.at(event.At, func(context.Context) error {
			u.world.mu.Lock()
			defer u.world.mu.Unlock()
			if machine := u.world.instances[name]; machine != nil {
				machine.renamed = true
			}
			return nil
		})
	case draw.Flap:
		for i := range 3 {
			for pause, silent := range map[time.Duration]bool{0: true, flap / 2: false} {
				u.at(event.At+time.Duration(i)*flap+pause, func(ctx context.Context) error {
					_ = u.machine(name, false, silent) // it never fails
					return u.report(ctx, name)
				})
			}
		}
	case draw.LostLabels:
		u.at(event.At, func(ctx context.Context) error {
			return u.edit(ctx, name, func(node *corev1.Node) {
				for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion} {
					delete(node.Labels, key)
				}
			})
		})
	case draw.Busy:
		for at := event.At; at < end; at += time.Second {
			u.at(at, func(ctx context.Context) error {
				return u.edit(ctx, name, func(node *corev1.Node) {
					if node.Annotations == nil {
						node.Annotations = map[string]string{}
					}
					node.Annotations["busy.example.com/at"] = at.String()
				})
			})
		}
	}
}

// planBulk adds what a user does with many Services: all get another port and some new ones come, and later the new ones go.
func (u *users) planBulk(event draw.Event) {
	var names []string
	for i := range event.Number {
		names = append(names, fmt.Sprintf("bulk-%d-%d", event.At/time.Second, i))
	}
	u.at(event.At, func(ctx context.Context) error {
		for _, name := range names {
			if err := u.serve(ctx, name); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		for _, service := range u.world.draw.Services {
			if err := u.port(ctx, service.Name, 9000+event.Number); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
	u.at(event.At+event.For, func(ctx context.Context) error {
		for _, name := range names {
			err := u.client.CoreV1().Services(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
}

// replace has another instance take a name. Its kubelet is silent until it has started.
func (u *users) replace(name string) {
	w := u.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if machine := w.instances[name]; machine != nil && !machine.deleted {
		machine.generation++
		machine.made, machine.silent = w.now(), true
	}
}

// register has the kubelet of an instance start: it uses the node that is there, or makes one.
func (u *users) register(ctx context.Context, name string) error {
	_ = u.machine(name, false, false) // it never fails
	u.world.mu.Lock()
	machine, state := u.world.instances[name], u.world.nodes[name]
	u.world.mu.Unlock()
	if machine == nil || machine.deleted || state != nil {
		return u.report(ctx, name)
	}
	index := slices.IndexFunc(u.world.draw.Nodes, func(node draw.Node) bool { return node.Name == name })
	return u.join(ctx, index, draw.Node{Name: name})
}

// planFault adds the actions of a fault of the API server or the manager.
func (u *users) planFault(event draw.Event) {
	switch event.Kind {
	case draw.ProxyAnswer, draw.Conflicts:
		u.at(event.At, func(ctx context.Context) error { return u.answerWrongly(ctx, event) })
	case draw.Timeouts:
		u.at(event.At, func(ctx context.Context) error { return u.answerWrongly(ctx, event) })
	case draw.SlowWatches:
		u.at(event.At, func(context.Context) error {
			u.world.mu.Lock()
			defer u.world.mu.Unlock()
			u.world.slow = event.At + event.For
			return nil
		})
	case draw.LeaseLost:
		u.at(event.At, u.takeLease)
	case draw.Exchange:
		u.at(event.At, u.exchange)
	case draw.CutWatches:
		u.at(event.At, func(context.Context) error { u.world.api.CutWatches(nil); return nil })
	case draw.NotReady:
		for at, code := range map[time.Duration]int{event.At: 500, event.At + event.For + time.Minute: 200} {
			u.at(at, func(context.Context) error { u.world.api.SetHealth("/readyz", code); return nil })
		}
		u.at(event.At+time.Second, func(context.Context) error { u.breakWatches(); return nil })
		u.at(event.At+readyzSeen, func(ctx context.Context) error { return u.port(ctx, u.world.draw.Services[0].Name, event.Number) })
	case draw.Crash, draw.Restart:
		u.at(event.At, func(context.Context) error { return u.endProcess(event.Kind) })
	}
}

// breakWatches ends all watches and has the next requests of informers fail, which is what makes a manager look at /readyz.
func (u *users) breakWatches() {
	u.world.mu.Lock()
	u.world.faults = append(u.world.faults, &apiFault{code: http.StatusInternalServerError, left: brokenRequests})
	u.world.mu.Unlock()
	u.world.api.CutWatches(nil)
}

// endProcess ends the process of the manager that works as drawn.
func (u *users) endProcess(kind draw.Disturbance) error {
	u.world.mu.Lock()
	last := u.world.active
	u.world.mu.Unlock()
	switch {
	case last == nil: // it has not called the plugin yet
	case kind == draw.Crash:
		last.Kill(errPlanned)
	default:
		u.world.plan()
		last.Terminate()
	}
	return nil
}

// plan says for a minute that a process ends as drawn, and may end its calls.
func (w *World) plan() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.planned = w.now() + time.Minute
}

// takeLease has another process take the lease of the manager. It never renews it.
func (u *users) takeLease(ctx context.Context) error {
	u.world.plan()
	leases := u.client.CoordinationV1().Leases(metav1.NamespaceSystem)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease, err := leases.Get(ctx, "cloud-controller-manager", metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To("another"), ptr.To(metav1.NewMicroTime(time.Now()))
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
}

// answerWrongly has requests about an object fail, and makes a write to it due.
func (u *users) answerWrongly(ctx context.Context, event draw.Event) error {
	fault := &apiFault{object: event.Object, skip: event.Skip, left: 1 + event.Number%2}
	switch event.Kind {
	case draw.ProxyAnswer:
		fault.code = event.Number
	case draw.Timeouts:
		fault.slow, fault.carriedOut, fault.left = true, event.Number == 1, 2
	default:
		fault.left = event.Number
	}
	u.world.mu.Lock()
	u.world.faults = append(u.world.faults, fault)
	_, isNode := u.world.nodes[event.Object]
	u.world.mu.Unlock()
	if isNode {
		return u.taint(ctx, event.Object, cloudproviderapi.TaintExternalCloudProvider)
	}
	return u.port(ctx, event.Object, 7000+event.Number)
}

// machine changes an instance and its kubelet.
func (u *users) machine(name string, deleted, silent bool) error {
	u.world.mu.Lock()
	defer u.world.mu.Unlock()
	if machine := u.world.instances[name]; machine != nil {
		if deleted && !machine.deleted {
			machine.deleted, machine.gone = true, u.world.now()
		}
		machine.silent = machine.deleted || silent
	}
	return nil
}

// join makes an instance and has its kubelet register.
func (u *users) join(ctx context.Context, index int, drawn draw.Node) error {
	network := fmt.Sprintf("10.0.%d.0/24", index)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: drawn.Name, Labels: map[string]string{corev1.LabelHostname: drawn.Name}},
		Spec:       corev1.NodeSpec{PodCIDR: network, PodCIDRs: []string{network}},
		Status:     corev1.NodeStatus{Conditions: conditions(true), Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: drawn.Name}}},
	}
	if u.world.draw.Plugin.Has(draw.OtherSpelling) && index%2 == 0 {
		spelled := []string{ProviderName + ":///zone/" + drawn.Name, strings.ToUpper(ProviderName) + "://zone/" + drawn.Name, "zone/" + drawn.Name}
		node.Spec.ProviderID = spelled[index/2%len(spelled)] // the kubelet's flag
	}
	if drawn.Taken {
		node.Spec.ProviderID = cmp.Or(node.Spec.ProviderID, providerID(drawn.Name, 0))
		node.Status.Addresses = addressesOf(drawn.Name, 0, false)
		node.Labels[corev1.LabelTopologyZone], node.Labels[corev1.LabelTopologyRegion] = "by-hand", "region"
		node.Labels[corev1.LabelInstanceTypeStable] = "small"
	} else {
		node.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	}
	u.world.mu.Lock()
	made := u.world.now()
	if made == 0 {
		made = -time.Hour // long before the manager
	}
	if u.world.instances[drawn.Name] == nil {
		u.world.instances[drawn.Name] = &instance{made: made}
	}
	u.world.nodes[drawn.Name] = &nodeState{eligible: -1}
	u.world.mu.Unlock()
	_, err := u.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}

// conditions are what a kubelet reports, or the node lifecycle controller for a silent one.
func conditions(ready bool) []corev1.NodeCondition {
	status := corev1.ConditionUnknown
	if ready {
		status = corev1.ConditionTrue
	}
	now := metav1.NewTime(time.Now())
	return []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: now, LastTransitionTime: now}}
}

// report writes whether a kubelet reports: the kubelet itself, or the node lifecycle controller.
func (u *users) report(ctx context.Context, name string) error {
	u.world.mu.Lock()
	machine := u.world.instances[name]
	u.world.mu.Unlock()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := u.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		next := conditions(machine != nil && !machine.silent)[0]
		for i, condition := range node.Status.Conditions {
			if condition.Type != corev1.NodeReady {
				continue
			}
			if condition.Status == next.Status {
				if next.Status != corev1.ConditionTrue {
					return nil
				}
				next.LastTransitionTime = condition.LastTransitionTime
			}
			if next.Status != corev1.ConditionTrue {
				next.LastHeartbeatTime = condition.LastHeartbeatTime
			}
			node.Status.Conditions[i] = next
		}
		_, err = u.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// edit changes a node as a user does.
func (u *users) edit(ctx context.Context, name string, change func(*corev1.Node)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := u.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(node)
		_, err = u.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

func (u *users) taint(ctx context.Context, name, key string) error {
	return u.edit(ctx, name, func(node *corev1.Node) {
		if !hasTaint(node, key) {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Value: "true", Effect: corev1.TaintEffectNoSchedule})
		}
	})
}

func (u *users) label(ctx context.Context, name, key, value string) error {
	return u.edit(ctx, name, func(node *corev1.Node) {
		set(&node.Labels, "")
		delete(node.Labels, mark)
		node.Labels[key] = value
	})
}

// serve makes a Service.
func (u *users) serve(ctx context.Context, name string) error {
	_, err := u.client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	return err
}

// change changes a Service as a user does.
func (u *users) change(ctx context.Context, name string, change func(*corev1.Service)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		service, err := u.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(service)
		_, err = u.client.CoreV1().Services(metav1.NamespaceDefault).Update(ctx, service, metav1.UpdateOptions{})
		return err
	})
}

func (u *users) port(ctx context.Context, name string, port int) error {
	return u.change(ctx, name, func(service *corev1.Service) { service.Spec.Ports[0].Port = int32(port) })
}
