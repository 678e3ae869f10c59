package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-ccm/mooring/dev/chaos/model"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// retryPause is between two tries of the fixture to do what it has to do, for example while the API server is away.
const retryPause = 300 * time.Millisecond

// fixture is what users, machines and kubelets do: each object has a wish, which is carried out until it is so.
type fixture struct {
	env *environment

	mu       sync.Mutex
	machines map[string]*machine
	wishes   map[string]*wish
	next     int
}

// machine is an instance with its kubelet, as it shall be.
type machine struct {
	mu   sync.Mutex
	name string
	id   string // of the instance
	node types.UID
	cidr string
	// number is what its addresses are made from.
	number int
	gone   bool
	large  bool
	moves  int // to another address
	// stopped, silent, unready and excluded count what makes it so.
	stopped, silent, unready, excluded int
}

// wish is a Service as it shall be.
type wish struct {
	mu      sync.Mutex
	name    string
	gone    bool
	port    int32
	demoted int
}

func newFixture(env *environment) *fixture {
	return &fixture{env: env, machines: map[string]*machine{}, wishes: map[string]*wish{}}
}

// machine returns the machine of a name, which is made if it is not there.
func (w *fixture) machine(name string) *machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.machines[name]
	if m == nil {
		w.next++
		m = &machine{name: name, number: w.next, cidr: fmt.Sprintf("10.%d.%d.0/24", 64+w.next/256, w.next%256)}
		w.machines[name] = m
	}
	return m
}

// wish returns the wish for a Service, which is made if it is not there.
func (w *fixture) wish(name string) *wish {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.wishes[name]
	if s == nil {
		s = &wish{name: name, port: 80}
		w.wishes[name] = s
	}
	return s
}

// persist repeats what may fail, until it does not or ctx ends.
func persist(ctx context.Context, do func() error) (problem error) {
	// The pause follows each try, however long that took: the API server may be overloaded.
	_ = wait.Backoff{Duration: retryPause}.DelayFunc().Until(ctx, true, true, func(context.Context) (bool, error) {
		problem = do()
		return problem == nil, nil
	})
	return problem
}

