package dead

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/dev/bmc/redfishtest"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	metalpower "github.com/mooring-ccm/mooring/providers/metal/machines/power"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a real API server, with machines whose controller is a simulated Redfish service.
type fixture struct {
	*testing.T
	config  *rest.Config
	client  *kubernetes.Clientset
	service *redfishsim.Service
	redfish config.Redfish
	// password is the file with the service's.
	password string
	registry *prometheus.Registry
	recorder *record.FakeRecorder
	// passes counts the controller's.
	passes atomic.Int64

	mu sync.Mutex
	// told are the nodes whose machines were to be turned off, in order, and hang those whose controller never answers.
	told []string
	hang map[string]bool
}

// uuidOf is the system UUID of the machine with a name.
func uuidOf(name string) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", []byte(name)) }

func start(t *testing.T) *fixture {
	t.Helper()
	cluster := localclustertest.Start(t)
	f := &fixture{
		T: t, config: cluster.AdminConfig(), service: redfishsim.New("admin", "secret"), registry: prometheus.NewRegistry(),
		recorder: record.NewFakeRecorder(100), hang: map[string]bool{}, password: filepath.Join(t.TempDir(), "password"),
	}
	if err := os.WriteFile(f.password, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, _ := redfishtest.Start(t, f.service)
	f.redfish = config.Redfish{Endpoint: url, Auth: config.RedfishBasic, InsecureSkipVerify: true}
	var err error
	if f.client, err = kubernetes.NewForConfig(f.config); err != nil {
		t.Fatal(err)
	}
	return f
}

// node creates a node with a machine that is on.
func (f *fixture) node(name string, ready v1.ConditionStatus, annotations map[string]string) {
	f.Helper()
	f.service.SetPower(name, redfishsim.On)
	f.service.SetUUID(name, uuidOf(name))
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: v1.NodeSpec{ProviderID: "metal://" + name}}
	created, err := f.client.CoreV1().Nodes().Create(f.Context(), node, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	created.Status.NodeInfo.SystemUUID = uuidOf(name)
	created.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}}
	if _, err := f.client.CoreV1().Nodes().UpdateStatus(f.Context(), created, metav1.UpdateOptions{}); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) Named(node string) *config.Machine { return machineOf(node) }
func (f *fixture) Known(string) bool                 { return true }
func (f *fixture) Claims(*v1.Node) []string          { return nil }
func (f *fixture) Subscribe(func()) func()           { return func() {} }
func (f *fixture) GoesToSleep(node *v1.Node) bool    { return node.Name == "asleep" }

// Observe is what the poller would say of a node's machine.
func (f *fixture) Observe(node *v1.Node) metalpower.Observation {
	state := metalpower.On
	if f.service.Power(node.Name) == redfishsim.Off {
		state = metalpower.Off
	}
	return metalpower.Observation{State: state, Verified: true, Trusted: true}
}

// TurnOff turns off the machine of a node by Redfish, or hangs.
func (f *fixture) TurnOff(ctx context.Context, node *v1.Node) error {
	f.mu.Lock()
	f.told = append(f.told, node.Name)
	hangs := f.hang[node.Name]
	f.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	redfish := f.redfish
	redfish.SystemID = node.Name
	return metalpower.TurnOff(ctx, &config.Machine{Name: node.Name, BMC: &config.BMC{
		Redfish: &redfish, Credentials: &config.Credentials{Username: "admin", PasswordFile: f.password},
	}}, node.Status.NodeInfo.SystemUUID)
}

// turnedOff returns the nodes whose machines were to be turned off, in order.
func (f *fixture) turnedOff() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.told, " ")
}

// run runs a controller until the test ends.
func (f *fixture) run(access *rest.Config) {
	f.Helper()
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		f.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(f.client, 0)
	controller, err := New(Options{
		Client: client.CoreV1(), Leases: client.CoordinationV1(), LeaseNamespace: "kube-system", LeaseName: "fencing", Machines: f,
		Nodes: factory.Core().V1().Nodes(), Recorder: f.recorder,
		Self: func() (self.Replica, error) { return self.Replica{Names: []string{"own"}}, nil }, Registerer: f.registry, Period: 50 * time.Millisecond,
		Settings: func() Settings {
			f.passes.Add(1)
			return Settings{Enabled: true, After: time.Hour, Fence: Fence{
				Enabled: true, After: 500 * time.Millisecond, MaxUnknownPercent: 70, Interval: time.Second, Timeout: 15 * time.Second,
			}}
		},
	})
	if err != nil {
		f.Fatal(err)
	}
	runUntilEnd(f.T, controller, factory)
}

// recorded returns what is recorded of a machine.
func (f *fixture) recorded(name string) string {
	f.Helper()
	lease, err := f.client.CoordinationV1().Leases("kube-system").Get(f.Context(), "fencing", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		f.Fatal(err)
	}
	record, err := decode(lease.Annotations[AttemptsAnnotation], time.Now())
	if err != nil {
		f.Fatal(err)
	}
	switch one, ok := record.of(name); {
	case !ok:
		return ""
	case one.Fenced:
		return "fenced"
	default:
		return "attempted"
	}
}

// afterPasses waits for so many passes that whatever is to be done has been done.
func (f *fixture) afterPasses() {
	f.Helper()
	want := f.passes.Load() + 60
	f.eventually("passes over the nodes", func() bool { return f.passes.Load() >= want })
}

func (f *fixture) eventually(what string, holds func() bool) {
	f.Helper()
	poll.Until(f, what, func(context.Context) error { return poll.Holds(holds()) })
}

// event waits for an event that begins like this, and leaves out others.
func (f *fixture) event(prefix string) {
	f.Helper()
	late := time.After(poll.Deadline)
	for {
		select {
		case event := <-f.recorder.Events:
			if strings.HasPrefix(event, prefix) {
				return
			}
			f.Logf("event %s", event)
		case <-late:
			f.Fatalf("no event %s", prefix)
		}
	}
}

