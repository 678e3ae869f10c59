package ccm

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

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
