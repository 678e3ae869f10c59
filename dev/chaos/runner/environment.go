package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-ccm/mooring/dev/chaos/checker"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

const (
	cloudToken = "chaos-token"
	// pageSize is the most elements on a page of a list.
	pageSize = 1000
)

// environment is a control plane and a cloud, with the checker that sees all that happens to them.
type environment struct {
	dir     string
	cluster *harness.Cluster
	admin   *kubernetes.Clientset
	config  *rest.Config

	managerConfig    *rest.Config
	managerTransport http.RoundTripper
	tokenFile        string
	region           string

	record *record
	faults *faults
	// cloud is the cloud as the fixture sees it, without faults.
	cloud  *api.Client
	server *httptest.Server
}

// prepare starts a control plane and a cloud.
func prepare(ctx context.Context, o Options, check *checker.Checker, now func() time.Duration) (*environment, error) {
	env := &environment{dir: o.Dir, region: cloudsim.DefaultRegion, faults: newFaults(filepath.Join(o.Dir, "quirks"))}
	var err error
	env.cluster, err = harness.Open(ctx, localcluster.Options{Binaries: o.ControlPlane, Dir: filepath.Join(o.Dir, "control-plane")}, harness.Mooring)
	if err != nil {
		return nil, err
	}
	if err := env.connect(ctx); err != nil {
		return env, err
	}
	return env, env.simulate(check, now)
}

// connect makes the clients of the API server.
func (e *environment) connect(ctx context.Context) error {
	e.config = e.cluster.AdminConfig()
	e.admin = e.cluster.Client
	kubeconfig, err := e.cluster.Kubeconfig(ctx, harness.Mooring)
	if err != nil {
		return err
	}
	if e.managerConfig, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return err
	}
	// Adds the token: clients send none over connections without TLS, which those of the managers to the proxies are.
	e.managerTransport, err = rest.TransportFor(e.managerConfig)
	return err
}

// simulate starts the cloud.
func (e *environment) simulate(check *checker.Checker, now func() time.Duration) error {
	e.tokenFile = filepath.Join(e.dir, "cloud-token")
	if err := os.WriteFile(e.tokenFile, []byte(cloudToken), 0o600); err != nil {
		return err
	}
	service, err := cloudsim.Open(cloudsim.Options{
		StateFile: filepath.Join(e.dir, "cloud.db"), Token: cloudsim.StaticToken(cloudToken), Knobs: api.Knobs{PageSize: pageSize},
	})
	if err != nil {
		return err
	}
	e.record = &record{cloud: service.Handler(), service: service, checker: check, now: now}
	e.server = httptest.NewServer(&fixtureFront{e.record})
	e.cloud, err = api.NewClient(api.ClientOptions{Endpoint: e.server.URL, Token: cloudsim.StaticToken(cloudToken)})
	return err
}

// close ends everything. The directory stays.
func (e *environment) close(ctx context.Context) error {
	var errs []error
	if e.server != nil {
		e.cloud.CloseIdleConnections()
		e.server.Close()
		errs = append(errs, e.record.service.Close())
	}
	if e.managerTransport != nil {
		utilnet.CloseIdleConnectionsFor(e.managerTransport)
	}
	if err := errors.Join(append(errs, e.cluster.ResumeEtcd(), e.cluster.Stop(ctx))...); err != nil {
		return fmt.Errorf("end the run's control plane and cloud: %w", err)
	}
	return nil
}
