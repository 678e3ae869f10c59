package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/dev/scenariotest"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/kit/jsonpatch"
	"github.com/mooring-ccm/mooring/provider"
)

// What the cloud says of nodes and what is written to them, as files that can be read: each says what happens, and below it what comes of
// that. "go test -run TestScenarios -rewrite" writes what comes of it anew.
//
//	nodes a b                  these nodes join and wait for their initialization. id=sim://a gives them that provider ID, node-ip=10.0.0.9 is
//	                           what their kubelets were told, and initialized: another manager has initialized them
//	cloud a zone=z-1 type=small internal=10.0.0.1 external=192.0.2.1 id=sim://a rack=7
//	                           the cloud has this instance, which is like that: rack is a label of its own; stopped: it does not run
//	cloud a gone               the cloud has none
//	listings fail              listings of the cloud fail from now on; or are throttled; or work again
//	writes refused a           the API server refuses what is written to the nodes from now on; or it answers with a conflict, is overloaded,
//	                           unavailable or unanswered, or a proxy says not-found; or writes work again. addresses-refused: their addresses alone
//	label a KEY=VALUE          a user labels the node
//	initialize a               another manager takes the taint
//	delete a                   the node is deleted; replace a: and one of its name joins, as another object
//	run 1m                     time passes, in which the controller makes its passes, and compares all nodes with the cloud every five minutes
func TestScenarios(t *testing.T) {
	scenariotest.Run(t, "testdata/scenarios", func(out *strings.Builder) scenariotest.Play { return newScenario(out).play })
}

// scenario is a cluster with its cloud, and the controller between them, whose watch and queue it is.
type scenario struct {
	*small
	began     time.Time
	refresher *refresher
	// refreshes is when all nodes are compared with the cloud next, and due when there is a pass over a node next.
	refreshes time.Time
	due       map[string]time.Time
	// seen are the nodes that the watch has shown.
	seen map[string]*corev1.Node
	// instances are those of the cloud, by the names of their nodes.
	instances map[string]provider.Instance
	// writes is how writes of nodes go, and byUsers the labels that users wrote, by name.
	writes  map[string]string
	byUsers map[string]bool
	// patches has what was shown of each node last.
	patches map[string]string
	// made counts the nodes, for their UIDs.
	made int

	mu  sync.Mutex // events may come at any time
	out *strings.Builder
}

func newScenario(out *strings.Builder) *scenario {
	s := &scenario{
		out: out, began: time.Now(), due: map[string]time.Time{}, seen: map[string]*corev1.Node{}, instances: map[string]provider.Instance{},
		writes: map[string]string{}, patches: map[string]string{}, byUsers: map[string]bool{},
	}
	s.small = newSmall(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			return s.write(object, patch, "", func() error { return c.Patch(ctx, object, patch, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return s.write(object, patch, sub, func() error { return c.SubResource(sub).Patch(ctx, object, patch, options...) })
		},
	})
	s.recorder, s.live, s.led = shownEvents{scenario: s}, shownWriters{s.Client, s}, s.began
	s.cloud.takes, s.cloud.asked = 100*time.Millisecond, func() { s.show("cloud: list") }
	s.refresher = &refresher{reconciler: s.reconciler, interval: DefaultStatusUpdateFrequency, log: logr.Discard()}
	s.refreshes = s.began.Add(s.refresher.interval)
	_ = s.queue.Capture(context.Background(), dueQueue{scenario: s})
	return s
}

// show shows what happened, and when.
func (s *scenario) show(format string, values ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.out, "%s: %s\n", time.Since(s.began).Round(time.Millisecond), fmt.Sprintf(format, values...))
}

// dueQueue has a pass over a node at once.
type dueQueue struct {
	kit.Queue // nil: a call that is not expected here ends the test
	scenario  *scenario
}

func (q dueQueue) Add(request reconcile.Request) { q.scenario.due[request.Name] = time.Now() }

