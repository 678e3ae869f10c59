package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/dev/scenariotest"
	"github.com/mooring-ccm/mooring/provider"
)

// What is planned and written for a Service, as files that can be read: each says what happens, and below it what comes of that.
// "go test -run TestScenarios -rewrite" writes what comes of it anew.
//
//	nodes a b            these are the nodes of the cluster
//	create               a user creates the Service; delete, annotate KEY=VALUE and type TYPE change it
//	cloud works          calls that change something succeed from now on; or they fail: fails, refuses, throttles, is-busy
//	vanish               a user deletes the load balancer in the cloud
//	drift                a drift check finds that
//	restart              another process begins to lead
//	wait 5s              time passes
//	pass                 the controller looks at the Service
func TestScenarios(t *testing.T) {
	scenariotest.Run(t, "testdata/scenarios", func(out *strings.Builder) scenariotest.Play { return newScenario(out).play })
}

// scenario is a cluster with one Service, a cloud, and the controller between them, which acts on command.
type scenario struct {
	cluster    *cluster
	cloud      *memoryCloud
	events     *record.FakeRecorder
	reconciler *reconciler
	out        *strings.Builder
}

var scenarioKey = types.NamespacedName{Namespace: "shop", Name: "web/uid-1"}

func newScenario(out *strings.Builder) *scenario {
	s := &scenario{out: out, cluster: newCluster(), cloud: &memoryCloud{balancer: map[types.UID]map[string]string{}, calls: map[string]int{}}}
	s.restart()
	return s
}

// restart builds the controller, as a process that knows nothing.
func (s *scenario) restart() {
	s.events = record.NewFakeRecorder(1000)
	s.reconciler = wireTest(Options{Cloud: s.cloud, Client: shownPatches{s.cluster, s.out}, Recorder: s.events, Writes: 1}, shownCalls{s.cloud, s.out}).reconciler
}

// play does what one command says.
func (s *scenario) play(ctx context.Context, d *datadriven.TestData) error {
	var argument, value string
	if len(d.CmdArgs) > 0 {
		argument, value = d.CmdArgs[0].Key, strings.Join(d.CmdArgs[0].Vals, ",")
	}
	switch d.Cmd {
	case "nodes":
		s.cluster.nodes = map[string]*corev1.Node{}
		for _, node := range d.CmdArgs {
			s.cluster.nodes[node.Key] = nodeWith(node.Key)
		}
		s.reconciler.targets.note(true)
	case "create":
		s.cluster.put(serviceWith())
	case "delete":
		s.edit(deleted)
	case "annotate":
		s.edit(func(service *corev1.Service) { service.Annotations = map[string]string{argument: value} })
	case "type":
		s.edit(ofType(corev1.ServiceType(argument)))
	case "cloud":
		return s.behave(argument)
	case "vanish":
		s.cloud.balancer = map[types.UID]map[string]string{}
	case "drift":
		known, _ := s.reconciler.states.get(scenarioKey)
		s.reconciler.states.observe(scenarioKey, known.made, func(row *state) { row.compared([]string{driftGone}, true, time.Now()) })
	case "restart":
		s.restart()
	case "wait":
		pause, err := time.ParseDuration(argument)
		time.Sleep(pause)
		return err
	case "pass":
		return s.pass(ctx)
	default:
		return fmt.Errorf("there is no command %q", d.Cmd)
	}
	return nil
}

func (s *scenario) edit(change func(*corev1.Service)) {
	edited := s.cluster.services[nameOf(scenarioKey)].DeepCopy()
	change(edited)
	s.cluster.put(edited)
}

// behave sets how the cloud answers calls that change something.
func (s *scenario) behave(how string) error {
	failure, found := map[string]error{
		"works": nil, "fails": errors.New("internal error"), "refuses": &provider.TerminalError{Err: errors.New("no such flavor")},
		"throttles": &provider.ThrottledError{RetryAfter: time.Minute, Err: errors.New("quota exceeded")},
		"is-busy":   cloudproviderapi.NewRetryError("creating", 10*time.Second),
	}[how]
	if !found {
		return fmt.Errorf("there is no cloud that %s", how)
	}
	s.cloud.chance = func(operation string) (time.Duration, error) {
		if operation == "get" {
			return 0, nil
		}
		return 0, failure
	}
	return nil
}