// change changes what a machine shall be, and brings that about. A machine that is gone stays so, and one that never was is none.
func (w *fixture) change(ctx context.Context, name string, change func(*machine)) error {
	m := w.machine(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.id == "" || m.gone {
		return nil
	}
	change(m)
	if m.gone || m.excluded > 0 {
		w.env.record.checker.Disturbs(w.env.record.now(), string(m.node))
	}
	return persist(ctx, func() error { return w.bringAbout(ctx, m) })
}

// join makes an instance and registers its node.
func (w *fixture) join(ctx context.Context, name string) error {
	m := w.machine(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.id != "" {
		return nil
	}
	spec := cloudsim.DefaultInstance(m.number)
	spec.Name, spec.MachineType = name, cloudsim.TypeSmall
	spec.Addresses[0].Address = name
	if err := persist(ctx, func() error { return w.create(ctx, m, spec) }); err != nil {
		return fmt.Errorf("create instance %s: %w", name, err)
	}
	w.inherit(ctx, m)
	return w.register(ctx, m)
}

// create makes an instance, unless a try before has that looked as if it had failed.
func (w *fixture) create(ctx context.Context, m *machine, spec api.InstanceSpec) error {
	created, err := w.env.cloud.GetInstanceByName(ctx, m.name)
	if api.HasCode(err, api.CodeNotFound) {
		created, err = w.env.cloud.CreateInstance(ctx, spec)
	}
	if err == nil {
		m.id = created.ID
	}
	return err
}

// inherit gives a machine that joins the pod CIDR of one that is gone and whose node is gone as well, as Kubernetes does. The route of the
// latter may be there still. The machine is locked.
func (w *fixture) inherit(ctx context.Context, m *machine) {
	w.mu.Lock()
	others := slices.SortedFunc(maps.Values(w.machines), func(a, b *machine) int { return a.number - b.number })
	w.mu.Unlock()
	for _, other := range others {
		if other == m || !other.mu.TryLock() { // who changes it is not done with it
			continue
		}
		if other.gone && other.cidr != "" && w.nodeIsGone(ctx, other.name) {
			m.cidr, other.cidr = other.cidr, ""
			other.mu.Unlock()
			return
		}
		other.mu.Unlock()
	}
}

func (w *fixture) nodeIsGone(ctx context.Context, name string) bool {
	_, err := w.env.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// cidr returns the pod CIDR of a machine; empty if another one has it.
func (w *fixture) cidr(name string) string {
	m := w.machine(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cidr
}

// register has the kubelet of a machine register its node.
func (w *fixture) register(ctx context.Context, m *machine) error {
	agent, err := nodeagent.New(w.env.config, nodeagent.Options{Name: m.name})
	if err != nil {
		return err
	}
	if err := agent.Register(ctx); err != nil {
		return err
	}
	return persist(ctx, func() error {
		node, err := w.env.admin.CoreV1().Nodes().Patch(ctx, m.name, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"podCIDR":%q,"podCIDRs":[%q]}}`, m.cidr, m.cidr), metav1.PatchOptions{})
		if err == nil {
			m.node = node.UID
		}
		return err
	})
}

// drop deletes the Node object, as a person does, and has the kubelet start again.
func (w *fixture) drop(ctx context.Context, name string) error {
	m := w.machine(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.id == "" || m.gone {
		return nil
	}
	w.env.record.checker.WillDropNode(string(m.node))
	w.env.record.checker.Disturbs(w.env.record.now(), string(m.node))
	err := persist(ctx, func() error {
		err := w.env.admin.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err == nil {
		err = w.register(ctx, m)
	}
	if err == nil {
		err = persist(ctx, func() error { return w.bringAbout(ctx, m) })
	}
	return err
}

// relabel gives a node the label of another instance type, as a person does who takes it for theirs.
func (w *fixture) relabel(ctx context.Context, name string) error {
	return persist(ctx, func() error {
		_, err := w.env.admin.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:"foreign"}}}`, corev1.LabelInstanceTypeStable), metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// bringAbout makes the instance and the node what they shall be. The machine is locked.
func (w *fixture) bringAbout(ctx context.Context, m *machine) error {
	if err := w.setInstance(ctx, m); err != nil {
		return err
	}
	label := any(nil)
	if m.excluded > 0 {
		label = ""
	}
	ready := model.Ready
	switch {
	case m.gone || m.stopped > 0 || m.silent > 0:
		ready = model.Silent
	case m.unready > 0:
		ready = model.Unready
	}
	now := metav1.Now()
	condition := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionStatus(ready), Reason: "Chaos", LastHeartbeatTime: now, LastTransitionTime: now,
	}
	nodes := w.env.admin.CoreV1().Nodes()
	for subresource, patch := range map[string]any{
		"":       map[string]any{"metadata": map[string]any{"labels": map[string]any{corev1.LabelNodeExcludeBalancers: label}}},
		"status": map[string]any{"status": map[string]any{"conditions": []any{condition}}},
	} {
		body, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		var of []string
		if subresource != "" {
			of = []string{subresource}
		}
		_, err = nodes.Patch(ctx, m.name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, of...)
		if err != nil && !apierrors.IsNotFound(err) { // a manager has deleted it: right or wrong, the checker knows
			return err
		}
	}
	return nil
}

// setInstance makes the instance what it shall be.
func (w *fixture) setInstance(ctx context.Context, m *machine) error {
	if m.gone {
		err := w.env.cloud.DeleteInstance(ctx, m.id, 0)
		if api.HasCode(err, api.CodeNotFound) {
			return nil
		}
		return err
	}
	instance, err := w.env.cloud.GetInstance(ctx, m.id)
	if err != nil {
		return err
	}
	spec := instance.InstanceSpec
	spec.Power, spec.MachineType = api.PowerOn, cloudsim.TypeSmall
	if m.stopped > 0 {
		spec.Power = api.PowerOff
	}
	if m.large {
		spec.MachineType = cloudsim.TypeLarge
	}
	if m.moves > 0 {
		spec.Addresses = slices.Clone(spec.Addresses)
		spec.Addresses[1].Address = fmt.Sprintf("10.%d.%d.%d", 1+(m.moves-1)%60, m.number/250, m.number%250+1)
	}
	if spec.Power == instance.Power && spec.MachineType == instance.MachineType && slices.Equal(spec.Addresses, instance.Addresses) {
		return nil
	}
	_, err = w.env.cloud.UpdateInstance(ctx, m.id, spec, 0)
	return err
}

// serve changes what a Service shall be, and brings that about. One that is gone stays so.
func (w *fixture) serve(ctx context.Context, name string, change func(*wish)) error {
	s := w.wish(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil
	}
	change(s)
	services := w.env.admin.CoreV1().Services(metav1.NamespaceDefault)
	return persist(ctx, func() error {
		current, err := services.Get(ctx, name, metav1.GetOptions{})
		missing := apierrors.IsNotFound(err)
		switch {
		case missing && s.gone:
			return nil
		case missing:
			_, err = services.Create(ctx, s.object(), metav1.CreateOptions{})
			return err
		case err != nil:
			return err
		}
		if s.gone || s.demoted > 0 {
			w.env.record.checker.Disturbs(w.env.record.now(), string(current.UID))
		}
		if s.gone {
			return services.Delete(ctx, name, metav1.DeleteOptions{})
		}
		wanted := s.object()
		current.Spec.Type, current.Spec.Ports[0].Port = wanted.Spec.Type, s.port
		if current.Spec.Type == corev1.ServiceTypeClusterIP {
			current.Spec.Ports[0].NodePort = 0
			current.Spec.AllocateLoadBalancerNodePorts = nil
			current.Spec.ExternalTrafficPolicy = ""
		}
		_, err = services.Update(ctx, current, metav1.UpdateOptions{})
		return err
	})
}

// annotate changes an annotation of a Service, if it is there.
func (w *fixture) annotate(ctx context.Context, name string, value time.Duration) error {
	return persist(ctx, func() error {
		_, err := w.env.admin.CoreV1().Services(metav1.NamespaceDefault).Patch(ctx, name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/changed":%q}}}`, value), metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// object is the Service of a wish.
func (s *wish) object() *corev1.Service {
	kind := corev1.ServiceTypeLoadBalancer
	if s.demoted > 0 {
		kind = corev1.ServiceTypeClusterIP
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec:       corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Port: s.port}}},
	}
}