// play does what one command says.
func (s *scenario) play(ctx context.Context, d *datadriven.TestData) error {
	needed := map[string]int{"nodes": 1, "cloud": 2, "listings": 1, "writes": 2, "label": 2, "initialize": 1, "delete": 1, "replace": 1, "run": 1}[d.Cmd]
	if len(d.CmdArgs) < needed {
		return fmt.Errorf("%s needs %d arguments", d.Cmd, needed)
	}
	first := d.CmdArgs[0].Key
	switch d.Cmd {
	case "nodes":
		return s.join(ctx, d.CmdArgs)
	case "cloud":
		s.setInstance(first, d.CmdArgs[1:])
	case "listings":
		failures := map[string]error{"fail": errors.New("internal error"), "throttled": provider.Throttled(time.Minute, errors.New("429")), "work": nil}
		failure, found := failures[first]
		if !found {
			return fmt.Errorf("there are no listings that are or do %q", first)
		}
		s.cloud.fails = failure
	case "writes":
		if _, found := answersTo("")[first]; !found {
			return fmt.Errorf("there are no writes that are or do %q", first)
		}
		for _, argument := range d.CmdArgs[1:] {
			s.writes[argument.Key] = first
		}
	case "label":
		s.byUsers[first] = true
		key, value := d.CmdArgs[1].Key, strings.Join(d.CmdArgs[1].Vals, ",")
		return s.edit(ctx, first, withLabels(key, value))
	case "initialize":
		return s.edit(ctx, first, withTaints())
	case "delete", "replace":
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: first}}
		if err := s.Client.Delete(ctx, node); err != nil || d.Cmd == "delete" {
			return err
		}
		return s.join(ctx, d.CmdArgs)
	case "run":
		span, err := time.ParseDuration(first)
		if err != nil {
			return err
		}
		return s.run(ctx, time.Now().Add(span))
	default:
		return fmt.Errorf("there is no command %q", d.Cmd)
	}
	return nil
}

