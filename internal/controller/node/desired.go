package node

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodehelpers "k8s.io/cloud-provider/node/helpers"
	netutils "k8s.io/utils/net"

	"github.com/mooring-ccm/mooring/internal/instances/bounds"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/message"
)

// desired is what a node shall show of its instance. The zero value asks for nothing from the cloud.
type desired struct {
	// initializes says that the node waits for its initialization, or waited when the cloud was asked.
	initializes bool
	// providerID is for a node that has none; it is never changed once set.
	providerID string
	// addresses replace those in the node's status. Nil leaves them as they are.
	addresses []corev1.NodeAddress
	// leading is how many of them come first, because they are the kubelet's node IPs. The order of the others does not count.
	leading int
	// wellKnown are the labels of type, zone and region, under their stable and their beta keys.
	wellKnown map[string]string
	// additional are the provider's own labels, for a node that waits for its initialization.
	additional map[string]string
	// record is the annotation by which the node was proven to be ours, empty if it needs none.
	record string
	// discarded are labels of the provider that no node gets, in the order of their keys.
	discarded []discardedLabel
}

// discardedLabel is a label of the provider that is not put on the node.
type discardedLabel struct {
	key, value, reason string
}

// nodeIPMismatchError says that the kubelet's node IPs do not fit the addresses that the cloud knows.
type nodeIPMismatchError struct {
	// provided is the value of the annotation alpha.kubernetes.io/provided-node-ip, the kubelet's --node-ip.
	provided string
	// cloud are the addresses that the cloud knows.
	cloud []corev1.NodeAddress
	// err says what is wrong with them.
	err error
}

// Error shows both sets of addresses.
func (e *nodeIPMismatchError) Error() string {
	return fmt.Sprintf("the kubelet's node IP %q does not fit the instance's addresses %s: %v",
		message.Line(e.provided, maxShown), shownAddresses(e.cloud), e.err)
}

// Unwrap returns what is wrong.
func (e *nodeIPMismatchError) Unwrap() error { return e.err }

// addressList shows addresses as "[InternalIP 10.0.0.1, ExternalIP 192.0.2.1]".
func addressList(addresses []corev1.NodeAddress) string {
	shown := make([]string, len(addresses))
	for i, address := range addresses {
		shown[i] = string(address.Type) + " " + address.Address
	}
	return "[" + strings.Join(shown, ", ") + "]"
}

// How much of what a cloud or a kubelet says an error shows: so many bytes of a text, and so many addresses.
const maxShown, maxShownAddresses = 200, 10

