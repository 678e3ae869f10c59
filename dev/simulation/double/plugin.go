package double

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
)

// ProviderName is the name of the plugin.
const ProviderName = "double"

const (
	// ReadOutstanding and writeOutstanding are after how long a call no longer counts as under way.
	ReadOutstanding  = time.Minute
	writeOutstanding = 10 * time.Minute
	// sharedSetting is how many writes of routes the reference makes at the same time.
	sharedSetting = 200
)

// Allowed returns how many calls of a method may be made at the same time: as many as the reference makes by its defaults, or as the plugin declares.
func Allowed(method string, character draw.Plugin) int {
	reads := strings.HasPrefix(method, "Instance") || method == "GetLoadBalancer"
	if reads && character.Has(draw.Declaring) { // as many as declaring.Capabilities says
		return sharedSetting
	}
	switch method {
	case "InstanceMetadata": // new nodes, and the status pass beside it
		return 2
	case "NodeAddresses", "NodeAddressesByProviderID": // the same of the old interfaces
		return 2
	case "InstanceID": // new nodes, and nodes without an ID that are silent
		return 2
	case "GetLoadBalancer": // before a load balancer is deleted, and after a change of targets that failed
		return 2
	case "CreateRoute", "DeleteRoute":
		return sharedSetting
	}
	return 1
}

var (
	errRefused = errors.New("the plugin's limiter refuses the call: rate limit exceeded")
	// errMistake is a panic of the plugin.
	errMistake = errors.New("a mistake of the plugin")
)

// plugin is the plugin of one process. It declares nothing.
type plugin struct {
	cloudprovider.Interface
	world   *World
	process *managers.Incarnation
	number  int
	// other says that it is the plugin of another manager than the one that is judged.
	other bool
	// began is when the first call of the process came, negative before. The lock of the world guards it.
	began time.Duration
	// client is for a plugin that writes to the objects that it is given.
	client kubernetes.Interface
}

func (p *plugin) ProviderName() string                             { return ProviderName }
func (p *plugin) HasClusterID() bool                               { return true }
func (p *plugin) InstancesV2() (cloudprovider.InstancesV2, bool)   { return instances{p}, !p.old() }
func (p *plugin) Instances() (cloudprovider.Instances, bool)       { return legacy{plugin: p}, p.old() }
func (p *plugin) Zones() (cloudprovider.Zones, bool)               { return legacy{plugin: p}, p.old() }
func (p *plugin) old() bool                                        { return p.world.draw.Plugin.Has(draw.OldInterfaces) }
func (p *plugin) Routes() (cloudprovider.Routes, bool)             { return router{p}, true }
func (p *plugin) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return loadBalancer{p}, true }

// Initialize implements cloudprovider.Interface.
func (p *plugin) Initialize(clients cloudprovider.ControllerClientBuilder, _ <-chan struct{}) {
	if p.world.draw.Plugin.Has(draw.WritesObjects) {
		p.client = clients.ClientOrDie(ProviderName)
	}
}

// call makes a call: it is recorded, takes its time, and fails as drawn. work answers it with the lock of the world held.
func (p *plugin) call(ctx context.Context, method, object string, arguments arguments, work func(dice *rand.Rand) error) error {
	w := p.world
	w.gate.wait(method + " " + object)
	w.mu.Lock()
	call, dice := w.begin(p.number, method, object, arguments)
	if p.began < 0 {
		p.began = w.now()
	}
	if w.active = p.process; p.other {
		call.Other, call.Overlap, call.Repeated, call.Shared, call.Missing = true, 0, false, "", nil
	}
	fatal := w.draw.Plugin.Has(draw.NoMutex) && call.Overlap > Allowed(method, w.draw.Plugin)
	w.mu.Unlock()
	if fatal {
		p.process.Kill(fmt.Errorf("concurrent map writes in %d calls of %s", call.Overlap, method))
	}
	stop := context.AfterFunc(ctx, func() { w.withdraw(p, call) })
	err := p.wait(method, dice)
	if err == nil {
		p.annotate(ctx, arguments)
	}
	w.gate.wait("end of " + method + " " + object)
	stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && !p.ended() {
		if err = work(dice); err == nil {
			arguments.answers.keep(call)
		}
		if err == nil && w.draw.Plugin.Has(draw.PartialSuccess) && strings.Contains(method, "LoadBalancer") && w.fails(dice) {
			err = fmt.Errorf("%s: the cloud has not confirmed it in time", method)
		}
	}
	arguments.check(w, call)
	call.Denied = arguments.answers.denied != nil && *arguments.answers.denied
	call.Ended, call.Err = w.now(), err
	w.running = slices.DeleteFunc(w.running, func(one *Call) bool { return one == call })
	if errors.Is(err, errMistake) {
		panic(err.Error())
	}
	return err
}

