package conformance

import (
	"context"
	"errors"
	"net"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

func providerRules() []Rule {
	return []Rule{
		{
			ID:     "provider-named",
			Text:   "The provider has a name, always the same, that can be the scheme of a provider ID.",
			Source: Source{"cloudprovider.Interface.ProviderName", "ProviderName returns the cloud provider ID."},
			check:  checkProviderNamed,
		},
		{
			ID:   "provider-capabilities-constant",
			Text: "Capabilities answers the same whenever it is asked, and no number in it is negative.",
			Source: Source{"provider.Capable.Capabilities",
				"it must not call the cloud, and its answer must not change while the process lives"},
			check: checkCapabilitiesConstant,
		},
		{
			ID:   "provider-schemes-cover",
			Text: "Provider IDs have a scheme that the capabilities declare, or the provider's name if they declare none.",
			Source: Source{"provider.Capabilities.ProviderIDSchemes",
				"ProviderIDSchemes are the schemes of the provider IDs that belong to this provider"},
			Needs: []Need{NeedInstancesV2, NeedInstance},
			check: checkSchemesCover,
		},
	}
}

func checkProviderNamed(_ context.Context, t *trial) error {
	first, second := t.Cloud.ProviderName(), t.Cloud.ProviderName()
	if first != second {
		t.sawf("ProviderName returned %q, then %q", first, second)
	}
	if first == "" || strings.ContainsAny(first, ":/ ") {
		t.sawf("ProviderName returned %q, which cannot stand before ://", first)
	}
	return nil
}

func checkCapabilitiesConstant(_ context.Context, t *trial) error {
	first, second := provider.CapabilitiesOf(t.Cloud), provider.CapabilitiesOf(t.Cloud)
	if a, b := shape(first), shape(second); !reflect.DeepEqual(a, b) {
		t.sawf("Capabilities returned %v, then %v", a, b)
	}
	if first.LoadBalancerWrites < 0 || first.RouteWrites < 0 || first.MaxRoutes < 0 {
		t.sawf("negative: LoadBalancerWrites %d, RouteWrites %d, MaxRoutes %d",
			first.LoadBalancerWrites, first.RouteWrites, first.MaxRoutes)
	}
	return nil
}

// shape is what can be compared of capabilities: of functions, whether they are there.
func shape(c provider.Capabilities) map[string]any {
	return map[string]any{
		"ProviderIDSchemes": c.ProviderIDSchemes, "ListInstances": c.ListInstances != nil, "WatchInstances": c.WatchInstances != nil,
		"StandbySafe": c.StandbySafe, "ListLoadBalancers": c.ListLoadBalancers != nil, "LoadBalancerWrites": c.LoadBalancerWrites,
		"LoadBalancersEndWithProcess": c.LoadBalancersEndWithProcess,
		"ReplaceRoute":                c.ReplaceRoute != nil, "RouteWrites": c.RouteWrites, "MaxRoutes": c.MaxRoutes,
	}
}

func checkSchemesCover(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	declared := provider.CapabilitiesOf(t.Cloud).ProviderIDSchemes
	if len(declared) == 0 {
		declared = []string{t.Cloud.ProviderName()}
	}
	scheme, _, found := strings.Cut(instance.ProviderID, "://")
	if !found || !slices.Contains(declared, scheme) {
		t.sawf("instance %s has provider ID %q; the schemes are %q", instance.NodeName, instance.ProviderID, declared)
	}
	return nil
}

func instanceRules() []Rule {
	return []Rule{
		{
			ID:   "instances-found-by-name",
			Text: "The instance of a node that has no provider ID yet is found by the node's name: it exists, runs and has metadata.",
			Source: Source{"cloudprovider.InstancesV2.InstanceExists",
				"Use the node.name or node.spec.providerID field to find the node in the cloud provider."},
			Needs: []Need{NeedInstancesV2, NeedInstance},
			check: func(ctx context.Context, t *trial) error {
				instance, err := t.instance(ctx)
				if err != nil {
					return err
				}
				return t.isThere(ctx, namedNode(instance.NodeName), instance)
			},
		},
		{
			ID:   "instances-found-by-provider-id",
			Text: "A node's provider ID decides which instance is its own, whatever the node's name.",
			Source: Source{"cloudprovider.InstancesV2.InstanceMetadata",
				"Implementations should always check node.spec.providerID first when trying to discover the instance for a given node."},
			Needs: []Need{NeedInstancesV2, NeedInstance},
			check: func(ctx context.Context, t *trial) error {
				instance, err := t.instance(ctx)
				if err != nil {
					return err
				}
				node := namedNode(t.missingName())
				node.Spec.ProviderID = instance.ProviderID
				return t.isThere(ctx, node, instance)
			},
		},
		{
			ID:   "instances-metadata-complete",
			Text: "Metadata has a provider ID and valid addresses, each once, and is the same when nothing changed, order aside.",
			Source: Source{"cloudprovider.InstanceMetadata",
				"The node addresses returned here will be set on the node's status.addresses field."},
			Needs: []Need{NeedInstancesV2, NeedInstance},
			check: checkMetadataComplete,
		},
		{
			ID:     "instances-missing",
			Text:   "An instance that never existed does not exist: false and no error; its metadata is InstanceNotFound.",
			Source: Source{"provider.ErrInstanceNotFound", "ErrInstanceNotFound says that the cloud has no such instance."},
			Needs:  []Need{NeedInstancesV2},
			check: func(ctx context.Context, t *trial) error {
				return t.isGone(ctx, namedNode(t.missingName()))
			},
		},
		{
			ID:   "instances-deleted",
			Text: "An instance that was deleted does not exist, asked by its provider ID and by its name.",
			Source: Source{"cloudprovider.InstancesV2.InstanceExists",
				"InstanceExists returns true if the instance for the given node exists according to the cloud provider."},
			Needs: []Need{NeedInstancesV2, NeedCreate, NeedDelete},
			check: checkDeleted,
		},
		{
			ID:   "instances-stopped-exist",
			Text: "An instance that is shut down exists, has metadata, and is said to be shut down.",
			Source: Source{"cloudprovider.GetInstanceProviderID",
				"cloudprovider.InstanceNotFound should NOT be returned for instances that exist but are stopped/sleeping"},
			Needs: []Need{NeedInstancesV2, NeedCreate, NeedStop},
			check: checkStopped,
		},
	}
}

// isThere tries that a node's instance exists, runs, and is the expected one.
func (t *trial) isThere(ctx context.Context, node *v1.Node, want Instance) error {
	asked := askedBy(node)
	if exists, err := t.v2().InstanceExists(ctx, node); !exists || err != nil {
		t.sawf("InstanceExists by %s: %t, %v; it exists", asked, exists, err)
	}
	if shutdown, err := t.v2().InstanceShutdown(ctx, node); !allowed(err) || shutdown {
		t.sawf("InstanceShutdown by %s: %t, %v; it runs", asked, shutdown, err)
	}
	metadata, err := t.v2().InstanceMetadata(ctx, node)
	switch {
	case err != nil || metadata == nil:
		t.sawf("InstanceMetadata by %s: %v, %v; it exists", asked, metadata, err)
	case metadata.ProviderID != want.ProviderID || want.ProviderID == "":
		t.sawf("InstanceMetadata by %s: provider ID %q; the instance has %q", asked, metadata.ProviderID, want.ProviderID)
	}
	return nil
}

// isGone tries that a node's instance does not exist.
func (t *trial) isGone(ctx context.Context, node *v1.Node) error {
	asked := askedBy(node)
	if exists, err := t.v2().InstanceExists(ctx, node); exists || err != nil {
		t.sawf("InstanceExists by %s: %t, %v; it does not exist", asked, exists, err)
	}
	if metadata, err := t.v2().InstanceMetadata(ctx, node); !errors.Is(err, provider.ErrInstanceNotFound) {
		t.sawf("InstanceMetadata by %s: %v, %v; it does not exist", asked, metadata, err)
	}
	return nil
}

func askedBy(node *v1.Node) string {
	if node.Spec.ProviderID != "" {
		return "provider ID " + node.Spec.ProviderID
	}
	return "name " + node.Name
}

// allowed reports whether an error is nil, or says that the method is not implemented.
func allowed(err error) bool { return err == nil || errors.Is(err, provider.ErrNotImplemented) }

func checkMetadataComplete(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	node := namedNode(instance.NodeName)
	first, err := t.v2().InstanceMetadata(ctx, node)
	if err != nil {
		return err
	}
	second, err := t.v2().InstanceMetadata(ctx, node)
	if err != nil {
		return err
	}
	if first == nil || !reflect.DeepEqual(inOrder(first), inOrder(second)) {
		t.sawf("InstanceMetadata returned %+v, then %+v", first, second)
		return nil
	}
	if first.ProviderID == "" {
		t.sawf("the provider ID is empty")
	}
	t.wellFormed("InstanceMetadata", first.NodeAddresses)
	return nil
}

// inOrder returns metadata with its addresses in order: theirs means nothing.
func inOrder(metadata *cloudprovider.InstanceMetadata) *cloudprovider.InstanceMetadata {
	if metadata == nil {
		return nil
	}
	ordered := *metadata
	ordered.NodeAddresses = slices.SortedFunc(slices.Values(metadata.NodeAddresses), func(a, b v1.NodeAddress) int {
		return strings.Compare(string(a.Type)+a.Address, string(b.Type)+b.Address)
	})
	return &ordered
}

// wellFormed tries that addresses can be those of a node.
func (t *trial) wellFormed(from string, addresses []v1.NodeAddress) {
	if len(addresses) == 0 {
		t.sawf("%s returned no address", from)
	}
	for i, address := range addresses {
		isIP := net.ParseIP(address.Address) != nil
		switch address.Type {
		case v1.NodeInternalIP, v1.NodeExternalIP:
			if !isIP {
				t.sawf("%s returned %s %q, which is no IP address", from, address.Type, address.Address)
			}
		case v1.NodeHostName, v1.NodeInternalDNS, v1.NodeExternalDNS:
			if address.Address == "" {
				t.sawf("%s returned an empty %s", from, address.Type)
			}
		default:
			t.sawf("%s returned an address of type %q, which Kubernetes does not know", from, address.Type)
		}
		if slices.Contains(addresses[:i], address) {
			t.sawf("%s returned %s %q twice", from, address.Type, address.Address)
		}
	}
}

func checkDeleted(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	if err := t.delete(ctx, instance); err != nil {
		return err
	}
	byID := namedNode(instance.NodeName)
	byID.Spec.ProviderID = instance.ProviderID
	return errors.Join(t.isGone(ctx, byID), t.isGone(ctx, namedNode(instance.NodeName)))
}

func checkStopped(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	if err := t.stop(ctx, instance); err != nil {
		return err
	}
	node := namedNode(instance.NodeName)
	node.Spec.ProviderID = instance.ProviderID
	if exists, err := t.v2().InstanceExists(ctx, node); !exists || err != nil {
		t.sawf("InstanceExists of a stopped instance: %t, %v", exists, err)
	}
	if shutdown, err := t.v2().InstanceShutdown(ctx, node); !allowed(err) || err == nil && !shutdown {
		t.sawf("InstanceShutdown of a stopped instance: %t, %v", shutdown, err)
	}
	var metadata *cloudprovider.InstanceMetadata
	if metadata, err = t.v2().InstanceMetadata(ctx, node); err != nil || metadata == nil {
		t.sawf("InstanceMetadata of a stopped instance: %v, %v", metadata, err)
	}
	return nil
}
