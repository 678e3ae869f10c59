package provider_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// old is a plugin with the older interfaces only. It knows one instance, a by the ID 1, and notes what it is asked.
type old struct {
	cloudprovider.Interface
	cloudprovider.Instances
	asked *[]string
	// noIDs says that it knows no provider IDs, noName that it does not answer by name.
	noIDs, noName error
}

func (o old) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }
func (o old) ProviderName() string                           { return "old" }
func (o old) Zones() (cloudprovider.Zones, bool)             { return nil, false }
func (o old) note(what string)                               { *o.asked = append(*o.asked, what) }

// oldInstances keeps the two methods of the name Instances apart.
type oldInstances struct{ old }

func (o oldInstances) Instances() (cloudprovider.Instances, bool) { return o, true }

func (o oldInstances) InstanceID(_ context.Context, name types.NodeName) (string, error) {
	o.note("id of " + string(name))
	return "1", o.noIDs
}

func (o oldInstances) InstanceExistsByProviderID(_ context.Context, id string) (bool, error) {
	o.note("exists " + id)
	return id == "old://1", nil
}

func (o oldInstances) InstanceShutdownByProviderID(_ context.Context, id string) (bool, error) {
	o.note("shutdown " + id)
	return id == "old://1", nil
}

func (o oldInstances) NodeAddressesByProviderID(_ context.Context, id string) ([]v1.NodeAddress, error) {
	return nil, provider.ErrInstanceNotFound
}

func (o oldInstances) NodeAddresses(_ context.Context, name types.NodeName) ([]v1.NodeAddress, error) {
	return []v1.NodeAddress{{Type: v1.NodeHostName, Address: string(name)}}, o.noName
}

func (o oldInstances) InstanceTypeByProviderID(context.Context, string) (string, error) {
	return "small", nil
}

func oldPlugin(edit func(*old)) (oldInstances, *[]string) {
	asked := &[]string{}
	plugin := old{asked: asked}
	if edit != nil {
		edit(&plugin)
	}
	return oldInstances{plugin}, asked
}

func oldNode(providerID string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1.NodeSpec{ProviderID: providerID}}
}

// newer is a plugin with InstancesV2, beside which the older interfaces are not looked at.
type newer struct{ oldInstances }

type newerInstances struct{ cloudprovider.InstancesV2 }

func (newer) InstancesV2() (cloudprovider.InstancesV2, bool) { return newerInstances{}, true }

// neither is a plugin that cannot be asked for instances.
type neither struct{ oldInstances }

func (neither) Instances() (cloudprovider.Instances, bool) { return nil, true }

func TestInstancesV2IsThePluginsOwn(t *testing.T) {
	plugin, _ := oldPlugin(nil)
	if instances, ok := provider.InstancesV2(newer{plugin}); !ok || instances != (newerInstances{}) {
		t.Errorf("%v, %t, want the plugin's own", instances, ok)
	}
	if instances, ok := provider.InstancesV2(neither{plugin}); ok {
		t.Errorf("%v of a plugin that has none", instances)
	}
}

func TestInstancesV2OfAnOlderPlugin(t *testing.T) {
	plugin, asked := oldPlugin(nil)
	instances, _ := provider.InstancesV2(plugin)
	for _, test := range []struct {
		ask  func(context.Context, *v1.Node) (bool, error)
		node *v1.Node
		want bool
		says []string
	}{
		{instances.InstanceExists, oldNode("old://1"), true, []string{"exists old://1"}},
		{instances.InstanceExists, oldNode("old://2"), false, []string{"exists old://2"}},
		{instances.InstanceExists, oldNode(""), true, []string{"id of a", "exists old://1"}},
		{instances.InstanceShutdown, oldNode(""), true, []string{"id of a", "shutdown old://1"}},
	} {
		*asked = nil
		got, err := test.ask(t.Context(), test.node)
		if err != nil || got != test.want || !slices.Equal(*asked, test.says) {
			t.Errorf("node with %q: %t, %v by %q, want %t by %q", test.node.Spec.ProviderID, got, err, *asked, test.want, test.says)
		}
	}
	metadata, err := instances.InstanceMetadata(t.Context(), oldNode("old://1"))
	if err != nil || metadata.ProviderID != "" || metadata.InstanceType != "small" || metadata.NodeAddresses[0].Address != "a" {
		t.Errorf("%+v, %v; want what the name says, and no provider ID vouched for", metadata, err)
	}
}

// An instance is not found only if nothing else is wrong, and without a provider ID nothing is known.
func TestInstancesV2OfAnOlderPluginThatFails(t *testing.T) {
	outage := errors.New("connection refused")
	plugin, _ := oldPlugin(func(o *old) { o.noName = outage })
	instances, _ := provider.InstancesV2(plugin)
	if _, err := instances.InstanceMetadata(t.Context(), oldNode("old://1")); !errors.Is(err, outage) || provider.IsNotFound(err) {
		t.Errorf("%v, want the outage and no absence", err)
	}
	plugin, _ = oldPlugin(func(o *old) { o.noIDs = provider.ErrNotImplemented })
	instances, _ = provider.InstancesV2(plugin)
	if exists, err := instances.InstanceExists(t.Context(), oldNode("")); !errors.Is(err, provider.ErrNotImplemented) {
		t.Errorf("exists %t, %v; want that it cannot be said", exists, err)
	}
}