// ended reports whether the process has ended.
func (p *plugin) ended() bool {
	select {
	case <-p.process.Ended():
		return true
	default:
		return false
	}
}

// begin records the start of a call. The lock is held.
func (w *World) begin(process int, method, object string, arguments arguments) (*Call, *rand.Rand) {
	key := method + " " + object
	w.asked[key]++
	call := &Call{Method: method, Object: object, Process: process, Began: w.now(), Ended: -1, Overlap: 1}
	for _, other := range w.running {
		outstanding := ReadOutstanding
		if strings.HasPrefix(method, "Ensure") || strings.HasPrefix(method, "Update") || strings.HasSuffix(method, "Route") {
			outstanding = writeOutstanding
		}
		if other.Process != process {
			continue
		}
		switch {
		case other.Method != method:
		case call.Began-other.Began < outstanding:
			call.Overlap++
		default:
			call.Beside++
		}
		if object != "" && other.Object == object && (other.Method == method || strings.HasSuffix(other.Method, "LoadBalancer") && strings.Contains(method, "LoadBalancer")) {
			call.Repeated = true
		}
	}
	w.record.Calls = append(w.record.Calls, call)
	w.running = append(w.running, call)
	arguments.record(w, call)
	return call, draw.Dice(w.draw.Seed, method, object, w.asked[key])
}

// withdraw records that the manager ended the context of a call, unless its process ends.
func (w *World) withdraw(p *plugin, call *Call) {
	if p.ended() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if call.Ended < 0 && w.now() > w.planned && !p.other {
		call.Withdrawn = w.now()
	}
}

// wait takes the time of a call and returns its error.
func (p *plugin) wait(method string, dice *rand.Rand) error {
	w, character := p.world, p.world.draw.Plugin
	if character.Has(draw.ColdCache) {
		w.mu.Lock()
		fill := p.began + character.CacheFill - w.now()
		w.mu.Unlock()
		p.pause(fill)
		w.gate.wait("filled for " + method)
	}
	if character.Has(draw.WaitingLimiter) || character.Has(draw.RefusingLimiter) {
		if err := p.limit(character); err != nil {
			return err
		}
	}
	latency := time.Duration(float64(character.Latency) * (0.5 + dice.Float64()))
	if character.Has(draw.HeavyTailed) && dice.IntN(10) == 0 {
		latency *= 20
	}
	failing := w.fails(dice)
	switch {
	case failing && character.Has(draw.Hanging):
		select {
		case <-w.calm:
		case <-p.process.Ended():
		}
		return fmt.Errorf("%s: the connection was reset", method)
	case failing && character.Has(draw.Panicking):
		return fmt.Errorf("%w in %s", errMistake, method)
	case failing && character.Has(draw.Failing):
		p.pause(latency)
		return errorOf(method, dice)
	case failing && character.Has(draw.RetryErrors) && strings.HasSuffix(method, "LoadBalancer"):
		p.pause(latency)
		return cloudproviderapi.NewRetryError(method+": the load balancer is still being built", time.Duration(2+dice.IntN(60))*time.Second)
	}
	p.pause(latency)
	return nil
}

// fails reports whether a call misbehaves.
func (w *World) fails(dice *rand.Rand) bool {
	return dice.Float64() < w.draw.Plugin.FaultRate && w.now() < draw.Disturbed && w.now() > draw.Settle/4
}

// errorOf draws an error of any class.
func errorOf(method string, dice *rand.Rand) error {
	resource := schema.GroupResource{Group: "cloud.example.com", Resource: "things"}
	errs := []error{
		errors.New("internal server error"), errors.New("i/o timeout"), errQuota, errors.New("forbidden"), errors.New("429 Too Many Requests"),
		context.DeadlineExceeded, context.Canceled, io.ErrUnexpectedEOF, os.ErrPermission,
		&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}, &net.DNSError{Err: "no such host", Name: "cloud.example.com", IsNotFound: true},
		apierrors.NewNotFound(resource, "thing"), apierrors.NewConflict(resource, "thing", errors.New("it is being changed")),
		apierrors.NewForbidden(resource, "thing", errors.New("no")), apierrors.NewTooManyRequests("slow down", 7),
		cloudprovider.NotImplemented,
	}
	return fmt.Errorf("%s: %w", method, errs[dice.IntN(len(errs))])
}

