package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/scenariotest"
)

// What is planned about routes and written, as files that can be read: each says what happens, and below it what comes of that.
// "go test -run TestScenarios -rewrite" writes what comes of it anew.
//
//	nodes a=10.120.0.0/24 b=(10.120.1.0/24,a00:1::/64)   these nodes join; scheme=aws gives their provider IDs that scheme
//	delete a                    the node is deleted; hide a: the cache alone does not show it
//	services 10.96.0.0/12       the API server says that Services have these ranges, which it does not at first
//	route old=10.120.9.0/24 by=a    another client makes this route; blackhole: its target is gone
//	vanish to-10.120.0.0/24     another client deletes this route
//	calls fail a b              calls that make or delete routes by these targets fail from now on, and have no effect; or are
//	                            refused, throttled or lost (which is an error after the effect); or hang; or work again;
//	                            or are ipv4-only: the provider makes no routes of IPv6
//	patches refused a           the API server refuses patches of these nodes from now on; or answers with a conflict; or they work again
//	list fails                  lists fail from now on; or are empty, or broken; or lacks NAME: without these routes; or work again
//	alias a=server-1            the cloud lists routes by node a as routes by server-1
//	twice                       the cloud lists each route twice, for two tables, of which one spells IPv6 in capitals; it deletes from both
//	replaces                    the provider can change a route in place
//	restart                     another process begins to lead
//	run 1m                      time passes, in which the controller makes its passes when they are due
func TestScenarios(t *testing.T) {
	scenariotest.Run(t, "testdata/scenarios", func(out *strings.Builder) scenariotest.Play { return newScenario(out).play })
}

// scenario is a cluster, the routes of its cloud, and the controller between them.
type scenario struct {
	began      time.Time
	effects    *effects
	cluster    *memoryNodes
	cloud      *memoryRoutes
	reconciler *reconciler
	// due is when the next pass is.
	due time.Time
	out *strings.Builder
	// last is what was shown of the last pass: the same again is left out.
	last string
}

func newScenario(out *strings.Builder) *scenario {
	effects := &effects{}
	s := &scenario{
		out: out, began: time.Now(), effects: effects, cluster: &memoryNodes{effects: effects, nodes: map[string]*corev1.Node{}, hidden: map[string]bool{}, patches: map[string]string{}},
		cloud: &memoryRoutes{effects: effects, behavior: map[string]string{}, aliases: map[types.NodeName]types.NodeName{}, lists: "work"},
	}
	s.restart()
	return s
}

// restart builds the controller, as a process that knows nothing.
func (s *scenario) restart() {
	options := Options{
		Client: s.cluster, Live: liveNodes{s.cluster}, Recorder: shownEvents{effects: s.effects}, Cloud: s.cloud, Owners: ownersOf("sim"),
		ClusterName: "test", ClusterCIDRs: clusterCIDRs, Period: DefaultPeriod,
		Writes: DefaultWrites, Patience: DefaultPeriod / 2,
	}
	watcher := &watcher{scheduler: newScheduler(options.Period, 0), rules: options.Owners}
	s.reconciler = newReconciler(options, watcher)
	s.reconciler.applier.routes = s.cloud
	s.due = time.Now()
}

