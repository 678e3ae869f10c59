package ccm

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/client-go/rest"
	ccmconfig "k8s.io/cloud-provider/config"
	configv1alpha1 "k8s.io/cloud-provider/config/v1alpha1"
	componentconfig "k8s.io/component-base/config"
	"k8s.io/component-base/configz"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/metrics/prometheus/slis"
	genericapp "k8s.io/controller-manager/app"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/ccm/plan"
	"github.com/mooring-ccm/mooring/internal/election"
)

// configzName is the name of the configuration in /configz, as in the reference.
const configzName = "cloudcontrollermanager.config.k8s.io"

// farewell is how long a process that ends waits for requests to the secure port to end, and for its last spans to be taken: a tenth of what its
// controllers may take.
func (c *config) farewell() time.Duration { return c.gracefulShutdownTimeout / 10 }

// probes are the health checks of the secure port.
type probes struct {
	// live are those of /livez and, as in the reference, /healthz: if one fails, only a restart helps.
	live []healthz.HealthChecker
	// ready are those of /readyz: a standby is ready to take over when its caches are warm, a leader when it works.
	ready []healthz.HealthChecker
}

// serve opens the secure port and serves it until stop is called, which may wait for the requests that are under way.
func serve(ctx context.Context, c *config, handler http.Handler) (stop func(wait bool), err error) {
	if c.secureServing.BindPort == 0 && c.secureServing.Listener == nil {
		log.FromContext(ctx).Info("Serving neither health nor metrics: --secure-port is 0")
		return func(bool) {}, nil
	}
	if err := c.secureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("self-signed certificate for the secure port: %w", err)
	}
	var (
		info           *server.SecureServingInfo
		loopback       *rest.Config
		authentication server.AuthenticationInfo
		authorization  server.AuthorizationInfo
	)
	if err := c.secureServing.ApplyTo(&info, &loopback); err != nil {
		return nil, fmt.Errorf("secure port: %w", err)
	}
	defer func() {
		if err != nil {
			_ = info.Listener.Close()
		}
	}()
	if err := c.authentication.ApplyTo(&authentication, info, nil); err != nil {
		return nil, fmt.Errorf("delegated authentication of the secure port (needs the Role extension-apiserver-authentication-reader, "+
			"or --authentication-tolerate-lookup-failure): %w", err)
	}
	if err := c.authorization.ApplyTo(&authorization); err != nil {
		return nil, fmt.Errorf("delegated authorization of the secure port: %w", err)
	}
	server.AuthorizeClientBearerToken(loopback, &authentication, &authorization)

	ended := make(chan struct{})
	guarded := genericapp.BuildHandlerChain(handler, &authorization, &authentication)
	release := holdCA(info)
	stopped, listenerStopped, err := info.Serve(guarded, c.farewell(), ended)
	if err != nil {
		return nil, fmt.Errorf("secure port: %w", err)
	}
	release()
	c.servingCert = info.Cert
	return func(wait bool) {
		close(ended)
		if wait {
			<-listenerStopped
			<-stopped
		}
	}, nil
}

// servingKey identifies the key of the secure port's certificate as it is now, for the lease: by it `mooring status` knows the leader. It is
// empty where none is served.
func (c *config) servingKey() string {
	if c.servingCert == nil {
		return ""
	}
	encoded, _ := c.servingCert.CurrentCertKeyContent()
	block, _ := pem.Decode(encoded)
	if block == nil {
		return ""
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return ""
	}
	return election.ServingKey(certificate)
}