// shownAddresses is addressList for an error: the first of many, none of them long.
func shownAddresses(addresses []corev1.NodeAddress) string {
	shown := make([]corev1.NodeAddress, min(len(addresses), maxShownAddresses))
	for i := range shown {
		shown[i].Type = corev1.NodeAddressType(message.Line(string(addresses[i].Type), maxShown))
		shown[i].Address = message.Line(addresses[i].Address, maxShown)
	}
	list := addressList(shown)
	if more := len(addresses) - len(shown); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// invalidMetadataError says that the cloud named something that cannot be put on a node: a type, zone or region that is no label's
// value, a provider ID, addresses.
type invalidMetadataError struct {
	// key is the label, or empty if the field is no label.
	key, value string
	err        error
}

// Error names the label.
func (e *invalidMetadataError) Error() string {
	if e.key == "" {
		return fmt.Sprintf("the cloud's %s cannot be put on the node: %v", e.value, e.err)
	}
	return fmt.Sprintf("the cloud's value %q cannot be the label %s: %v", message.Line(e.value, maxShown), e.key, e.err)
}

// Unwrap returns what is wrong.
func (e *invalidMetadataError) Unwrap() error { return e.err }

// desireFor derives what a node shall show from what the cloud said of its instance, and which provider ID the plugin answered with. With an error, a *nodeIPMismatchError or
// an *invalidMetadataError or both joined, the rest of what is returned still holds: an initialized node can show that much. A node that is
// initialized may have lost its taint to another writer while the cloud was asked; as with the reference, it is initialized all the same.
//
// See ADR 12.
func desireFor(
	node *corev1.Node, metadata *cloudprovider.InstanceMetadata, answered string, initializes bool, owners ownership.Rules,
) (desired, error) {
	want := desired{initializes: initializes}
	var addressErr, labelErr, idErr error
	want.addresses, want.leading, addressErr = desireAddresses(node, metadata.NodeAddresses, initializes)
	want.wellKnown, labelErr = desireWellKnown(metadata)
	providerID := node.Spec.ProviderID
	if initializes {
		want.providerID = metadata.ProviderID
		if len(metadata.AdditionalLabels) > 0 {
			want.additional, want.discarded = desireAdditional(metadata.AdditionalLabels)
		}
	}
	if initializes && providerID == "" {
		want.providerID, idErr = desireProviderID(metadata.ProviderID)
		providerID, answered = want.providerID, want.providerID // what the node gets from the answer is proven by it
	}
	want.record = owners.Record(providerID, answered)
	return want, errors.Join(addressErr, labelErr, idErr)
}

// desireProviderID returns the provider ID for a node that has none. It stays for good, and the node's instance is looked for by it: what
// JSON cannot carry would become another ID, by which there is no instance, and the node would be deleted.
func desireProviderID(said string) (string, error) {
	switch {
	case len(said) > bounds.MaxProviderIDBytes:
		return "", &invalidMetadataError{value: "provider ID", err: fmt.Errorf("it has %d bytes", len(said))}
	case message.Printable(said, len(said)) != said:
		return "", &invalidMetadataError{value: "provider ID", err: fmt.Errorf("%q is not printable", message.Line(said, maxShown))}
	default:
		return said, nil
	}
}

// desireAddresses returns the addresses that the node shall have, or nil to leave its addresses as they are, and how many of them are the kubelet's
// node IPs, which come first.
//
// The node keeps its host name if the cloud gives none. A node IP of the kubelet comes first, and is the only address of its type. The kubelet gets
// it by --node-ip, and shows it in the annotation alpha.kubernetes.io/provided-node-ip. Duplicates are dropped. The API server refuses a status with
// the same type and address twice (ValidateNodeUpdate), and checks nothing else about addresses.
func desireAddresses(node *corev1.Node, said []corev1.NodeAddress, initializes bool) (addresses []corev1.NodeAddress, leading int, err error) {
	cloud, err := validAddresses(said)
	if err != nil {
		return nil, 0, err
	}
	provided, hasProvided := node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]
	if hasProvided && (len(cloud) > 0 || initializes) {
		// The cloud itself has to know the node's IP, whatever host name the node brings.
		if _, err := nodehelpers.GetNodeAddressesFromNodeIP(provided, cloud); err != nil {
			return nil, 0, &nodeIPMismatchError{provided: provided, cloud: cloud, err: err}
		}
	}
	if len(cloud) == 0 {
		return nil, 0, nil
	}
	isHostName := func(address corev1.NodeAddress) bool { return address.Type == corev1.NodeHostName }
	all := slices.Clone(cloud)
	if !slices.ContainsFunc(cloud, isHostName) {
		for _, address := range node.Status.Addresses {
			if isHostName(address) {
				all = append(all, address)
			}
		}
	}
	nodeIPs := map[string]bool{}
	if hasProvided {
		if all, err = nodehelpers.GetNodeAddressesFromNodeIP(provided, all); err != nil {
			return nil, 0, &nodeIPMismatchError{provided: provided, cloud: cloud, err: err}
		}
		for nodeIP := range strings.SplitSeq(provided, ",") {
			if ip := netutils.ParseIPSloppy(strings.TrimSpace(nodeIP)); ip != nil {
				nodeIPs[ip.String()] = true
			}
		}
	}
	for _, address := range all {
		if slices.Contains(addresses, address) {
			continue
		}
		if ip := netutils.ParseIPSloppy(address.Address); leading == len(addresses) && ip != nil && nodeIPs[ip.String()] {
			leading++
		}
		addresses = append(addresses, address)
	}
	return addresses, leading, nil
}

