package reference_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	appconfig "k8s.io/cloud-provider/app/config"
	genericapp "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/controller-manager/pkg/healthz"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/extensions/reference"
)

// vendors is a provider with a type of its own.
type vendors struct{ cloudprovider.Interface }

// sick is a controller whose health check fails.
type sick struct{}

func (sick) Name() string { return "sick" }

func (sick) HealthChecker() healthz.UnnamedHealthChecker { return sick{} }

func (sick) Check(*http.Request) error { return errors.New("it is not well") }

var _ controller.HealthCheckable = sick{}

// environment is an environment without an API server. Controllers only ask it for informers, which no test starts.
func environment() ccm.Environment {
	return ccm.Environment{
		Config:    &rest.Config{Host: "https://127.0.0.1:1"},
		Provider:  func() (cloudprovider.Interface, error) { return vendors{}, nil },
		Informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0),
	}
}

// constructed returns the constructor of a controller that says what it was given.
func constructed(start app.InitFunc, given func(*appconfig.CompletedConfig, cloudprovider.Interface)) app.ControllerInitFuncConstructor {
	return app.ControllerInitFuncConstructor{
		InitContext: app.ControllerInitContext{ClientName: "mine"},
		Constructor: func(_ app.ControllerInitContext, config *appconfig.CompletedConfig, cloud cloudprovider.Interface) app.InitFunc {
			given(config, cloud)
			return start
		},
	}
}

// TestController runs one as the manager does: built on every replica, started on the one that leads.
func TestController(t *testing.T) {
	started := make(chan genericapp.ControllerContext, 1)
	start := func(_ context.Context, theirs genericapp.ControllerContext) (controller.Interface, bool, error) {
		started <- theirs
		return sick{}, true, nil
	}
	entry := reference.Controller("crane", constructed(start, func(config *appconfig.CompletedConfig, cloud cloudprovider.Interface) {
		if _, ok := cloud.(vendors); !ok {
			t.Errorf("the cloud is a %T, not the provider itself", cloud)
		}
		if config.SharedInformers == nil || config.ClientBuilder == nil || config.Client == nil || config.Kubeconfig == nil {
			t.Errorf("the config lacks something: %+v", config.Config)
		}
	}))
	if entry.Name != "crane" || entry.ClientName != "mine" {
		t.Errorf("name %q, identity %q", entry.Name, entry.ClientName)
	}
	runnable, err := entry.New(t.Context(), environment())
	if err != nil {
		t.Fatal(err)
	}
	checked := runnable.(interface{ Check(*http.Request) error })
	if err := checked.Check(nil); err != nil {
		t.Errorf("a controller that does not run yet is unhealthy: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- runnable.Start(ctx) }()
	theirs := <-started
	<-theirs.InformersStarted
	if err := checked.Check(nil); err == nil || !strings.Contains(err.Error(), "it is not well") {
		t.Errorf("its health check says %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestControllersThatDoNotRun: a controller does not run if it declines, if it fails, or under a dry run.
func TestControllersThatDoNotRun(t *testing.T) {
	ignore := func(*appconfig.CompletedConfig, cloudprovider.Interface) {}
	build := func(err error) (func(context.Context) error, error) {
		start := func(context.Context, genericapp.ControllerContext) (controller.Interface, bool, error) {
			return nil, false, err
		}
		runnable, failed := reference.Controller("crane", constructed(start, ignore)).New(t.Context(), environment())
		if failed != nil {
			return nil, failed
		}
		return runnable.Start, nil
	}
	idle, err := build(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := idle(t.Context()); err != nil {
		t.Errorf("a controller that has nothing to do: %v", err)
	}
	broken := errors.New("no such zone")
	failing, err := build(broken)
	if err != nil {
		t.Fatal(err)
	}
	if err := failing(t.Context()); !errors.Is(err, broken) {
		t.Errorf("a controller that fails: %v", err)
	}
	dry := environment()
	dry.Provider = func() (cloudprovider.Interface, error) { return nil, ccm.ErrDryRun }
	if _, err := reference.Controller("crane", constructed(nil, ignore)).New(t.Context(), dry); !errors.Is(err, ccm.ErrDryRun) {
		t.Errorf("under a dry run: %v", err)
	}
	if _, err := reference.Controller("crane", app.ControllerInitFuncConstructor{}).New(t.Context(), environment()); err == nil {
		t.Error("an entry without a Constructor is accepted")
	}
}
