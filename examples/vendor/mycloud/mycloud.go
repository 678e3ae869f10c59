// Package mycloud is a plugin as small as a plugin can be. It knows k8s.io/cloud-provider, and nothing of Mooring.
package mycloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// ProviderName is the value of --cloud-provider, and the scheme of the provider IDs.
const ProviderName = "mycloud"

// New builds the provider from a cloud config, from flags and from the nodes that the manager watches. Nothing registers it: the program
// passes it to ccm.WithProvider.
func New(config io.Reader, settings Settings, nodes corelisters.NodeLister) (*Cloud, error) {
	if config == nil {
		return nil, errors.New("--cloud-config is required")
	}
	cloud := &Cloud{settings: settings, nodes: nodes}
	decoder := json.NewDecoder(config)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(cloud); err != nil {
		return nil, fmt.Errorf("decoding JSON: %w", err)
	}
	return cloud, nil
}

// Cloud is the provider. Its machines are those of the cloud config, where a real one would call an API.
type Cloud struct {
	Region   string     `json:"region"`
	Machines []Instance `json:"machines"`

	settings Settings
	nodes    corelisters.NodeLister
}

// Instance is a machine.
type Instance struct {
	Name    string `json:"name"`
	Rack    string `json:"rack"`
	Type    string `json:"type"`
	Address string `json:"address"`
}

// providerID says where the machine is, too: mycloud://RACK/NAME.
func (i Instance) providerID() string { return fmt.Sprintf("%s://%s/%s", ProviderName, i.Rack, i.Name) }

// InstanceExists implements cloudprovider.InstancesV2.
func (c *Cloud) InstanceExists(_ context.Context, node *corev1.Node) (bool, error) {
	_, err := c.find(node)
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return false, nil
	}
	return err == nil, err
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (c *Cloud) InstanceShutdown(_ context.Context, node *corev1.Node) (bool, error) {
	_, err := c.find(node)
	return false, err
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (c *Cloud) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	instance, err := c.find(node)
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:   instance.providerID(),
		InstanceType: instance.Type,
		Region:       c.Region,
		Zone:         c.Region + c.settings.ZoneSuffix,
		NodeAddresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: instance.Address},
			{Type: corev1.NodeHostName, Address: instance.Name},
		},
	}, nil
}

// find returns the instance of a node, by its provider ID or else by its name.
func (c *Cloud) find(node *corev1.Node) (Instance, error) {
	if id := node.Spec.ProviderID; id != "" && !strings.HasPrefix(id, ProviderName+"://") {
		// Not "not found", which would have the node deleted: it is a machine of another cloud.
		return Instance{}, fmt.Errorf("the provider ID %q of node %q does not belong to %s", id, node.Name, ProviderName)
	}
	for _, instance := range c.Machines {
		if node.Spec.ProviderID == instance.providerID() || node.Spec.ProviderID == "" && strings.EqualFold(node.Name, instance.Name) {
			return instance, nil
		}
	}
	return Instance{}, cloudprovider.InstanceNotFound
}

// Tag gives the instance of a node a tag, where a real one would call an API. It returns how many nodes the cluster has, which is what
// this cloud wants to know with each tag.
func (c *Cloud) Tag(_ context.Context, node *corev1.Node, tag string) (nodes int, err error) {
	if _, err := c.find(node); err != nil {
		return 0, fmt.Errorf("tagging the instance of node %s with %s: %w", node.Name, tag, err)
	}
	all, err := c.nodes.List(labels.Everything())
	return len(all), err
}

// Initialize implements cloudprovider.Interface. A plugin that runs something of its own starts it here, until stop is closed.
func (c *Cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// ProviderName implements cloudprovider.Interface.
func (c *Cloud) ProviderName() string { return ProviderName }

// HasClusterID implements cloudprovider.Interface.
func (c *Cloud) HasClusterID() bool { return true }

// Instances implements cloudprovider.Interface: InstancesV2 takes its place.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 implements cloudprovider.Interface.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

// LoadBalancer implements cloudprovider.Interface: there are none.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

// Routes implements cloudprovider.Interface: there are none.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) { return nil, false }

// Clusters implements cloudprovider.Interface: there are none.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Zones implements cloudprovider.Interface: InstancesV2 says the zone.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }
