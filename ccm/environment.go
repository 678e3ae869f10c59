package ccm

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	ccmconfig "k8s.io/cloud-provider/config"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// ErrDryRun says that something is not to be had under --dry-run. A controller whose New returns it does not run there, which is logged.
var ErrDryRun = errors.New("not under --dry-run")

// Environment is what a controller is built from.
type Environment struct {
	// Manager owns the cache, the scheme and the REST mapper. Runnables added to it that need leader election wait until the
	// plugin is initialized, and have stopped before the plugin is stopped. Objects in the cache carry no managedFields, and
	// Nodes nothing of images and volumes: write patches, not updates. There are no resyncs. Its client and its config are those
	// of the controller's identity.
	Manager manager.Manager
	// Client reads from the manager's cache and writes as the controller's identity.
	Client client.Client
	// Config is for clients of other kinds, with the controller's identity. It is a copy.
	Config *rest.Config
	// Recorder writes events whose component is the controller's name.
	Recorder record.EventRecorder
	// Cloud is the plugin. Its calls wait for a place: there are as many at the same time as from the reference, or as are declared. It may
	// be called only after the controller was started, except for what provider.Capabilities declares safe on a standby.
	Cloud cloudprovider.Interface
	// Provider returns the plugin itself, as its factory built it, for a controller that asserts its concrete type. Its calls have no bound,
	// they are in no metric, and the loss of the lease does not stop them: Cloud is the better choice where it does. Under --dry-run it
	// returns an error that wraps ErrDryRun, because nothing could keep such a call from changing something; a New that returns that error,
	// before it has added anything to Manager, has its controller left out of the dry run (ADR 65).
	Provider func() (cloudprovider.Interface, error)
	// Instances returns what the cloud says of the instances of nodes, for all controllers together. Ask for it in New.
	Instances func() (Instances, error)
	// Informers are the informers of the plugin, for a controller that takes a SharedInformerFactory. Ask for informers in New: they start
	// when the plugin is initialized, and a controller waits for their caches itself. What Manager watches is watched a second time.
	Informers informers.SharedInformerFactory
	// DryRun says that nothing may be changed: what Client and Cloud are asked to change is only planned, and what a client of Config
	// writes is refused. A controller that changes something else returns ErrDryRun from New.
	DryRun bool
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
	// lease returns the Lease of the leader election, for events about what is no object's.
	lease func(context.Context) *corev1.ObjectReference
	// inventory returns what all controllers of this module ask about instances. It is built for the first that asks.
	inventory func() (*instances.Inventory, error)
	// owners is what all controllers of this module know of whose nodes are.
	owners ownership.Rules
}

// Instances is what the cloud says of the instances of nodes, and whose the nodes are. All controllers share it: where the cloud can list, one
// listing answers all of them.
type Instances interface {
	// Supported returns why the plugin cannot be asked about instances, nil if it can. Plugins may offer that only once they are
	// initialized, so ask when the controller has started.
	Supported() error
	// Lookup returns what the cloud says of a node's instance, which is found by the node's provider ID or, if it has none, by its name. That
	// an instance exists may be said by an answer no older than maxAge; anything else is only said by one sought from now on. An error says
	// that nothing is known.
	Lookup(ctx context.Context, node *corev1.Node, maxAge time.Duration) (Instance, error)
	// Foreign reports whether a node is another manager's: it is not to be written, and not to be asked for.
	Foreign(node *corev1.Node) bool
	// Doubt returns why a node may be another manager's although it is not Foreign, empty if the node or the cloud's answer proves that it is not.
	Doubt(node *corev1.Node, answer Instance) string
}

// Instance is what the cloud said of the instance of a node. What it holds is shared, and must not be changed.
type Instance struct {
	// Exists says whether there is one.
	Exists bool
	// Metadata describes it if there is one.
	Metadata cloudprovider.InstanceMetadata
	// Answered is the provider ID in the plugin's own answer, empty if there was none: evidence of whose the node is.
	Answered string
	// At is when the call or the listing began that said so.
	At time.Time
}

// errNoStatement is an answer that says nothing.
var errNoStatement = errors.New("the provider says nothing about it")

// sharedInstances are the Instances of all controllers.
type sharedInstances struct {
	*instances.Inventory
	owners ownership.Rules
}

func (a *assembly) sharedInstances() (Instances, error) {
	inventory, err := a.inventory()
	if err != nil {
		return nil, err
	}
	return sharedInstances{inventory, a.owners}, nil
}

func (s sharedInstances) Lookup(ctx context.Context, node *corev1.Node, maxAge time.Duration) (Instance, error) {
	said, err := s.Inventory.Lookup(ctx, node, maxAge)
	if err == nil && said.Status == instances.NoStatement {
		err = errNoStatement
	}
	return Instance{Exists: err == nil && said.Status == instances.Found, Metadata: said.Metadata, Answered: said.Answered, At: said.At}, err
}

func (s sharedInstances) Foreign(node *corev1.Node) bool {
	return s.owners.Decide(node).Owner == ownership.Foreign
}

func (s sharedInstances) Doubt(node *corev1.Node, answer Instance) string {
	if decision := s.owners.Decide(node); !decision.ProvenBy(answer.Answered) {
		return decision.Reason()
	}
	return ""
}