// newHandler returns what the secure port serves, before authentication and authorization.
func newHandler(c *config, checks probes, metrics prometheus.Gatherer) (http.Handler, error) {
	settings := c.component
	paths := mux.NewPathRecorderMux(programName)
	healthz.InstallHandler(paths, checks.live...)
	healthz.InstallLivezHandler(paths, checks.live...)
	healthz.InstallReadyzHandler(paths, checks.ready...)
	installDebugging(paths, settings.Generic.Debugging)
	configuration, err := configzHandler(settings)
	if err != nil {
		return nil, err
	}
	paths.Handle(configz.DefaultConfigzPath, configuration)
	paths.Handle("/metrics", metricsHandler(metrics))
	slis.SLIMetricsWithReset{}.Install(paths)
	if c.dryRun != nil {
		paths.Handle(plan.Path, c.planHandler(time.Now()))
	}
	return paths, nil
}

// installDebugging serves /debug as --profiling and --contention-profiling say.
func installDebugging(paths *mux.PathRecorderMux, settings componentconfig.DebuggingConfiguration) {
	if !settings.EnableProfiling {
		return
	}
	routes.Profiling{}.Install(paths)
	if settings.EnableContentionProfiling {
		goruntime.SetBlockProfileRate(1)
	}
	routes.DebugFlags{}.Install(paths, "v", routes.StringFlagPutHandler(logs.GlogSetter))
}

// configzHandler serves the configuration in the form of k8s.io/component-base/configz, whose registry is one for the whole
// process and takes a name only once.
func configzHandler(settings ccmconfig.CloudControllerManagerConfiguration) (http.Handler, error) {
	versioned := &configv1alpha1.CloudControllerManagerConfiguration{}
	err := configv1alpha1.Convert_config_CloudControllerManagerConfiguration_To_v1alpha1_CloudControllerManagerConfiguration(&settings, versioned, nil)
	if err != nil {
		return nil, fmt.Errorf("converting the configuration for /configz: %w", err)
	}
	versioned.SetGroupVersionKind(configv1alpha1.SchemeGroupVersion.WithKind("CloudControllerManagerConfiguration"))
	body, err := json.Marshal(map[string]any{configzName: versioned})
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration for /configz: %w", err)
	}
	return http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		response.Header().Set("Content-Type", "application/json")
		response.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = response.Write(body)
	}), nil
}

// heldCA is the client CA of the secure port. It stays as it was first read until release: the server begins to follow its CA before it
// has finished the configuration that it copies for each change (SecureServingInfo.Serve of k8s.io/apiserver v0.37), a data race with a CA
// that changes just then, as it does when the API server could not be read before.
type heldCA struct {
	dynamiccertificates.CAContentProvider
	runner   dynamiccertificates.ControllerRunner
	first    func() []byte
	released atomic.Bool

	mu        sync.Mutex
	listeners []dynamiccertificates.Listener
}

// holdCA puts a heldCA in the place of a CA that may change. The function it returns releases it, and is to be called once the server
// serves.
func holdCA(info *server.SecureServingInfo) (release func()) {
	runner, changes := info.ClientCA.(dynamiccertificates.ControllerRunner)
	if !changes {
		return func() {}
	}
	held := &heldCA{CAContentProvider: info.ClientCA, runner: runner, first: sync.OnceValue(info.ClientCA.CurrentCABundleContent)}
	info.ClientCA = held
	return held.release
}

// RunOnce reads the CA once.
func (h *heldCA) RunOnce(ctx context.Context) error { return h.runner.RunOnce(ctx) }

// Run follows the CA until ctx ends.
func (h *heldCA) Run(ctx context.Context, workers int) { h.runner.Run(ctx, workers) }

// AddListener has a listener told of changes, and of the release.
func (h *heldCA) AddListener(listener dynamiccertificates.Listener) {
	h.CAContentProvider.AddListener(listener)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners = append(h.listeners, listener)
}

// CurrentCABundleContent returns what was read first, and from the release on what there is.
func (h *heldCA) CurrentCABundleContent() []byte {
	if !h.released.Load() {
		return h.first()
	}
	return h.CAContentProvider.CurrentCABundleContent()
}

// release lets changes through, and says that there may have been one.
func (h *heldCA) release() {
	h.released.Store(true)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, listener := range h.listeners {
		listener.Enqueue()
	}
}