// join has nodes join the cluster.
func (s *scenario) join(ctx context.Context, arguments []datadriven.CmdArg) error {
	var names []string
	edits := []edit{withTaints(cloudTaint)}
	for _, argument := range arguments {
		switch value := strings.Join(argument.Vals, ","); argument.Key {
		case "id":
			edits = append(edits, withID(value))
		case "node-ip":
			edits = append(edits, withNodeIP(value))
		case "initialized":
			edits = append(edits, withTaints())
		default:
			names = append(names, argument.Key)
		}
	}
	for _, name := range names {
		s.made++
		node := newNode(edits...)
		node.Name, node.UID, node.CreationTimestamp = name, types.UID(fmt.Sprintf("uid-%d", s.made)), metav1.Now()
		if err := s.Create(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// setInstance sets what the cloud has for a node.
func (s *scenario) setInstance(name string, arguments []datadriven.CmdArg) {
	has := instance("sim://"+name, name, "")
	for _, argument := range arguments {
		switch value := strings.Join(argument.Vals, ","); argument.Key {
		case "gone":
			delete(s.instances, name)
			return
		case "stopped":
			has.State = provider.InstanceStopped
		case "id":
			has.ProviderID = value
		case "zone":
			has.Zone = value
		case "type":
			has.InstanceType = value
		case "internal":
			has.NodeAddresses = append(has.NodeAddresses, internalIP(value))
		case "external":
			has.NodeAddresses = append(has.NodeAddresses, externalIP(value))
		default:
			has.AdditionalLabels = with(has.AdditionalLabels, argument.Key, value)
		}
	}
	s.instances[name] = has
}

// edit changes a node as others do.
func (s *scenario) edit(ctx context.Context, name string, change edit) error {
	node := &corev1.Node{}
	if err := s.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	}
	change(node)
	return s.Update(ctx, node)
}

// watch shows the controller what has changed since it was last called.
func (s *scenario) watch(ctx context.Context) error {
	var list corev1.NodeList
	if err := s.List(ctx, &list); err != nil {
		return err
	}
	handler, queue, now := watcher{reconciler: s.reconciler}.handler(), dueQueue{scenario: s}, map[string]*corev1.Node{}
	for i := range list.Items {
		node := &list.Items[i]
		now[node.Name] = node
		switch before := s.seen[node.Name]; {
		case before == nil:
			handler.Create(ctx, event.TypedCreateEvent[*corev1.Node]{Object: node}, queue)
		case before.ResourceVersion != node.ResourceVersion:
			handler.Update(ctx, event.TypedUpdateEvent[*corev1.Node]{ObjectOld: before, ObjectNew: node}, queue)
		}
	}
	for name, before := range s.seen {
		if now[name] == nil {
			handler.Delete(ctx, event.TypedDeleteEvent[*corev1.Node]{Object: before}, queue)
		}
	}
	s.seen = now
	return nil
}

// run makes the passes that are due until a time.
func (s *scenario) run(ctx context.Context, until time.Time) error {
	s.cloud.show = nil
	for _, name := range slices.Sorted(maps.Keys(s.instances)) {
		s.cloud.show = append(s.cloud.show, s.instances[name])
	}
	for {
		if err := s.watch(ctx); err != nil {
			return err
		}
		name, next := "", s.refreshes
		for _, other := range slices.Sorted(maps.Keys(s.due)) {
			if at := s.due[other]; at.Before(next) {
				name, next = other, at
			}
		}
		if next.After(until) {
			time.Sleep(time.Until(until))
			return nil
		}
		time.Sleep(time.Until(next))
		if name == "" {
			var passes sync.WaitGroup
			s.refresher.pass(ctx, &passes)
			passes.Wait()
			s.refreshes = next.Add(s.refresher.interval)
			continue
		}
		delete(s.due, name)
		result, err := s.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		if err != nil {
			return err
		}
		if result.RequeueAfter > 0 {
			s.due[name] = time.Now().Add(result.RequeueAfter)
			s.show("%s: is looked at again in %s", name, result.RequeueAfter.Round(time.Millisecond))
		}
	}
}

// answersTo are the answers to a write of a node, as the command calls them.
func answersTo(name string) map[string]error {
	nodes := corev1.Resource("nodes")
	refused := apierrors.NewForbidden(nodes, name, errors.New("a policy denies it"))
	return map[string]error{
		"work": nil, "refused": refused, "addresses-refused": refused,
		"conflict":   apierrors.NewConflict(nodes, name, errors.New("the object has been modified")),
		"not-found":  apierrors.NewGenericServerResponse(404, "patch", nodes, name, "page not found", 0, true),
		"overloaded": apierrors.NewTooManyRequests("too many requests", 1), "unavailable": apierrors.NewServiceUnavailable("unavailable"),
		"unanswered": context.DeadlineExceeded,
	}
}

// write lets a write take effect, or answers as it is set, and shows it.
func (s *scenario) write(object client.Object, patch client.Patch, sub string, do func() error) error {
	name := object.GetName()
	answer := answersTo(name)[s.writes[name]]
	if answer == nil || s.writes[name] == "addresses-refused" && sub != "status" {
		answer = do()
	}
	var changes strings.Builder
	for _, operation := range patch.(jsonpatch.Patch) {
		path := strings.ReplaceAll(operation.Path, "~1", "/")
		switch value := operation.Value.(type) {
		case nil:
			if operation.Op == "remove" {
				_, _ = fmt.Fprintf(&changes, "\n  without %s", path)
			}
		case string:
			if operation.Op != "test" {
				_, _ = fmt.Fprintf(&changes, "\n  %s: %s", path, value)
			}
		case []corev1.NodeAddress:
			if operation.Op != "test" {
				_, _ = fmt.Fprintf(&changes, "\n  %s: %v", path, value)
			}
		}
	}
	of, shown := name+" "+sub, changes.String()
	if shown == s.patches[of] {
		shown = " as before"
	}
	s.patches[of] = changes.String()
	outcome := "takes effect"
	if answer != nil {
		outcome = answer.Error()
	}
	s.show("%s: a patch %s:%s", strings.TrimSpace(of), outcome, shown)
	return answer
}

// shownEvents shows the events of nodes.
type shownEvents struct {
	record.EventRecorder
	scenario *scenario
}

func (e shownEvents) Event(object runtime.Object, kind, reason, message string) {
	e.scenario.show("%s: event: %s %s %s", object.(*corev1.Node).Name, kind, reason, message)
}

// setsZones are both labels of a zone.
const setsZones = `{"f:metadata":{"f:labels":{"f:topology.kubernetes.io/zone":{},"f:failure-domain.beta.kubernetes.io/zone":{}}}}`

// shownWriters is the API server's view of nodes, which says who wrote their zones: a user, or a manager of the cloud.
type shownWriters struct {
	client.Reader
	scenario *scenario
}

func (w shownWriters) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	w.scenario.show("%s: read with its managed fields", key.Name)
	writer := map[bool]string{true: "kubectl-label", false: fieldManager}[w.scenario.byUsers[key.Name]]
	reader := &liveNodes{Reader: w.Reader, entries: []metav1.ManagedFieldsEntry{managed(writer, setsZones)}}
	return reader.Get(ctx, key, into, options...)
}
