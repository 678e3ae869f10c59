package nodelifecycle

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	nodeutil "k8s.io/component-helpers/node/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/dev/scenariotest"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

// What is decided about nodes and written to them, as files that can be read: each says what happens, and below it what comes of that.
// "go test -run TestScenarios -rewrite" writes what comes of it anew.
//
//	nodes a b                 these nodes join: ready, an hour old, with a provider ID of ours. age=1m makes them as young, scheme=aws
//	                          gives the provider ID that scheme, scheme=none gives it no scheme, and waits has them wait for
//	                          their initialization
//	kubelet silent a b        the kubelets no longer report; or not-ready: they report that; or ready
//	cloud denies a b          the cloud has no such instances; or running, stopped, or silent: it says nothing of them
//	annotate a KEY=VALUE      a user annotates the node
//	advance 30s               time passes
//	listing                   the cloud declares a list, by which it answers from now on
//	pass                      the controller decides by what the cloud says now of all instances, and carries that out
func TestScenarios(t *testing.T) {
	scenariotest.Run(t, "testdata/scenarios", func(out *strings.Builder) scenariotest.Play { return newScenario(out).play })
}

// scenario is a cluster, what the cloud says of its nodes, and the controller between them, which acts on command.
type scenario struct {
	began   time.Time
	cluster *shownNodes
	// instances is what the cloud says of each node, as the command calls it.
	instances map[string]string
	// lists says that the cloud declares a list, by which it answers.
	lists      bool
	reconciler *reconciler
	out        *strings.Builder
}

// newScenario returns a scenario with the settings of the flags. The record of deletions is known, and is not written: the reconciler
// remembers the deletions itself.
func newScenario(out *strings.Builder) *scenario {
	began := time.Now()
	cluster := &shownNodes{memoryNodes: &memoryNodes{nodes: map[string]*corev1.Node{}}, began: began}
	settings := DefaultSettings()
	deletionLog := &DeletionLog{Namespace: "kube-system", Name: "deletions", DryRun: true}
	return &scenario{
		out:   out,
		began: began, cluster: cluster, instances: map[string]string{},
		reconciler: &reconciler{
			reader: cluster, settings: settings, deletionLog: deletionLog, metrics: newMetrics(nil), state: nodeState{},
			rules: ownership.Rules{ProviderName: "sim"},
			writes: newWrites(writer{
				client: cluster, recorder: shownEvents{cluster: cluster}, limiter: &kit.EventLimiter{}, settings: settings,
				deletionLog: deletionLog.String(), limit: 1,
			}),
		},
	}
}

// play does what one command says.
func (s *scenario) play(ctx context.Context, d *datadriven.TestData) error {
	needed := map[string]int{"nodes": 1, "kubelet": 2, "cloud": 2, "annotate": 2, "advance": 1}[d.Cmd]
	if len(d.CmdArgs) < needed {
		return fmt.Errorf("%s needs %d arguments", d.Cmd, needed)
	}
	switch d.Cmd {
	case "nodes":
		return s.join(d)
	case "kubelet":
		return s.report(d.CmdArgs[0].Key, scenariotest.NamesIn(d.CmdArgs[1:]))
	case "cloud":
		return s.say(d.CmdArgs[0].Key, scenariotest.NamesIn(d.CmdArgs[1:]))
	case "annotate":
		key, value := d.CmdArgs[1].Key, strings.Join(d.CmdArgs[1].Vals, ",")
		return s.cluster.edit(d.CmdArgs[0].Key, func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value) })
	case "advance":
		pause, err := time.ParseDuration(d.CmdArgs[0].Key)
		time.Sleep(pause)
		return err
	case "listing":
		s.lists = true
	case "pass":
		return s.pass(ctx)
	default:
		return fmt.Errorf("there is no command %q", d.Cmd)
	}
	return nil
}