// One controller hangs forever. The machine of the other silent node is turned off all the same, confirmed and marked; the machines of all
// other nodes run on. A machine that an operator turns on again is left alone, and once its node is ready it is as before.
func TestSilentMachinesAreTurnedOff(t *testing.T) {
	f := start(t)
	f.hang["a-hangs"] = true
	f.node("own", v1.ConditionUnknown, nil)
	f.node("ready", v1.ConditionTrue, nil)
	f.node("ready-2", v1.ConditionTrue, nil)
	f.node("not-ready", v1.ConditionFalse, nil)
	f.node("excluded", v1.ConditionUnknown, map[string]string{ExcludeAnnotation: "repair"})
	f.node("asleep", v1.ConditionUnknown, nil)
	f.node("a-hangs", v1.ConditionUnknown, nil)
	f.node("silent", v1.ConditionUnknown, nil)
	f.run(f.config)
	f.event("Warning FencingHeld The node is silent and its machine is not turned off: this replica runs on it")
	f.event("Warning FencingMachine")
	f.event("Warning FencingFailed The machine may still have power: context deadline exceeded")
	f.event("Warning MachineFenced")
	f.eventually("it is recorded", func() bool { return f.recorded("silent") == "fenced" })
	if got := f.turnedOff(); got != "a-hangs silent" {
		t.Errorf("turned off: %s", got)
	}
	for name, want := range map[string]string{
		"silent": redfishsim.Off, "own": redfishsim.On, "ready": redfishsim.On, "not-ready": redfishsim.On, "excluded": redfishsim.On, "asleep": redfishsim.On, "a-hangs": redfishsim.On,
	} {
		if got := f.service.Power(name); got != want {
			t.Errorf("the machine of node %s is %s", name, got)
		}
	}
	f.eventually("the attempts are counted", func() bool {
		return testutil.GatherAndCompare(f.registry, strings.NewReader(`
# HELP mooring_metal_fencing_attempts_total Attempts to turn off the machine of a silent node, by result: succeeded, failed, or outdated if the node has changed before.
# TYPE mooring_metal_fencing_attempts_total counter
mooring_metal_fencing_attempts_total{result="failed"} 1
mooring_metal_fencing_attempts_total{result="succeeded"} 1
`), "mooring_metal_fencing_attempts_total") == nil
	})
	f.service.SetPower("silent", redfishsim.On)
	f.event("Warning FencingHeld The node is silent and its machine is not turned off: it was turned off before")
	patch := []byte(`[{"op":"replace","path":"/status/conditions/0/status","value":"True"}]`)
	if _, err := f.client.CoreV1().Nodes().Patch(f.Context(), "silent", "application/json-patch+json", patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	f.eventually("the record is clear", func() bool { return f.recorded("silent") == "" })
	if got := f.turnedOff(); got != "a-hangs silent" {
		t.Errorf("turned off: %s", got)
	}
}

// A majority of nodes falls silent, as when a switch dies: nothing is turned off, and an event says why.
func TestManySilentNodesAreLeftAlone(t *testing.T) {
	f := start(t)
	f.node("own", v1.ConditionTrue, nil)
	for i := range 3 {
		f.node(fmt.Sprint("n", i), v1.ConditionUnknown, nil)
	}
	f.run(f.config)
	for range 3 {
		f.event("Warning FencingHeld The node is silent and its machine is not turned off: more nodes are silent than")
	}
	f.afterPasses()
	if got := f.turnedOff(); got != "" {
		t.Errorf("turned off: %s", got)
	}
}

// refusing is a transport that sends no writes, as in a dry run, or nothing at all.
type refusing struct {
	next  http.RoundTripper
	reads bool
}

func (r refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet && r.reads {
		return r.next.RoundTrip(request)
	}
	return nil, errors.New("refused by the test")
}

// Nothing is turned off in a dry run, whose writes are refused; nor while the API server does not answer, though the cache has the
// node as silent.
func TestNothingIsTurnedOffWithoutARecord(t *testing.T) {
	f := start(t)
	f.node("own", v1.ConditionTrue, nil)
	f.node("ready", v1.ConditionTrue, nil)
	f.node("silent", v1.ConditionUnknown, nil)
	for name, reads := range map[string]bool{"dry run": true, "unreachable": false} {
		t.Run(name, func(t *testing.T) {
			inner := &fixture{
				T: t, config: f.config, client: f.client, service: f.service, redfish: f.redfish, password: f.password,
				registry: prometheus.NewRegistry(), recorder: record.NewFakeRecorder(100),
			}
			access := rest.CopyConfig(f.config)
			access.Wrap(func(next http.RoundTripper) http.RoundTripper { return refusing{next, reads} })
			inner.run(access)
			if reads {
				inner.eventually("an attempt fails", func() bool {
					return testutil.CollectAndCount(inner.registry, "mooring_metal_fencing_attempts_total") > 0
				})
			}
			inner.afterPasses()
			if got := inner.turnedOff() + inner.recorded("silent"); got != "" {
				t.Errorf("turned off or marked: %s", got)
			}
		})
	}
}

func TestOptionsAreRequired(t *testing.T) {
	_, err := New(Options{})
	if err == nil || strings.Count(err.Error(), "is required") != 9 {
		t.Errorf("error %v", err)
	}
}

// runUntilEnd runs a controller until the test ends.
func runUntilEnd(t *testing.T, controller *Controller, factory informers.SharedInformerFactory) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	factory.Core().V1().Nodes().Informer()
	factory.StartWithContext(ctx)
	go func() { done <- controller.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
		factory.Shutdown()
	})
}
