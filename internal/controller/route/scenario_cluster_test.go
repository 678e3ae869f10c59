package route

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/dev/scenariotest"
	"github.com/mooring-ccm/mooring/provider"
)

// effects are what became of a pass outside the controller. Calls are made at the same time: what happened at one moment is shown in
// the order of its text.
type effects struct {
	mu   sync.Mutex
	seen []effect
}

type effect struct {
	at   time.Time
	line string
}

func (e *effects) show(format string, values ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, effect{time.Now(), fmt.Sprintf(format, values...)})
}

// take returns what has been shown since it was last called.
func (e *effects) take() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	slices.SortStableFunc(e.seen, func(a, b effect) int {
		if earlier := a.at.Compare(b.at); earlier != 0 {
			return earlier
		}
		return strings.Compare(a.line, b.line)
	})
	var shown strings.Builder
	for _, one := range e.seen {
		_, _ = fmt.Fprintln(&shown, one.line)
	}
	e.seen = nil
	return shown.String()
}

// shownEvents shows events on nodes.
type shownEvents struct {
	record.EventRecorder
	effects *effects
}

func (e shownEvents) Event(object runtime.Object, kind, reason, message string) {
	e.effects.show("event: %s: %s %s %s", object.(*corev1.ObjectReference).Name, kind, reason, message)
}

// memoryNodes is a cluster with nodes as the cache shows them.
type memoryNodes struct {
	client.Client // nil: a call that is not expected here ends the test
	effects       *effects

	mu    sync.Mutex
	nodes map[string]*corev1.Node
	// hidden nodes are not in the cache.
	hidden map[string]bool
	// patches is how patches of nodes go, by name.
	patches map[string]string
	// services are the ranges of Services; nil: the API server does not say them.
	services []string
}

// answerPatches sets how patches of nodes go.
func (c *memoryNodes) answerPatches(how string, names []string) error {
	if !slices.Contains([]string{"work", "refused", "conflict"}, how) {
		return fmt.Errorf("there are no patches that are or do %q", how)
	}
	for _, name := range names {
		c.patches[name] = how
	}
	return nil
}

// refusal is what the API server answers to a patch; nil: it takes it.
func (c *memoryNodes) refusal(name string) error {
	switch c.patches[name] {
	case "refused":
		return apierrors.NewForbidden(corev1.Resource("nodes"), name, errors.New("a policy denies it"))
	case "conflict":
		return apierrors.NewConflict(corev1.Resource("nodes"), name, errors.New("the object has been modified"))
	}
	return nil
}

func (c *memoryNodes) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		if !c.hidden[name] {
			list.(*corev1.NodeList).Items = append(list.(*corev1.NodeList).Items, *c.nodes[name].DeepCopy())
		}
	}
	return nil
}

func (c *memoryNodes) Status() client.SubResourceWriter { return shownConditions{cluster: c} }

// shownConditions applies patches of the condition, and shows them.
type shownConditions struct {
	client.SubResourceWriter
	cluster *memoryNodes
}

func (w shownConditions) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	c := w.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	before, found := c.nodes[object.GetName()]
	if !found {
		return apierrors.NewNotFound(corev1.Resource("nodes"), object.GetName())
	}
	if err := c.refusal(before.Name); err != nil {
		c.effects.show("patch: condition of %s: %v", before.Name, err)
		return err
	}
	patched, err := scenariotest.Patched(before, object, patch)
	if err != nil {
		return err
	}
	version, err := strconv.Atoi(before.ResourceVersion)
	if err != nil {
		return err
	}
	patched.ResourceVersion = strconv.Itoa(version + 1)
	c.nodes[patched.Name] = patched
	patched.DeepCopyInto(object.(*corev1.Node))
	condition := networkCondition(patched)
	c.effects.show("patch: condition %s of %s: %s %s", condition.Type, patched.Name, condition.Status, condition.Reason)
	return nil
}

// liveNodes is the API server itself, which knows hidden nodes, too.
type liveNodes struct{ *memoryNodes }

func (l liveNodes) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, found := l.nodes[key.Name]; !found {
		return apierrors.NewNotFound(corev1.Resource("nodes"), key.Name)
	}
	return nil
}

func (l liveNodes) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ranges, asked := list.(*networkingv1.ServiceCIDRList); asked {
		if l.services == nil {
			return apierrors.NewForbidden(networkingv1.Resource("servicecidrs"), "", errors.New("no right"))
		}
		ranges.Items = []networkingv1.ServiceCIDR{{Spec: networkingv1.ServiceCIDRSpec{CIDRs: l.services}}}
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(l.nodes)) {
		items := list.(*metav1.PartialObjectMetadataList)
		items.Items = append(items.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return nil
}

// memoryRoutes is a plugin whose cloud is a list of routes, one to a destination. A call takes a tenth of a second.
type memoryRoutes struct {
	cloudprovider.Interface
	effects *effects

	mu     sync.Mutex
	routes []*cloudprovider.Route
	// behavior is how calls about routes by a target go, see TestScenarios.
	behavior map[string]string
	// lists is how lists are answered, and lacking are the names of the routes that they lack.
	lists   string
	lacking []string
	// twice says that there are two tables with the same routes: each is listed once for a table, and deleted from both.
	twice bool
	// aliases are what the cloud calls targets.
	aliases map[types.NodeName]types.NodeName
}

func (m *memoryRoutes) ProviderName() string                           { return "sim" }
func (m *memoryRoutes) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }
func (m *memoryRoutes) Instances() (cloudprovider.Instances, bool)     { return nil, false }