// play does what one command says.
func (s *scenario) play(ctx context.Context, d *datadriven.TestData) error {
	needed := map[string]int{"nodes": 1, "delete": 1, "hide": 1, "services": 1, "route": 2, "vanish": 1, "calls": 2, "patches": 2, "list": 1, "alias": 1, "run": 1}[d.Cmd]
	if len(d.CmdArgs) < needed {
		return fmt.Errorf("%s needs %d arguments", d.Cmd, needed)
	}
	switch d.Cmd {
	case "nodes":
		s.join(d.CmdArgs)
	case "delete":
		for _, name := range scenariotest.NamesIn(d.CmdArgs) {
			delete(s.cluster.nodes, name)
		}
		s.noted()
	case "hide":
		for _, name := range scenariotest.NamesIn(d.CmdArgs) {
			s.cluster.hidden[name] = true
		}
	case "services":
		s.cluster.services = scenariotest.NamesIn(d.CmdArgs)
	case "route":
		s.cloud.add(d.CmdArgs)
	case "vanish":
		s.cloud.delete(scenariotest.NamesIn(d.CmdArgs)...)
	case "calls":
		return s.cloud.behave(d.CmdArgs[0].Key, scenariotest.NamesIn(d.CmdArgs[1:]))
	case "patches":
		return s.cluster.answerPatches(d.CmdArgs[0].Key, scenariotest.NamesIn(d.CmdArgs[1:]))
	case "list":
		return s.cloud.answerLists(d.CmdArgs[0].Key, scenariotest.NamesIn(d.CmdArgs[1:]))
	case "alias":
		s.cloud.aliases[types.NodeName(d.CmdArgs[0].Key)] = types.NodeName(d.CmdArgs[0].Vals[0])
	case "twice":
		s.cloud.twice = true
	case "replaces":
		s.reconciler.abilities.replaces, s.reconciler.applier.replace = true, s.cloud.replace
	case "restart":
		s.restart()
	case "run":
		span, err := time.ParseDuration(d.CmdArgs[0].Key)
		s.run(ctx, time.Now().Add(span))
		return err
	default:
		return fmt.Errorf("there is no command %q", d.Cmd)
	}
	return nil
}

// join has nodes join the cluster, each a second younger than the one before.
func (s *scenario) join(arguments []datadriven.CmdArg) {
	scheme := "sim"
	for _, argument := range arguments {
		if argument.Key == "scheme" {
			scheme = argument.Vals[0]
		}
	}
	for _, argument := range arguments {
		if argument.Key == "scheme" {
			continue
		}
		joined := node(argument.Key, argument.Vals...).node
		joined.CreationTimestamp = metav1.NewTime(s.began.Add(time.Duration(len(s.cluster.nodes)) * time.Second))
		joined.Spec.ProviderID, joined.ResourceVersion = scheme+"://"+argument.Key, "1"
		s.cluster.nodes[argument.Key] = joined
	}
	s.noted()
}

// noted has the next pass be due as the watch of nodes does.
func (s *scenario) noted() {
	if soon := time.Now().Add(s.reconciler.scheduler.noted(time.Now())); soon.Before(s.due) {
		s.due = soon
	}
}

// run makes the passes that are due until a time. One that has begun is carried to its end.
func (s *scenario) run(ctx context.Context, until time.Time) {
	for !s.due.After(until) {
		time.Sleep(time.Until(s.due))
		wait := s.reconciler.scheduler.early(time.Now())
		if wait == 0 {
			wait = s.pass(ctx)
		}
		s.due = time.Now().Add(wait)
	}
	time.Sleep(time.Until(until))
}

// pass makes a pass as Reconcile does, shows its plan and its effects if they are not those of the pass before, and returns when the next one is due.
func (s *scenario) pass(ctx context.Context) time.Duration {
	r := s.reconciler
	trigger := r.scheduler.begin(time.Now())
	at := time.Since(s.began)
	compared, err := r.compare(ctx)
	if err != nil {
		_, _ = fmt.Fprintf(s.out, "at %s, no plan: %v\n", at, err)
		s.last = ""
		_, _ = r.conclude(ctx, trigger, nil, nil, result{blocked: err})
		return r.scheduler.When(everything)
	}
	outcomes, unwritten := r.carryOut(ctx, compared)
	shown := describe(compared.admitted) + "\n" + s.effects.take()
	if failed := errors.Join(compared.unclear, unwritten); failed != nil {
		shown += fmt.Sprintf("error: %v\n", failed)
	}
	if shown != s.last || s.out.Len() == 0 {
		_, _ = fmt.Fprintf(s.out, "at %s, plan:%s", at, shown)
	}
	s.last = shown
	_, _ = r.conclude(ctx, trigger, outcomes, unwritten, result{partial: compared.unclear})
	return r.scheduler.When(everything)
}

// describe says what a pass is about to do.
func describe(admitted allowed) string {
	var described strings.Builder
	for _, action := range slices.Concat(admitted.removals, admitted.makes) {
		_, _ = fmt.Fprintf(&described, "\n  %s because %s", action.line(), action.why)
	}
	for _, want := range admitted.waiting {
		_, _ = fmt.Fprintf(&described, "\n  %s by %s has to wait", want.cidr, want.node)
	}
	return cmp.Or(described.String(), " nothing")
}
