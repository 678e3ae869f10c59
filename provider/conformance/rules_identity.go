package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// fields is why what an instance says of itself has to fit into a Node.
var fields = Source{"cloudprovider.InstancesV2.InstanceMetadata",
	"The values returned in InstanceMetadata are translated into specific fields and labels in the Node object on registration."}

// identityRules are about which instance is a node's, and about what of it can stand in a Node. Each was broken by a provider that
// people ran: see dev/docs/quirks.md.
func identityRules() []Rule {
	return []Rule{
		{
			ID:     "instances-foreign-metadata",
			Text:   "InstanceMetadata of a provider ID that is not of this provider is an error, and not InstanceNotFound.",
			Source: deletes,
			Needs:  []Need{NeedInstancesV2},
			check:  checkForeignMetadata,
		},
		{
			ID:   "instances-name-exact",
			Text: "A node's name has to be all of an instance's name, not its beginning or its end.",
			Source: Source{"cloudprovider.InstancesV2.InstanceExists",
				"InstanceExists returns true if the instance for the given node exists according to the cloud provider."},
			Needs: []Need{NeedInstancesV2, NeedInstance},
			check: checkNameExact,
		},
		{
			ID:   "instances-name-reused",
			Text: "An instance that takes the name of a deleted one is found by that name, and the deleted one not by its provider ID.",
			Source: Source{"cloudprovider.InstanceMetadata",
				"ProviderID is a unique ID used to identify an instance on the cloud provider."},
			Needs: []Need{NeedInstancesV2, NeedCreate, NeedDelete},
			check: checkNameReused,
		},
		{
			ID:     "instances-ip",
			Text:   "An instance that runs has an IP address: a node whose addresses are host names only cannot be reached.",
			Source: fields,
			Needs:  []Need{NeedInstancesV2, NeedInstance},
			check:  checkIP,
		},
		{
			ID:     "instances-labels",
			Text:   "Type, zone, region and additional labels can be labels, and no additional label is in a namespace of Kubernetes.",
			Source: fields,
			Needs:  []Need{NeedInstancesV2, NeedInstance},
			check:  checkLabels,
		},
		{
			ID:     "instances-broken-id",
			Text:   "A provider ID of this provider that names no instance, or nothing at all, is an error or InstanceNotFound, and never found.",
			Source: deletes,
			Needs:  []Need{NeedInstancesV2, NeedInstance},
			check:  checkBrokenID,
		},
		{
			ID:   "instances-missing-not-stopped",
			Text: "An instance that does not exist is not said to be shut down.",
			Source: Source{"cloudprovider.InstancesV2.InstanceShutdown",
				"InstanceShutdown returns true if the instance is shutdown according to the cloud provider."},
			Needs: []Need{NeedInstancesV2},
			check: checkMissingNotStopped,
		},
		{
			ID:   "instances-read-only",
			Text: "Nodes are not modified by any call.",
			Source: Source{"cloudprovider.LoadBalancer.EnsureLoadBalancer",
				"Implementations must treat the *v1.Service and *v1.Node parameters as read-only and not modify them."},
			Needs: []Need{NeedInstancesV2, NeedInstance},
			check: checkNodeReadOnly,
		},
		{
			ID:     "instances-concurrent",
			Text:   "As many callers at once as Limits.InFlight says get their own answers, and the race detector finds nothing.",
			Source: Source{"provider.Limits.InFlight", "InFlight is how many calls may be under way at once, reads of the same kind among them."},
			Needs:  []Need{NeedInstancesV2, NeedReadsAtOnce, NeedTwoInstances},
			check:  checkReadsAtOnce,
		},
	}
}

func checkReadsAtOnce(ctx context.Context, t *trial) error {
	return t.readAtOnce(ctx, min(provider.CapabilitiesOf(t.Cloud).Limits.InFlight, readers))
}

func checkForeignMetadata(ctx context.Context, t *trial) error {
	node := namedNode(t.missingName())
	node.Spec.ProviderID = "not-" + t.Cloud.ProviderName() + "://elsewhere/i-1"
	metadata, err := t.v2().InstanceMetadata(ctx, node)
	if err == nil || errors.Is(err, provider.ErrInstanceNotFound) {
		t.sawf("InstanceMetadata of a node with provider ID %q: %v, %v", node.Spec.ProviderID, metadata, err)
	}
	return nil
}

func checkNameExact(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	name := string(instance.NodeName)
	for _, other := range []string{name + "0", "0" + name, name[:len(name)-1], name[1:]} {
		if slices.ContainsFunc(t.Subject.Instances, func(i Instance) bool { return string(i.NodeName) == other }) {
			continue
		}
		metadata, err := t.v2().InstanceMetadata(ctx, namedNode(types.NodeName(other)))
		if err == nil && metadata != nil && metadata.ProviderID == instance.ProviderID {
			t.sawf("InstanceMetadata by name %s: provider ID %q, which belongs to %s", other, metadata.ProviderID, name)
		}
	}
	return nil
}