// join has nodes join the cluster, whose instances run.
func (s *scenario) join(d *datadriven.TestData) error {
	var names []string
	lived, scheme, waits := time.Hour, "sim", false
	for _, argument := range d.CmdArgs {
		var err error
		switch value := strings.Join(argument.Vals, ","); argument.Key {
		case "age":
			lived, err = time.ParseDuration(value)
		case "scheme":
			scheme = value
		case "waits":
			waits = true
		default:
			names = append(names, argument.Key)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range names {
		joined := node(name, corev1.ConditionTrue)
		joined.CreationTimestamp = metav1.NewTime(time.Now().Add(-lived))
		joined.Spec.ProviderID = strings.TrimPrefix(scheme+"://"+name, "none://")
		if waits {
			initializing(joined)
		}
		s.cluster.nodes[name], s.instances[name] = joined, "running"
	}
	return nil
}

// report has kubelets say how they are, or fall silent.
func (s *scenario) report(how string, names []string) error {
	status, found := map[string]corev1.ConditionStatus{
		"ready": corev1.ConditionTrue, "not-ready": corev1.ConditionFalse, "silent": corev1.ConditionUnknown,
	}[how]
	if !found {
		return fmt.Errorf("there is no kubelet that is %s", how)
	}
	for _, name := range names {
		if err := s.cluster.edit(name, func(n *corev1.Node) {
			_, ready := nodeutil.GetNodeCondition(&n.Status, corev1.NodeReady)
			ready.Status = status
			if how != "silent" {
				ready.LastHeartbeatTime = metav1.Now()
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// say sets what the cloud says of instances.
func (s *scenario) say(what string, names []string) error {
	if !slices.Contains([]string{"denies", "running", "stopped", "silent"}, what) {
		return fmt.Errorf("there is no cloud that says %q of an instance", what)
	}
	for _, name := range names {
		if s.cluster.get(name) == nil {
			return errNoNode(name)
		}
		s.instances[name] = what
	}
	return nil
}

func errNoNode(name string) error { return fmt.Errorf("there is no node %q", name) }

// said is what the cloud says now, of every node for which it says anything.
func (s *scenario) said() answers {
	said, now := answers{}, time.Now()
	for name, how := range s.instances {
		switch uid := types.UID("uid-" + name); how {
		case "running":
			said[uid] = answer{exists: true, state: provider.InstanceRunning, listed: s.lists, at: now}
		case "stopped":
			said[uid] = answer{exists: true, state: provider.InstanceStopped, listed: s.lists, at: now}
		case "denies":
			said[uid] = answer{at: now}
		}
	}
	return said
}

// pass acts as a pass does once the cloud has answered, and shows the plan, what is written, and what is remembered.
func (s *scenario) pass(ctx context.Context) error {
	all, err := s.reconciler.list(ctx)
	if err != nil {
		return err
	}
	s.cluster.written.Reset()
	planned := s.reconciler.act(ctx, all, s.said())
	s.showPlan(planned)
	_, _ = s.out.WriteString(s.cluster.written.String())
	s.showRemembered(all, planned)
	return nil
}

func (s *scenario) showPlan(planned plan) {
	steps := []string{}
	for _, action := range planned.actions {
		step := action.kind.String() + " " + action.node.name
		if because := cmp.Or(string(action.reason), string(action.cause)); because != "" {
			step += " because " + because
		}
		steps = append(steps, step)
	}
	_, _ = fmt.Fprintf(s.out, "at %s, plan: %s\n", time.Since(s.began), cmp.Or(strings.Join(steps, "; "), "nothing"))
	if planned.affirm {
		_, _ = fmt.Fprintln(s.out, "waiting for the cloud to affirm others")
	}
	for _, node := range slices.Sorted(maps.Keys(planned.due)) {
		if wait := time.Until(planned.due[node]); !planned.affirm {
			_, _ = fmt.Fprintf(s.out, "%s is asked for again in %s\n", strings.TrimPrefix(string(node), "uid-"), max(0, wait))
		}
	}
}

// showRemembered shows the guard that the next pass begins with, as far as it is about nodes that are still there.
func (s *scenario) showRemembered(before []*corev1.Node, planned plan) {
	slices.SortFunc(before, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, node := range before {
		if row, known := s.reconciler.guard.denials[node.UID]; known && s.cluster.get(node.Name) != nil {
			_, _ = fmt.Fprintf(s.out, "remembered of %s: denials %d, believed %d, first to last %s\n",
				node.Name, row.observed, row.credible, row.last.Sub(row.first))
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(planned.held)) {
		_, _ = fmt.Fprintf(s.out, "held for %s: %d\n", reason, planned.held[reason])
	}
	if spent := total(s.reconciler.guard.spent); spent > 0 {
		_, _ = fmt.Fprintf(s.out, "remembered: deletions %d of at most %d\n", spent, planned.limit)
	}
}

// shownNodes applies patches to nodes as an API server does, and shows what was written.
type shownNodes struct {
	*memoryNodes
	began   time.Time
	written strings.Builder
	// message is the message of the condition that was last written.
	message string
}

// edit changes a node, which makes another version of it.
func (c *shownNodes) edit(name string, change func(*corev1.Node)) error {
	if c.get(name) == nil {
		return errNoNode(name)
	}
	c.change(name, func(n *corev1.Node) {
		change(n)
		n.ResourceVersion += "0" // greater than the one before
	})
	return nil
}

func (c *shownNodes) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	_, _ = fmt.Fprintf(&c.written, "delete: %s\n", object.GetName())
	return c.memoryNodes.Delete(ctx, object, options...)
}

// apply applies a patch, and returns the node as it is then to the caller in its object, as a client does.
func (c *shownNodes) apply(object client.Object, patch client.Patch) (*corev1.Node, error) {
	name := object.GetName()
	patched, err := scenariotest.Patched(c.get(name), object, patch)
	if err != nil {
		return nil, err
	}
	err = c.edit(name, func(n *corev1.Node) { *n = *patched })
	c.get(name).DeepCopyInto(object.(*corev1.Node))
	return patched, err
}

// Patch changes taints.
func (c *shownNodes) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	patched, err := c.apply(object, patch)
	if err != nil {
		return err
	}
	var taints []string
	for _, taint := range patched.Spec.Taints {
		taints = append(taints, taint.ToString())
	}
	_, _ = fmt.Fprintf(&c.written, "patch: taints of %s: %s\n", patched.Name, cmp.Or(strings.Join(taints, ", "), "none"))
	return nil
}

func (c *shownNodes) Status() client.SubResourceWriter { return shownStatus{cluster: c} }

type shownStatus struct {
	client.SubResourceWriter
	cluster *shownNodes
}

// Patch changes the condition.
func (w shownStatus) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	c := w.cluster
	patched, err := c.apply(object, patch)
	if err != nil {
		return err
	}
	shown := "none"
	if _, held := nodeutil.GetNodeCondition(&patched.Status, ConditionInstanceGone); held != nil {
		shown = fmt.Sprintf("%s %s since %s: %s", held.Status, held.Reason, held.LastTransitionTime.Sub(c.began), held.Message)
		c.message = held.Message
	}
	_, _ = fmt.Fprintf(&c.written, "patch: condition %s of %s: %s\n", ConditionInstanceGone, patched.Name, shown)
	return nil
}

// shownEvents shows events among the writes. The message of the condition that was just written is not repeated.
type shownEvents struct {
	record.EventRecorder
	cluster *shownNodes
}

func (e shownEvents) Event(object runtime.Object, kind, reason, message string) {
	if said := e.cluster.message; said != "" {
		message = strings.Replace(message, said, "the message of the condition", 1)
	}
	_, _ = fmt.Fprintf(&e.cluster.written, "event: %s: %s %s %s\n", object.(*corev1.Node).Name, kind, reason, message)
}