// validAddresses returns the cloud's addresses without invalid ones, which are not what their type says. The API server would accept these, and
// clients of the kubelet would use them. Of names nothing is asked but that they may be one by their length. It returns an error if all addresses
// are invalid, or if there are more than bounds.MaxAddresses.
func validAddresses(said []corev1.NodeAddress) ([]corev1.NodeAddress, error) {
	if len(said) > bounds.MaxAddresses {
		return nil, &invalidMetadataError{value: "addresses", err: fmt.Errorf("there are more than %d", bounds.MaxAddresses)}
	}
	valid := slices.DeleteFunc(slices.Clone(said), func(address corev1.NodeAddress) bool {
		switch address.Type {
		case corev1.NodeInternalIP, corev1.NodeExternalIP:
			return netutils.ParseIPSloppy(address.Address) == nil
		default:
			text := string(address.Type) + "=" + address.Address
			return address.Address == "" || len(address.Address) > bounds.MaxTextBytes || len(address.Type) > bounds.MaxTextBytes ||
				message.Printable(text, len(text)) != text
		}
	})
	if len(valid) == 0 && len(said) > 0 {
		return nil, &invalidMetadataError{value: "addresses", err: fmt.Errorf("none of %s is one", shownAddresses(said))}
	}
	return valid, nil
}

// labelPair is a label's stable key with the beta key that preceded it.
type labelPair struct {
	stable, beta string
}

// The well-known labels of an instance. The beta keys are deprecated, and still what older workloads select by.
var (
	typeLabel   = labelPair{stable: corev1.LabelInstanceTypeStable, beta: corev1.LabelInstanceType}
	zoneLabel   = labelPair{stable: corev1.LabelTopologyZone, beta: corev1.LabelFailureDomainBetaZone}
	regionLabel = labelPair{stable: corev1.LabelTopologyRegion, beta: corev1.LabelFailureDomainBetaRegion}
)

func desireWellKnown(metadata *cloudprovider.InstanceMetadata) (map[string]string, error) {
	wellKnown := map[string]string{}
	var invalid []error
	for _, said := range []struct {
		label labelPair
		value string
	}{{typeLabel, metadata.InstanceType}, {zoneLabel, metadata.Zone}, {regionLabel, metadata.Region}} {
		if said.value == "" {
			continue
		}
		if faults := validation.IsValidLabelValue(said.value); len(faults) > 0 {
			invalid = append(invalid, &invalidMetadataError{key: said.label.stable, value: said.value, err: invalidLabel(faults)})
			continue
		}
		wellKnown[said.label.stable], wellKnown[said.label.beta] = said.value, said.value
	}
	return wellKnown, errors.Join(invalid...)
}

// kubernetesKey matches label keys in the namespaces that belong to Kubernetes. Providers may not set those; the expression
// is the reference's.
var kubernetesKey = regexp.MustCompile(`(^|\.)(kubernetes|k8s)\.io/`)

// desireAdditional sorts the provider's own labels: labels for the node, and labels that no node gets.
func desireAdditional(said map[string]string) (map[string]string, []discardedLabel) {
	additional := map[string]string{}
	var discarded []discardedLabel
	size := 0
	for _, key := range slices.Sorted(maps.Keys(said)) {
		value := said[key]
		size += len(key) + len(value)
		faults := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
		switch {
		case size > bounds.MaxLabelBytes:
			discarded = append(discarded, discardedLabel{key, value, fmt.Sprintf("the instance has more than %d KiB of labels", bounds.MaxLabelBytes>>10)})
		case kubernetesKey.MatchString(key):
			discarded = append(discarded, discardedLabel{key, value, "the key is in a namespace of Kubernetes"})
		case len(faults) > 0:
			discarded = append(discarded, discardedLabel{key, value, invalidLabel(faults).Error()})
		default:
			additional[key] = value
		}
	}
	return additional, discarded
}

// invalidLabel says why the API server would refuse a label.
func invalidLabel(faults []string) error {
	return message.Bound(fmt.Errorf("it is not a valid label: %s", strings.Join(faults, "; ")), 2*maxShown)
}