func checkNameReused(ctx context.Context, t *trial) error {
	before, err := t.instance(ctx)
	if err != nil {
		return err
	}
	if err := t.isThere(ctx, namedNode(before.NodeName), before); err != nil {
		return err
	}
	if err := t.delete(ctx, before); err != nil {
		return err
	}
	after, err := t.createInstanceNamed(ctx, string(before.NodeName))
	if err != nil {
		return err
	}
	if after.ProviderID == "" {
		if after.ProviderID, err = t.providerIDOf(ctx, after.NodeName); err != nil {
			return err
		}
	}
	byID := namedNode(before.NodeName)
	byID.Spec.ProviderID = before.ProviderID
	if after.ProviderID == before.ProviderID {
		return unavailable("provider IDs are made of names: the instance and the one before it are both %q", after.ProviderID)
	}
	return errors.Join(t.isThere(ctx, namedNode(after.NodeName), after), t.isGone(ctx, byID))
}

// metadataOf asks for the metadata of an instance that exists.
func (t *trial) metadataOf(ctx context.Context, instance Instance) (*cloudprovider.InstanceMetadata, error) {
	node := namedNode(instance.NodeName)
	node.Spec.ProviderID = instance.ProviderID
	metadata, err := t.v2().InstanceMetadata(ctx, node)
	if err == nil && metadata == nil {
		err = errors.New("nil, and no error")
	}
	if err != nil {
		return nil, fmt.Errorf("InstanceMetadata of %s, which exists: %w", instance.NodeName, err)
	}
	return metadata, nil
}

// anyMetadata asks for the metadata of an instance that runs.
func (t *trial) anyMetadata(ctx context.Context) (*cloudprovider.InstanceMetadata, error) {
	instance, err := t.instance(ctx)
	if err != nil {
		return nil, err
	}
	return t.metadataOf(ctx, instance)
}

func checkIP(ctx context.Context, t *trial) error {
	metadata, err := t.anyMetadata(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(metadata.NodeAddresses, func(address v1.NodeAddress) bool { return net.ParseIP(address.Address) != nil }) {
		t.sawf("InstanceMetadata returned the addresses %v, none of which is an IP address", metadata.NodeAddresses)
	}
	return nil
}

// kubernetesKey finds label keys that belong to Kubernetes, which controllers do not take from a provider.
var kubernetesKey = regexp.MustCompile(`(^|\.)(kubernetes|k8s)\.io/`)

func checkLabels(ctx context.Context, t *trial) error {
	metadata, err := t.anyMetadata(ctx)
	if err != nil {
		return err
	}
	said := map[string]string{
		v1.LabelInstanceTypeStable: metadata.InstanceType, v1.LabelTopologyZone: metadata.Zone, v1.LabelTopologyRegion: metadata.Region,
	}
	for key, value := range metadata.AdditionalLabels {
		if kubernetesKey.MatchString(key) {
			t.sawf("InstanceMetadata returned the additional label %s=%s, whose key belongs to Kubernetes", key, value)
		}
		said[key] = value
	}
	for key, value := range said {
		if _, err := (labels.Set{key: value}).AsValidatedSelector(); err != nil {
			t.sawf("InstanceMetadata returned %q for the label %s: %v", value, key, err)
		}
	}
	return nil
}

func checkBrokenID(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	scheme, _, found := strings.Cut(instance.ProviderID, "://")
	if !found {
		return unavailable("the provider ID %q has no scheme", instance.ProviderID)
	}
	for _, broken := range []string{scheme + "://", scheme + ":///", scheme + "://%%/" + string(t.missingName())} {
		node := namedNode(t.missingName())
		node.Spec.ProviderID = broken
		if exists, err := t.v2().InstanceExists(ctx, node); err == nil && exists {
			t.sawf("InstanceExists of a node with provider ID %q: %t", broken, exists)
		}
		if metadata, err := t.v2().InstanceMetadata(ctx, node); err == nil {
			t.sawf("InstanceMetadata of a node with provider ID %q: %v, and no error", broken, metadata)
		}
	}
	return nil
}

func checkMissingNotStopped(ctx context.Context, t *trial) error {
	if shutdown, err := t.v2().InstanceShutdown(ctx, namedNode(t.missingName())); err == nil && shutdown {
		t.sawf("InstanceShutdown of an instance that does not exist: %t, and no error", shutdown)
	}
	return nil
}

func checkNodeReadOnly(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	node := namedNode(instance.NodeName) // without a provider ID, which a provider may be tempted to fill in
	untouched := node.DeepCopy()
	for _, c := range []named{
		{"InstanceExists", func(ctx context.Context) error { _, err := t.v2().InstanceExists(ctx, node); return err }},
		{"InstanceShutdown", func(ctx context.Context) error { _, err := t.v2().InstanceShutdown(ctx, node); return err }},
		{"InstanceMetadata", func(ctx context.Context) error { _, err := t.v2().InstanceMetadata(ctx, node); return err }},
	} {
		if err := c.call(ctx); !allowed(err) {
			return fmt.Errorf("%s of %s, which exists: %w", c.name, instance.NodeName, err)
		}
		if !reflect.DeepEqual(node, untouched) {
			t.sawf("%s modified the node that it was given: %v", c.name, node)
			node = untouched.DeepCopy()
		}
	}
	return nil
}
