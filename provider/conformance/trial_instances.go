package conformance

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// instance returns an instance that exists and runs: one of its own if it can be created, else one that the subject names.
func (t *trial) instance(ctx context.Context) (Instance, error) {
	found, err := t.instances(ctx, 1)
	if err != nil {
		return Instance{}, err
	}
	return found[0], nil
}

// instances returns as many different instances with their provider IDs.
func (t *trial) instances(ctx context.Context, count int) ([]Instance, error) {
	var found []Instance
	for i := range count {
		if !canMake(t.Subject) {
			found = append(found, t.Subject.Instances[i])
			continue
		}
		created, err := t.createInstance(ctx)
		if err != nil {
			return nil, err
		}
		found = append(found, created)
	}
	for i := range found {
		if found[i].ProviderID != "" {
			continue
		}
		var err error
		if found[i].ProviderID, err = t.providerIDOf(ctx, found[i].NodeName); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// some is how many instances to take where two show more than one does.
func (t *trial) some() int {
	if canHave(t.Subject, 2) {
		return 2
	}
	return 1
}

// createInstance creates an instance that is deleted when the trial has ended.
func (t *trial) createInstance(ctx context.Context) (Instance, error) {
	t.created++
	return t.createInstanceNamed(ctx, fmt.Sprintf("conformance-%s-%s-%d", t.options.RunID, t.rule, t.created))
}

// createInstanceNamed creates an instance of a name, and finds its provider ID out if the hook does not say it.
func (t *trial) createInstanceNamed(ctx context.Context, name string) (Instance, error) {
	created, err := t.Hooks.CreateInstance(ctx, name)
	if err != nil {
		return Instance{}, hookFailed("CreateInstance", err)
	}
	t.removals = append(t.removals, removal{
		what: "instance " + name, once: true,
		remove: func(ctx context.Context) error { return t.Hooks.DeleteInstance(ctx, created) },
	})
	return created, nil
}

// stop stops an instance that the trial created.
func (t *trial) stop(ctx context.Context, instance Instance) error {
	if err := t.Hooks.StopInstance(ctx, instance); err != nil {
		return hookFailed("StopInstance", err)
	}
	return nil
}

// delete deletes an instance that the trial created.
func (t *trial) delete(ctx context.Context, instance Instance) error {
	if err := t.Hooks.DeleteInstance(ctx, instance); err != nil {
		return hookFailed("DeleteInstance", err)
	}
	t.removals = slices.DeleteFunc(t.removals, func(r removal) bool { return r.what == "instance "+string(instance.NodeName) })
	return nil
}

// providerIDOf asks the provider for the provider ID of a node's instance, as the node controller does. One that knows nothing
// of instances has none.
func (t *trial) providerIDOf(ctx context.Context, name types.NodeName) (string, error) {
	if v2, ok := t.Cloud.InstancesV2(); ok {
		metadata, err := v2.InstanceMetadata(ctx, namedNode(name))
		if err != nil {
			return "", fmt.Errorf("InstanceMetadata of %s, which exists: %w", name, err)
		}
		if metadata == nil {
			return "", fmt.Errorf("InstanceMetadata of %s, which exists: nil, and no error", name)
		}
		return metadata.ProviderID, nil
	}
	if _, ok := t.Cloud.Instances(); !ok {
		return "", nil
	}
	return cloudprovider.GetInstanceProviderID(ctx, t.Cloud, name)
}

// missingName is the name of a node whose instance never existed.
func (t *trial) missingName() types.NodeName {
	return types.NodeName("conformance-" + t.options.RunID + "-never-created")
}

// nodeOf returns the node of an instance as it is after its initialization.
func (t *trial) nodeOf(ctx context.Context, instance Instance) (*v1.Node, error) {
	node := namedNode(instance.NodeName)
	node.Spec.ProviderID = instance.ProviderID
	v2, ok := t.Cloud.InstancesV2()
	if !ok {
		legacy, ok := t.Cloud.Instances()
		if !ok {
			return node, nil
		}
		addresses, err := legacy.NodeAddressesByProviderID(ctx, instance.ProviderID)
		if err != nil {
			return nil, fmt.Errorf("NodeAddressesByProviderID of %s, which exists: %w", instance.ProviderID, err)
		}
		node.Status.Addresses = addresses
		return node, nil
	}
	metadata, err := v2.InstanceMetadata(ctx, node)
	if err != nil {
		return nil, fmt.Errorf("InstanceMetadata of %s, which exists: %w", instance.NodeName, err)
	}
	if metadata == nil {
		return nil, fmt.Errorf("InstanceMetadata of %s, which exists: nil, and no error", instance.NodeName)
	}
	node.Status.Addresses = metadata.NodeAddresses
	node.Labels[v1.LabelInstanceTypeStable] = metadata.InstanceType
	node.Labels[v1.LabelTopologyZone] = metadata.Zone
	node.Labels[v1.LabelTopologyRegion] = metadata.Region
	return node, nil
}

// nodes returns the nodes of as many different instances. A provider without instances gets nodes that have only names.
func (t *trial) nodes(ctx context.Context, count int) ([]*v1.Node, error) {
	found, err := t.instances(ctx, count)
	if err != nil {
		return nil, err
	}
	nodes := make([]*v1.Node, len(found))
	for i, instance := range found {
		if nodes[i], err = t.nodeOf(ctx, instance); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

func namedNode(name types.NodeName) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: string(name), Labels: map[string]string{v1.LabelHostname: string(name)}}}
}

// v2 and legacy are for rules that need them, which were tried only if the provider has them.
func (t *trial) v2() cloudprovider.InstancesV2 {
	v2, _ := t.Cloud.InstancesV2()
	return v2
}

func (t *trial) legacy() cloudprovider.Instances {
	legacy, _ := t.Cloud.Instances()
	return legacy
}