// pass makes a pass as Reconcile does, and shows each plan before it is carried out.
func (s *scenario) pass(ctx context.Context) error {
	r := s.reconciler
	if _, err := r.targets.settle(ctx); err != nil {
		return err
	}
	p, err := r.begin(ctx, scenarioKey)
	if err != nil {
		return err
	}
	defer func() { r.states.end(scenarioKey, p.known, p.service) }()
	if wait := time.Until(p.last.Until); wait > 0 {
		_, _ = fmt.Fprintf(s.out, "the next try is due in %s\n", wait)
		s.follow(ctx, p)
		return nil
	}
	failure := s.run(ctx, p)
	result := r.finish(ctx, p, failure)
	if failure != nil {
		s.follow(ctx, p)
		_, _ = fmt.Fprintf(s.out, "the next try is due in %s\n", result.RequeueAfter)
	}
	s.showEvents()
	return nil
}

// run is the reconciler's, with the plans shown.
func (s *scenario) run(ctx context.Context, p *pass) error {
	for range maxRounds {
		if err := s.reconciler.look(ctx, p); err != nil {
			return err
		}
		plan := planFor(p.want, p.seen, time.Now())
		if len(plan) == 0 {
			_, _ = fmt.Fprintln(s.out, "plan: nothing")
			return nil
		}
		s.showPlan(plan)
		if _, err := s.reconciler.carryOut(ctx, p, plan); err != nil {
			return err
		}
		p.want.intent, p.want.inputs = p.known.intent(p.service, s.reconciler.classes), p.service
	}
	return errTooManyRounds
}

// follow has the targets follow the nodes while the Service waits.
func (s *scenario) follow(ctx context.Context, p *pass) {
	s.reconciler.follow(ctx, p)
	s.showEvents()
}

func (s *scenario) showPlan(plan []action) {
	var steps []string
	for _, act := range plan {
		step := string(act.verb)
		if len(act.why) > 0 {
			step += " because " + strings.Join(act.why, ", ")
		}
		steps = append(steps, step)
	}
	_, _ = fmt.Fprintln(s.out, "plan: "+strings.Join(steps, "; "))
}

func (s *scenario) showEvents() {
	for range len(s.events.Events) {
		_, _ = fmt.Fprintln(s.out, "event: "+<-s.events.Events)
	}
}

// shownCalls shows the calls that change something in the cloud.
type shownCalls struct {
	cloudprovider.LoadBalancer
	out *strings.Builder
}

func (c shownCalls) show(call string, nodes []*corev1.Node, err error) {
	if len(nodes) > 0 {
		call += " " + strings.Join(namesOf(nodes), " ")
	}
	if err != nil {
		call += ": " + err.Error()
	}
	_, _ = fmt.Fprintln(c.out, "cloud: "+call)
}

func (c shownCalls) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (
	*corev1.LoadBalancerStatus, error,
) {
	status, err := c.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, nodes)
	c.show("ensure", nodes, err)
	return status, err
}

func (c shownCalls) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	err := c.LoadBalancer.UpdateLoadBalancer(ctx, cluster, service, nodes)
	c.show("update", nodes, err)
	return err
}

func (c shownCalls) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	err := c.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, service)
	c.show("delete", nil, err)
	return err
}

// shownPatches shows what a Service is after each patch.
type shownPatches struct {
	*cluster
	out *strings.Builder
}

func (c shownPatches) Status() client.SubResourceWriter {
	return shownWriter{statusWriter{cluster: c.cluster}, c.out}
}

type shownWriter struct {
	statusWriter
	out *strings.Builder
}

func (w shownWriter) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	if err := w.statusWriter.Patch(ctx, object, patch, options...); err != nil {
		return err
	}
	service := object.(*corev1.Service)
	shown := "no finalizer"
	if hasFinalizer(service) {
		shown = "finalizer"
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		shown += ", " + ingress.IP
	}
	if ready := conditionOf(service); ready != nil {
		shown += fmt.Sprintf(", %s %s: %s", ready.Status, ready.Reason, ready.Message)
	}
	_, _ = fmt.Fprintln(w.out, "patch: "+shown)
	return nil
}
