package service_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/program"
	"github.com/mooring-ccm/mooring/internal/controller/service"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// asProcess makes the test binary a cloud controller manager with nothing but the service controller. Its value is the path of
// the cloud config; the kubeconfig is where every client looks for one.
const asProcess = "MOORING_TEST_SERVICE_PROCESS"

// process runs until it is killed.
func process() int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	file, err := os.Open(os.Getenv(asProcess))
	if err != nil {
		return fail(err)
	}
	config, err := sim.ReadConfig(file)
	if err != nil {
		return fail(err)
	}
	plugin, err := sim.New(config)
	if err != nil {
		return fail(err)
	}
	connection, err := clientcmd.BuildConfigFromFlags("", os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	if err != nil {
		return fail(err)
	}
	running, _, err := harness.Assemble(context.Background(), connection, prometheus.NewRegistry(), logr.Discard(),
		harness.Options{Component: service.Name, Build: builder(plugin)})
	if err != nil {
		return fail(err)
	}
	return fail(running.Start(context.Background()))
}

// victim is a process that is killed at one of its writes to the cloud or to a Service, which all go through here.
type victim struct {
	cloud, apiServer *httptest.Server
	environment      []string

	mu      sync.Mutex
	running *program.Program
	// at is the write at which it dies, counted from one, and after says that the write still takes effect.
	at    int
	after bool
	seen  []string
	dead  chan struct{}
}

// newVictim returns a victim that does not run yet.
func newVictim(t *testing.T, running *simtest.Cloud) *victim {
	t.Helper()
	v := &victim{dead: make(chan struct{})}
	v.cloud = v.proxy(t, running.URL, http.DefaultTransport.(*http.Transport).Clone(), func(r *http.Request) bool { return r.Method != http.MethodGet })
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", "cloud-controller-manager")
	must.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must.NoError(t, err)
	transport, err := rest.TransportFor(config) // adds the token: clients keep theirs from connections without TLS
	must.NoError(t, err)
	v.apiServer = v.proxy(t, config.Host, transport, func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/services/")
	})
	dir := t.TempDir()
	v.environment = []string{
		asProcess + "=" + v.cloudConfig(t, dir, running), clientcmd.RecommendedConfigPathEnvVar + "=" + v.kubeconfig(t, dir),
	}
	return v
}

// proxy forwards what the victim says, until it is dead.
func (v *victim) proxy(t *testing.T, target string, transport http.RoundTripper, counts func(*http.Request) bool) *httptest.Server {
	t.Helper()
	to, err := url.Parse(target)
	must.NoError(t, err)
	forward := httputil.NewSingleHostReverseProxy(to)
	forward.Transport, forward.FlushInterval = transport, -1
	forward.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if counts(r) && v.dies(r, func() { forward.ServeHTTP(httptest.NewRecorder(), r) }) {
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		utilnet.CloseIdleConnectionsFor(transport)
	})
	return server
}

// dies counts a write and kills the victim if it is the one, before or after it takes effect. A write of a dead process does not count.
func (v *victim) dies(r *http.Request, effect func()) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-v.dead:
		return true
	default:
	}
	v.seen = append(v.seen, r.Method)
	if len(v.seen) != v.at {
		return false
	}
	if v.after {
		effect()
	}
	_ = v.running.Signal(syscall.SIGKILL)
	close(v.dead)
	return true
}

func (v *victim) cloudConfig(t *testing.T, dir string, running *simtest.Cloud) string {
	t.Helper()
	data, err := os.ReadFile(running.ConfigFile)
	must.NoError(t, err)
	path := filepath.Join(dir, "cloud.yaml")
	must.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(data), running.URL, v.cloud.URL)), 0o600))
	return path
}

func (v *victim) kubeconfig(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "kubeconfig")
	must.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c"}}]}`, v.apiServer.URL), 0o600))
	return path
}

// run starts the victim and waits until it is dead.
func (v *victim) run(t *testing.T, at int, after bool) {
	t.Helper()
	self, err := os.Executable()
	must.NoError(t, err)
	v.at, v.after = at, after
	v.mu.Lock()
	v.running = localclustertest.StartProgram(t, program.Options{Name: "victim", Path: self, Env: v.environment})
	v.mu.Unlock()
	poll.Until(t, fmt.Sprintf("the process dies at write %d", at), func(context.Context) error {
		select {
		case <-v.dead:
			return nil
		default:
			v.mu.Lock()
			defer v.mu.Unlock()
			return fmt.Errorf("it has written %q", v.seen)
		}
	})
	localclustertest.AwaitEnd(t, v.running)
	if state := v.running.State(); state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended by itself: %s", state)
	}
}

// scenario is something that the controller does in several writes, and may be killed at each of them.
type scenario struct {
	// writes is how many there are, when nothing interferes.
	writes int
	// provided says that the Service has its load balancer before the scenario begins.
	provided bool
	// fault is what the cloud fails with meanwhile.
	fault *api.Fault
	// begin is what the user does; it is called before the victim runs.
	begin func(t *testing.T, name string)
	// meanwhile is what the user does while no manager runs.
	meanwhile func(t *testing.T, name string)
	// wants says that the Service has a load balancer in the end, by its host name if hostname says so, and exists that there
	// still is a Service.
	wants, exists, hostname bool
}

