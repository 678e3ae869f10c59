package ccm

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/controller-manager/pkg/clientbuilder"

	"github.com/mooring-ccm/mooring/internal/reconnect"
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