// add makes a route as a command describes it: NAME=CIDR by=TARGET [blackhole].
func (m *memoryRoutes) add(arguments []datadriven.CmdArg) {
	made := &cloudprovider.Route{Name: arguments[0].Key, DestinationCIDR: arguments[0].Vals[0]}
	for _, argument := range arguments[1:] {
		switch argument.Key {
		case "by":
			made.TargetNode = types.NodeName(argument.Vals[0])
		case "blackhole":
			made.Blackhole = true
		}
	}
	m.routes = append(m.routes, made)
}

func (m *memoryRoutes) delete(names ...string) {
	m.routes = slices.DeleteFunc(m.routes, func(r *cloudprovider.Route) bool { return slices.Contains(names, r.Name) })
}

// behave sets how calls about routes by targets go.
func (m *memoryRoutes) behave(how string, targets []string) error {
	if !slices.Contains([]string{"work", "fail", "refused", "throttled", "lost", "hang", "ipv4-only"}, how) {
		return fmt.Errorf("there are no calls that are or do %q", how)
	}
	for _, target := range targets {
		m.behavior[target] = how
	}
	return nil
}

// answerLists sets how lists are answered.
func (m *memoryRoutes) answerLists(how string, lacking []string) error {
	if !slices.Contains([]string{"work", "fail", "empty", "broken", "lack"}, how) {
		return fmt.Errorf("there are no lists that are or do %q", how)
	}
	m.lists, m.lacking = how, lacking
	return nil
}

func (m *memoryRoutes) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.lists {
	case "fail":
		return nil, errors.New("internal error")
	case "empty":
		return nil, nil
	case "broken":
		return append([]*cloudprovider.Route{nil}, m.routes...), nil
	}
	var listed []*cloudprovider.Route
	for _, route := range m.routes {
		if !slices.Contains(m.lacking, route.Name) {
			shown := *route
			if alias, found := m.aliases[route.TargetNode]; found {
				shown.TargetNode = alias
			}
			listed = append(listed, &shown)
			if m.twice {
				other := shown
				other.Name, other.DestinationCIDR = "other-table-"+shown.Name, strings.ToUpper(shown.DestinationCIDR)
				listed = append(listed, &other)
			}
		}
	}
	return listed, nil
}

// call makes a call about a route by a target, which has an effect unless the cloud refuses it.
func (m *memoryRoutes) call(ctx context.Context, target types.NodeName, line string, act func() error) error {
	time.Sleep(100 * time.Millisecond)
	m.mu.Lock()
	behavior := m.behavior[string(target)]
	m.mu.Unlock()
	if behavior == "hang" {
		m.effects.show("cloud: %s: no answer", line)
		<-ctx.Done()
		return ctx.Err()
	}
	failure := map[string]error{
		"fail": errors.New("internal error"), "refused": provider.Terminal(errors.New("no such interface")),
		"throttled": provider.Throttled(time.Minute, errors.New("quota exceeded")), "lost": errors.New("the answer was lost"),
	}[behavior]
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	if failure == nil || behavior == "lost" {
		err = act()
	}
	if err = errors.Join(err, failure); err != nil {
		m.effects.show("cloud: %s: %v", line, err)
		return err
	}
	m.effects.show("cloud: %s", line)
	return nil
}

func (m *memoryRoutes) CreateRoute(ctx context.Context, _, _ string, route *cloudprovider.Route) error {
	line := fmt.Sprintf("create %s by %s", route.DestinationCIDR, route.TargetNode)
	if m.behavior[string(route.TargetNode)] == "ipv4-only" && strings.Contains(route.DestinationCIDR, ":") {
		m.effects.show("cloud: %s: %v", line, cloudprovider.NotImplemented)
		return cloudprovider.NotImplemented
	}
	return m.call(ctx, route.TargetNode, line, func() error {
		for _, other := range m.routes {
			if other.DestinationCIDR == route.DestinationCIDR {
				if other.TargetNode == route.TargetNode && !other.Blackhole {
					return nil
				}
				return fmt.Errorf("there is the route %s to %s", other.Name, other.DestinationCIDR)
			}
		}
		made := *route
		made.Name = "to-" + route.DestinationCIDR
		m.routes = append(m.routes, &made)
		return nil
	})
}

func (m *memoryRoutes) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	return m.call(ctx, route.TargetNode, "delete "+route.Name, func() error {
		m.delete(route.Name)
		if m.twice {
			m.delete(strings.TrimPrefix(route.Name, "other-table-"))
		}
		return nil
	})
}

func (m *memoryRoutes) replace(ctx context.Context, _ string, old, replacement *cloudprovider.Route) error {
	line := fmt.Sprintf("replace %s by %s", old.Name, replacement.TargetNode)
	return m.call(ctx, replacement.TargetNode, line, func() error {
		made := *replacement
		m.delete(old.Name)
		m.routes = append(m.routes, &made)
		return nil
	})
}
