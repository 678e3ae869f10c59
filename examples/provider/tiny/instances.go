package tiny

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"

	"example.com/tiny-ccm/tinycloud"
)

// InstanceExists implements cloudprovider.InstancesV2.
func (c *Cloud) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	_, err := c.serverOf(ctx, node)
	if errors.Is(err, provider.ErrInstanceNotFound) {
		return false, nil
	}
	return err == nil, err
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (c *Cloud) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	server, err := c.serverOf(ctx, node)
	if err != nil {
		return false, err
	}
	return !server.Running, nil
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (c *Cloud) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	server, err := c.serverOf(ctx, node)
	if err != nil {
		return nil, err
	}
	metadata := metadataOf(server)
	return &metadata, nil
}

// serverOf finds the server of a node: by its provider ID, or by its name if it has none yet.
func (c *Cloud) serverOf(ctx context.Context, node *v1.Node) (tinycloud.Server, error) {
	if node.Spec.ProviderID == "" {
		return c.serverNamed(ctx, node.Name)
	}
	id, err := serverID(node.Spec.ProviderID)
	if err != nil {
		return tinycloud.Server{}, err
	}
	var server tinycloud.Server
	err = c.client.do(ctx, http.MethodGet, "/servers/"+url.PathEscape(id), nil, &server)
	if errors.Is(err, errNotFound) {
		return server, provider.NotFound(err)
	}
	return server, err
}

func (c *Cloud) serverNamed(ctx context.Context, name string) (tinycloud.Server, error) {
	var found []tinycloud.Server
	if err := c.client.do(ctx, http.MethodGet, "/servers?name="+url.QueryEscape(name), nil, &found); err != nil {
		return tinycloud.Server{}, err
	}
	switch len(found) {
	case 0:
		return tinycloud.Server{}, fmt.Errorf("%w: no server is named %s", provider.ErrInstanceNotFound, name)
	case 1:
		return found[0], nil
	default:
		return tinycloud.Server{}, fmt.Errorf("%d servers are named %s", len(found), name)
	}
}

func providerID(id string) string { return ProviderName + "://" + id }

// serverID returns the server's ID from a provider ID. The provider ID of another cloud is an error: this cloud cannot know its instance.
func serverID(providerID string) (string, error) {
	id, ok := strings.CutPrefix(providerID, ProviderName+"://")
	if !ok || id == "" {
		return "", provider.Terminal(fmt.Errorf("provider ID %q is not of provider %s", providerID, ProviderName))
	}
	return id, nil
}

func metadataOf(server tinycloud.Server) cloudprovider.InstanceMetadata {
	return cloudprovider.InstanceMetadata{
		ProviderID:   providerID(server.ID),
		InstanceType: server.Type,
		Zone:         server.Zone,
		Region:       "here",
		NodeAddresses: []v1.NodeAddress{
			{Type: v1.NodeInternalIP, Address: server.Address},
			{Type: v1.NodeHostName, Address: server.Name},
		},
	}
}

// listInstances is provider.Capabilities.ListInstances.
func (c *Cloud) listInstances(ctx context.Context, yield func([]provider.Instance) error) error {
	var servers []tinycloud.Server
	if err := c.client.do(ctx, http.MethodGet, "/servers", nil, &servers); err != nil {
		return err
	}
	page := make([]provider.Instance, len(servers))
	for i, server := range servers {
		state := provider.InstanceRunning
		if !server.Running {
			state = provider.InstanceStopped
		}
		page[i] = provider.Instance{NodeName: types.NodeName(server.Name), State: state, InstanceMetadata: metadataOf(server)}
	}
	return yield(page)
}
