package ccm

import (
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	ccmconfig "k8s.io/cloud-provider/config"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/internal/instances"
)

// Environment is what a controller is built from.
type Environment struct {
	// Manager owns the cache, the scheme and the REST mapper. Runnables added to it that need leader election wait until the
	// plugin is initialized, and have stopped before the plugin is told to stop. Objects in the cache carry no managedFields, and
	// Nodes nothing of images and volumes: write patches, not updates. There are no resyncs. Its client and its config are those
	// of the controller's identity.
	Manager manager.Manager
	// Client reads from the manager's cache and writes as the controller's identity.
	Client client.Client
	// Config is for clients of other kinds, with the controller's identity. It is a copy.
	Config *rest.Config
	// Recorder writes events whose component is the controller's name.
	Recorder record.EventRecorder
	// Cloud is the plugin. Its calls have a deadline and wait for one of --cloud-api-max-in-flight places. It may be called
	// only after the controller was started, except for what provider.Capabilities declares safe on a standby.
	Cloud cloudprovider.Interface
	// ClusterName is --cluster-name.
	ClusterName string
	// Settings are the values of the flags that the reference has, as /configz shows them.
	Settings ccmconfig.CloudControllerManagerConfiguration
	// Registerer takes the controller's metrics; /metrics serves them.
	Registerer prometheus.Registerer
	// Logger carries the controller's name.
	Logger logr.Logger

	// config holds the settings that only controllers of this module know.
	config *config
	// kubeconfig is the manager's own identity, behind the fence.
	kubeconfig *rest.Config
	// spans takes the spans of controllers of this module, nil while tracing is off.
	spans trace.TracerProvider
	// inventory returns what all controllers of this module ask about instances. It is built for the first that asks.
	inventory func() (*instances.Inventory, error)
	// owners returns what all controllers of this module know of whose nodes are. It is built for the first that asks.
	owners func() (*instances.Owners, error)
}
