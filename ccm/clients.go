package ccm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/controller-manager/pkg/clientbuilder"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/reconnect"
	"github.com/mooring-ccm/mooring/internal/sleep"
)

// identities are the clients of this process: its own, and one for each controller.
type identities struct {
	// kubeconfig is the manager's own, behind the fence, as all of these are.
	kubeconfig *rest.Config
	// client is the manager's own.
	client kubernetes.Interface
	// builder makes the clients of controllers and of the plugin. With --use-service-account-credentials each is a
	// ServiceAccount of its own.
	builder clientbuilder.ControllerClientBuilder
	// separate says that the controllers' identities are not the manager's.
	separate bool
	// accounts begins the names of the controllers' ServiceAccounts.
	accounts string
	// refusals knows whether the API server refuses the manager's own credentials.
	refusals *refusals
}

// newIdentities returns the clients, which write only while the fence is open. It asks the API server for nothing. The prefix begins
// the names of the ServiceAccounts that separate identities are: ADR 7.
func newIdentities(kubeconfig *rest.Config, separate bool, prefix string, fence *fence) (identities, error) {
	kubeconfig = rest.CopyConfig(kubeconfig)
	refusals := &refusals{}
	kubeconfig.Wrap(refusals.transport)
	kubeconfig.Wrap(fence.transport)
	client, err := kubernetes.NewForConfig(kubeconfig)
	if err != nil {
		return identities{}, fmt.Errorf("client for the API server %s: %w", kubeconfig.Host, err)
	}
	result := identities{
		kubeconfig: kubeconfig,
		client:     client,
		builder:    stampedBuilder{ControllerClientBuilder: clientbuilder.SimpleControllerClientBuilder{ClientConfig: kubeconfig}},
		separate:   separate,
		accounts:   prefix,
		refusals:   refusals,
	}
	if separate {
		anonymous := rest.AnonymousClientConfig(kubeconfig)
		anonymous.Wrap(fence.transport) // the copy is without
		result.builder = stampedBuilder{clientbuilder.NewDynamicClientBuilder(anonymous, client.CoreV1(), metav1.NamespaceSystem), prefix}
	}
	return result, nil
}

// of returns the config of a controller's identity. With identities of their own the ServiceAccount is created if it does not exist.
func (i identities) of(clientName string) (*rest.Config, error) {
	config, err := i.builder.Config(clientName)
	if err != nil {
		return nil, fmt.Errorf("credentials of ServiceAccount %s/%s: %w", metav1.NamespaceSystem, i.accounts+clientName, err)
	}
	return config, nil
}

// clientOf returns a client with a controller's identity.
func (i identities) clientOf(clientName string) (kubernetes.Interface, error) {
	config, err := i.of(clientName)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of ServiceAccount %s/%s: %w", metav1.NamespaceSystem, i.accounts+clientName, err)
	}
	return client, nil
}

// watchingClient returns a client for informers, whose requests wait while the API server is unavailable.
func watchingClient(watches *reconnect.Monitor, config *rest.Config) (kubernetes.Interface, error) {
	httpClient, err := watches.HTTPClient(config)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client of informers for the API server %s: %w", config.Host, err)
	}
	return client, nil
}

// negotiated returns the config for controller-runtime. --kube-api-content-type is protobuf unless said otherwise, which
// custom resources do not have: left to itself, controller-runtime uses it for all types that do.
func negotiated(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	if config.ContentType == runtime.ContentTypeProtobuf {
		config.ContentType = ""
	}
	return config
}

// errCredentialsChanged ends the process: client-go does not read a kubeconfig again, and a process that starts anew does.
var errCredentialsChanged = errors.New("the API server refuses the credentials with which this process started, and the kubeconfig has others now")

// refusals knows since when the API server has answered each request of this process with 401 Unauthorized.
type refusals struct {
	mu    sync.Mutex
	since time.Time
}

// transport takes in the answers to requests. It is for rest.Config.Wrap.
func (r *refusals) transport(next http.RoundTripper) http.RoundTripper {
	return observed{next: next, refusals: r}
}

type observed struct {
	next     http.RoundTripper
	refusals *refusals
}

// RoundTrip implements http.RoundTripper.
func (o observed) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(request)
	if err == nil {
		o.refusals.note(response.StatusCode == http.StatusUnauthorized)
	}
	return response, err
}

// WrappedRoundTripper lets the libraries find the transport itself.
func (o observed) WrappedRoundTripper() http.RoundTripper { return o.next }

func (r *refusals) note(refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !refused:
		r.since = time.Time{}
	case r.since.IsZero():
		r.since = time.Now()
	}
}

// lasting returns for how long requests have been refused, zero if that is not too long yet.
func (r *refusals) lasting() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lasting := time.Since(r.since); !r.since.IsZero() && lasting >= patience {
		return lasting
	}
	return 0
}

// check is a check of /readyz: a replica that the API server refuses cannot take over.
func (r *refusals) check(*http.Request) error {
	if lasting := r.lasting(); lasting > 0 {
		return fmt.Errorf("the API server has refused the credentials of this process for %s: renew those of --kubeconfig", lasting.Round(time.Second))
	}
	return nil
}

// followCredentials waits until the API server has refused the credentials of this process for too long and connect returns others, and ends the
// process then.
func (a *assembly) followCredentials(ctx context.Context, connect func() (*rest.Config, error)) {
	var failures kit.FailureLog
	for sleep.For(ctx, retry) {
		if a.identity.refusals.lasting() == 0 {
			continue
		}
		now, err := connect()
		failures.Note(ctx, "Could not reload the kubeconfig after the API server rejected its credentials", err)
		if err == nil && !sameCredentials(a.config.kubeconfig, now) {
			a.fence.end(errCredentialsChanged)
			return
		}
	}
}

// sameCredentials compares what client-go reads once, at the start. It reads files of tokens and certificates again itself.
func sameCredentials(a, b *rest.Config) bool {
	if a.BearerTokenFile != "" && a.BearerTokenFile == b.BearerTokenFile {
		return true
	}
	return a.BearerToken == b.BearerToken && a.BearerTokenFile == b.BearerTokenFile && a.Username == b.Username && a.Password == b.Password &&
		bytes.Equal(a.CertData, b.CertData) && bytes.Equal(a.KeyData, b.KeyData) && a.CertFile == b.CertFile && a.KeyFile == b.KeyFile
}
