package instances

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/provider"
)

// Status is what the cloud said of a node's instance.
type Status int

const (
	// NoStatement means that the provider answered, but said nothing: InstanceMetadata returned nil without an error. The
	// node is to be left alone.
	NoStatement Status = iota
	// Found means that the instance exists.
	Found
	// NotFound means that the provider said, when asked after the question was put, that there is no such instance. See ADR 10.
	NotFound
)

// statuses are the names of all Statuses.
var statuses = [...]string{NoStatement: "no_statement", Found: "found", NotFound: "not_found"}

// String returns the status as the metrics label it.
func (s Status) String() string { return statuses[s] }

// Observation is what the cloud said of one node's instance. Its maps and slices are shared: they must not be changed.
type Observation struct {
	// Status says whether the instance exists.
	Status Status
	// Metadata describes the instance when it was found. ProviderID is the node's own where the provider left it empty; it is
	// empty only with a legacy provider that has no provider IDs.
	Metadata cloudprovider.InstanceMetadata
	// Answered is the provider ID in the provider's own answer, empty if there was none: evidence of whose the node is.
	Answered string
	// State says whether the instance runs, where that is known without a further call.
	State provider.InstanceState
	// At is when the listing or the call began that said so.
	At time.Time
	// Listed is how many instances the listing held; with zero, NotFound is a weak statement. It is -1 if the provider was
	// asked for this one instance.
	Listed int
}

// AmbiguousNameError says that several instances claim the name of a node that has no provider ID.
type AmbiguousNameError struct {
	// Name is the node's name.
	Name types.NodeName
	// ProviderIDs are those of the instances that claim it, sorted.
	ProviderIDs []string
}

// Error names the node and the instances, the first of many.
func (e *AmbiguousNameError) Error() string {
	shown := make([]string, min(len(e.ProviderIDs), 10))
	for i := range shown {
		shown[i] = message.Line(e.ProviderIDs[i], maxShown)
	}
	more := ""
	if len(shown) < len(e.ProviderIDs) {
		more = " and others"
	}
	return fmt.Sprintf("the node name %q fits %d instances, %q%s: rename all but one in the cloud, "+
		"or start the kubelet with --provider-id", e.Name, len(e.ProviderIDs), shown, more)
}

// maxShown is how many bytes an error shows of a text of the cloud.
const maxShown = 200

// InvalidListError says that a listing cannot be true, so nothing is taken for gone because of it.
type InvalidListError struct {
	// Problem says what is wrong and names the instance.
	Problem string
	// LeftOut is how many instances were left out of it; the others are used. Zero: nothing of it is used.
	LeftOut int
}

// Error describes the problem.
func (e *InvalidListError) Error() string {
	if e.LeftOut > 0 {
		return message.Printable(fmt.Sprintf("the cloud's list of instances does not say what is gone, for %d of it cannot be told apart: %s",
			e.LeftOut, e.Problem), 5*maxShown)
	}
	return message.Printable("the cloud's list of instances is not usable: "+e.Problem, 5*maxShown)
}

// ProviderIDMissingError says that the provider knows an instance, but that neither it nor the node has a provider ID.
// Without one a node cannot be initialized: the field cannot be filled in later by anybody (kubernetes/kubernetes#123024).
type ProviderIDMissingError struct {
	// Name is the node's name.
	Name string
	// Said is what the provider returned in its place: nothing, or a scheme that nothing follows.
	Said string
}

// Error names the node.
func (e *ProviderIDMissingError) Error() string {
	if e.Said != "" {
		return fmt.Sprintf("the cloud provider knows an instance for node %q but returned the provider ID %q, which names nothing, "+
			"and the node has none", e.Name, message.Line(e.Said, maxShown))
	}
	return fmt.Sprintf("the cloud provider knows an instance for node %q but returned no provider ID, and the node has none",
		e.Name)
}

// UnsupportedError says that a plugin has no means to be asked about instances.
type UnsupportedError struct {
	// Provider is the plugin's name.
	Provider string
}

// Error names the plugin.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("the cloud provider %q offers neither InstancesV2 nor Instances", e.Provider)
}

// cloneMetadata copies what a provider returned, so it can be kept: the provider may reuse its memory.
func cloneMetadata(metadata cloudprovider.InstanceMetadata) cloudprovider.InstanceMetadata {
	metadata.NodeAddresses = slices.Clone(metadata.NodeAddresses)
	metadata.AdditionalLabels = maps.Clone(metadata.AdditionalLabels)
	return metadata
}
