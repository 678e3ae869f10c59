package instances

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/session"
)

// Instances are the servers of the project. It is safe for concurrent use, also on a standby.
type Instances struct {
	session *session.Session
	config  session.Configured

	mu sync.Mutex
	// seen are the instances of the last list that was complete, by the IDs of servers: what is known of one whose cell is down.
	seen map[string]provider.Instance
}

var _ cloudprovider.InstancesV2 = &Instances{}

// New returns the instances of a session. It makes no call.
func New(config session.Configured, s *session.Session) *Instances {
	return &Instances{session: s, config: config}
}

// InstanceExists reports whether the node's server exists, in whatever state. Only Nova's own word that it does not makes it false;
// everything else is an error.
func (i *Instances) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	_, err := i.find(ctx, node)
	if errors.Is(err, provider.ErrInstanceNotFound) {
		return false, nil
	}
	return err == nil, err
}

// InstanceShutdown reports whether the node's server is SHUTOFF.
func (i *Instances) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	found, err := i.find(ctx, node)
	if err != nil {
		return false, err
	}
	return stateOf(found) == provider.InstanceStopped, nil
}

// InstanceMetadata returns what Nova and Neutron know of the node's server, by two calls.
func (i *Instances) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	found, err := i.find(ctx, node)
	if err != nil {
		return nil, err
	}
	if unreachable(found) {
		return nil, fmt.Errorf("server %s exists, and its cell is down: nothing else is known of it", found.ID)
	}
	attached, err := i.listPorts(ctx, found.ID)
	if err != nil {
		return nil, err
	}
	known := newPorts(attached)
	if err := i.trunks(ctx, known, []server{found}); err != nil {
		return nil, err
	}
	instance := namingOf(i.config.Current()).instanceOf(found, known)
	return &instance.InstanceMetadata, nil
}

// find finds a node's server by its provider ID, and by its name if it has none.
func (i *Instances) find(ctx context.Context, node *v1.Node) (server, error) {
	if node.Spec.ProviderID == "" {
		return i.findByName(ctx, node.Name)
	}
	id, err := namingOf(i.config.Current()).parse(node.Spec.ProviderID)
	if err != nil {
		return server{}, err
	}
	return i.getServer(ctx, id)
}

// findByName finds the only server of that name. Whether capitals count in Nova depends on its database; they do not count here.
func (i *Instances) findByName(ctx context.Context, name string) (server, error) {
	page, goesOn, err := i.serverPage(ctx, name, "")
	if err != nil {
		return server{}, fmt.Errorf("asking for the server named %s: %w", message.Line(name, 100), err)
	}
	var found []server
	for _, one := range page {
		if strings.EqualFold(one.Name, name) && !deleted(one) {
			found = append(found, one)
		}
	}
	switch {
	case len(found) == 1 && !goesOn:
		return found[0], nil
	case len(found) > 1 || goesOn:
		return server{}, fmt.Errorf("there are %d or more servers named %s: give the kubelet a --provider-id", len(found), message.Line(name, 100))
	default:
		return server{}, provider.NotFound(fmt.Errorf("the project has no server named %s", message.Line(name, 100)))
	}
}

// trunks adds the ports that trunks carry to the known ports. A list of all ports has them already.
func (i *Instances) trunks(ctx context.Context, known ports, of []server) error {
	var missing []string
	for _, one := range of {
		for _, parent := range known.byServer[one.ID] {
			if parent.Trunk == nil {
				continue
			}
			for _, sub := range parent.Trunk.SubPorts {
				if _, there := known.byID[sub.PortID]; !there {
					missing = append(missing, sub.PortID)
				}
			}
		}
	}
	if len(missing) > 0 {
		subPorts, err := i.portsByID(ctx, missing)
		if err != nil {
			return err
		}
		known.add(subPorts)
	}
	return i.subPortNetworks(ctx, known, of)
}