// annotate has the plugin write to the objects that it was given: the first time, as a plugin does that keeps its state there.
func (p *plugin) annotate(ctx context.Context, given arguments) {
	const written = "double.example.com/written"
	patch := []byte(`{"metadata":{"annotations":{"` + written + `":"true"}}}`)
	switch {
	case p.client == nil:
	case given.service != nil && given.service.Annotations[written] == "" && given.service.DeletionTimestamp == nil:
		_, _ = p.client.CoreV1().Services(given.service.Namespace).Patch(ctx, given.service.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	case given.node != nil && given.node.Annotations[written] == "":
		_, _ = p.client.CoreV1().Nodes().Patch(ctx, given.node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
}

// limit is the plugin's own limiter, which knows no context.
func (p *plugin) limit(character draw.Plugin) error {
	w := p.world
	w.mu.Lock()
	now := w.now()
	turn := max(now, w.next)
	if character.Has(draw.RefusingLimiter) && turn > now {
		w.mu.Unlock()
		return errRefused
	}
	w.next = turn + character.LimiterInterval
	w.mu.Unlock()
	p.pause(turn - now)
	return nil
}

// pause waits, but not longer than the process lives.
func (p *plugin) pause(pause time.Duration) {
	if pause <= 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.process.Ended():
	}
}

// arguments are what a call was given.
type arguments struct {
	node    *corev1.Node
	service *corev1.Service
	nodes   []*corev1.Node
	answers answers
}

// mark is what a plugin that changes its arguments leaves in them.
const mark = "double.example.com/mark"

// record notes what a call was given, and whether another call has changed it or still uses it. The lock is held.
func (a arguments) record(w *World, call *Call) {
	given := func(kind string, address any, labels map[string]string) {
		if by := labels[mark]; by != "" {
			call.Shared = fmt.Sprintf("its %s carries what %s has changed", kind, by)
		}
		if other := w.seen[address]; other != nil && call.Shared == "" {
			call.Shared = fmt.Sprintf("its %s is the one that %s about %s at %s got", kind, other.Method, other.Object, other.Began.Round(time.Second))
		}
		w.seen[address] = call
	}
	if a.node != nil {
		given("node", a.node, a.node.Labels)
	}
	if a.service != nil {
		given("Service", a.service, a.service.Annotations)
		if len(a.service.Spec.Ports) > 0 {
			call.Port = a.service.Spec.Ports[0].Port
		}
	}
	for _, node := range a.nodes {
		given("node "+node.Name, node, node.Labels)
		call.Targets = append(call.Targets, node.Name)
	}
	sort.Strings(call.Targets)
	if len(a.nodes) > 0 {
		given("list of nodes", &a.nodes[0], nil)
	}
	if a.service != nil && strings.HasSuffix(call.Method, "eLoadBalancer") {
		call.Missing = w.missing(call.Targets)
	}
}

// check changes the arguments if that is the plugin's character. The lock is held.
func (a arguments) check(w *World, call *Call) {
	if !w.draw.Plugin.Has(draw.Mutating) {
		return
	}
	name := fmt.Sprintf("%s of %s at %s", call.Method, call.Object, call.Began.Round(time.Second))
	if a.node != nil {
		set(&a.node.Labels, name)
	}
	if a.service != nil {
		set(&a.service.Annotations, name)
	}
	for _, node := range a.nodes {
		set(&node.Labels, name)
	}
	slices.Reverse(a.nodes)
}

// set replaces the map instead of changing it: the reference reads its informers' objects meanwhile, and Go would end the whole simulation.
func set(labels *map[string]string, value string) {
	changed := maps.Clone(*labels)
	if changed == nil {
		changed = map[string]string{}
	}
	changed[mark] = value
	*labels = changed
}

// grace is how long a node has to be a target before a list without it is wrong: what a manager knows is a little old.
const grace = 10 * time.Second

// missing returns the nodes that the reference would have as targets and that are not in a list. The lock is held.
func (w *World) missing(targets []string) []string {
	var missing []string
	for name, state := range w.nodes {
		if state.eligible >= 0 && w.now()-state.eligible > grace && !slices.Contains(targets, name) {
			missing = append(missing, name)
		}
	}
	sort.Strings(missing)
	return missing
}