var scenarios = map[string]scenario{
	"create": {writes: 3, wants: true, exists: true},
	"create-deleted-meanwhile": {writes: 3,
		meanwhile: func(t *testing.T, name string) { deleteService(t, name) }},
	"create-changed-meanwhile": {writes: 3, exists: true, meanwhile: func(t *testing.T, name string) {
		changeService(t, name, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	}},
	// The creation fails in the cloud, and it is deleted and made anew: the finalizer, the creation, the deletion, another creation, the
	// address.
	"create-twice": {writes: 5, wants: true, exists: true,
		fault: &api.Fault{Operation: api.OpCreateLoadBalancer, Mode: api.FaultAsync, Count: 1}},
	"update": {writes: 2, provided: true, wants: true, exists: true, hostname: true, begin: func(t *testing.T, name string) {
		changeService(t, name, func(s *corev1.Service) { s.Annotations = map[string]string{sim.AnnotationAddressing: "hostname"} })
	}},
	"delete": {writes: 2, provided: true, begin: func(t *testing.T, name string) { deleteService(t, name) }},
	"type": {writes: 2, provided: true, exists: true, begin: func(t *testing.T, name string) {
		changeService(t, name, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	}},
}

// Killed after any write of anything it does, before it learns that the write took effect, the controller leaves nothing behind
// that the next one does not finish: the Service is as it shall be, and the cloud holds exactly what it should. To be killed
// before a write is the same to everybody else as to be killed after the one before it.
func TestKilledAtEveryStep(t *testing.T) {
	for name, s := range scenarios {
		for at := range s.writes + 1 {
			t.Run(fmt.Sprintf("%s/%d", name, at), func(t *testing.T) {
				if at == 0 {
					s.play(t, name+"-0", 1, false)
					return
				}
				s.play(t, fmt.Sprintf("%s-%d", name, at), at, true)
			})
		}
	}
}

// The numbers of writes in the scenarios are all that there are: nothing is killed at the one after the last.
func TestStoriesAreComplete(t *testing.T) {
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			if s.meanwhile != nil {
				return // the same as another one
			}
			running, plugin := s.prepare(t, "whole-"+name)
			m := startManager(t, cluster, plugin)
			before := running.Service.Counts().Received(writeOps...)
			s.act(t, running, "whole-"+name)
			s.await(t, running, "whole-"+name)
			m.Stop()
			got := int(running.Service.Counts().Received(writeOps...)-before) + len(m.writesOf(t, "whole-"+name))
			if got != s.writes {
				t.Errorf("%d writes, the scenario says %d", got, s.writes)
			}
		})
	}
}

// prepare starts a cloud of its own and brings the Service to where the scenario begins.
func (s scenario) prepare(t *testing.T, name string) (*simtest.Cloud, *sim.Cloud) {
	t.Helper()
	running, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	if s.provided {
		m := startManager(t, cluster, plugin)
		createService(t, name)
		waitReady(t, name, "True Provided")
		m.Stop()
	}
	return running, plugin
}

// act does what begins the scenario.
func (s scenario) act(t *testing.T, running *simtest.Cloud, name string) {
	t.Helper()
	if s.fault != nil {
		must.NoError(t, running.Service.AddFault(*s.fault))
	}
	if !s.provided {
		createService(t, name)
	}
	if s.begin != nil {
		s.begin(t, name)
	}
}

// play lets the scenario happen, and kills the manager in its middle.
func (s scenario) play(t *testing.T, name string, at int, after bool) {
	running, plugin := s.prepare(t, name)
	s.act(t, running, name)
	newVictim(t, running).run(t, at, after)
	running.Service.ClearFaults()
	if s.meanwhile != nil {
		s.meanwhile(t, name)
	}
	startManager(t, cluster, plugin)
	s.await(t, running, name)
}

// await waits for the end of the scenario.
func (s scenario) await(t *testing.T, running *simtest.Cloud, name string) {
	t.Helper()
	poll.Until(t, "the end of the scenario", func(ctx context.Context) error {
		left := balancers(t, running)
		balancer, has := left[name]
		found, err := admin.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return err
		case (err == nil) != s.exists:
			return fmt.Errorf("the Service exists: %t, want %t; the cloud has %v", err == nil, s.exists, left)
		case has != s.wants || (!has && len(left) != 0) || (has && len(left) != 1):
			return fmt.Errorf("the cloud has %v", left)
		case s.exists && s.wants:
			return s.provides(found, balancer)
		case s.exists && (slices.Contains(found.Finalizers, service.Finalizer) || len(found.Status.Conditions)+len(found.Status.LoadBalancer.Ingress) > 0):
			return fmt.Errorf("finalizers %v, status %+v", found.Finalizers, found.Status)
		default:
			return nil
		}
	})
}

// provides returns what a Service lacks that has its load balancer.
func (s scenario) provides(found *corev1.Service, balancer api.LoadBalancer) error {
	shown := found.Status.LoadBalancer.Ingress
	switch {
	case readiness(found) != "True Provided" || !slices.Contains(found.Finalizers, service.Finalizer):
		return fmt.Errorf("it is %q, with finalizers %v", readiness(found), found.Finalizers)
	case balancer.State != api.LoadBalancerActive || !slices.Equal(balancer.Targets, []string{instanceID(1)}):
		return fmt.Errorf("the load balancer is %s and has the targets %v", balancer.State, balancer.Targets)
	case (balancer.Hostname != "") != s.hostname:
		return fmt.Errorf("the load balancer has the host name %q", balancer.Hostname)
	case len(shown) != 1 || shown[0].Hostname != balancer.Hostname || (balancer.Hostname == "" && shown[0].IP != balancer.Addresses[0]):
		return fmt.Errorf("it shows %+v, the load balancer has %v %q", shown, balancer.Addresses, balancer.Hostname)
	default:
		return nil
	}
}
