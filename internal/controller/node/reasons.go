package node

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/provider"
)

// The reasons of the events on a Node, and of the metric mooring_node_failures_total. All but ReasonSynced and
// ReasonWaitingForCloud are warnings.
const (
	// ReasonSynced says that the node has been initialized. It is the reference's event.
	ReasonSynced = "Synced"
	// ReasonWaitingForCloud says that the call for the node's instance waits to be let in, and for what. It is no failure.
	ReasonWaitingForCloud = "WaitingForCloud"
	// ReasonInstanceNotFound says that the cloud knows no instance for the node.
	ReasonInstanceNotFound = names.ReasonInstanceNotFound
	// ReasonAmbiguousInstance says that several instances of the cloud claim the name of a node that has no provider ID.
	ReasonAmbiguousInstance = names.ReasonAmbiguousInstance
	// ReasonProviderIDMissing says that the cloud knows the instance but no provider ID for it.
	ReasonProviderIDMissing = names.ReasonProviderIDMissing
	// ReasonNodeIPMismatch says that the kubelet's --node-ip is not among the addresses that the cloud knows.
	ReasonNodeIPMismatch = names.ReasonNodeIPMismatch
	// ReasonInvalidMetadata says that the cloud named a type, zone or region that cannot be a label.
	ReasonInvalidMetadata = names.ReasonInvalidMetadata
	// ReasonCloudError says that the cloud could not be asked, or answered with an error.
	ReasonCloudError = names.ReasonCloudError
	// ReasonInvalidAnnotation says that an annotation of ours has no effect.
	ReasonInvalidAnnotation = names.ReasonInvalidAnnotation
	// ReasonNeverInitialized says that the node has neither a provider ID nor the taint, and that the cloud has an instance of its name.
	ReasonNeverInitialized = "NeverInitialized"
	// ReasonWriteFailed says that the API server did not accept what should be written to the node.
	ReasonWriteFailed = names.ReasonWriteFailed
)

// errNeverInitialized says that no manager has initialized a node that does not wait for it.
var errNeverInitialized = errors.New("the node has neither a provider ID nor the taint " + cloudproviderapi.TaintExternalCloudProvider +
	", and the cloud has an instance of its name")

// instanceNotFoundError says that the cloud knows no instance for a node.
type instanceNotFoundError struct {
	name, providerID string
	// listed is how many instances the cloud has, -1 if it was asked for this one only.
	listed int
	// reports says that the node is initialized and its kubelet reports.
	reports bool
}

// Error says how the instance was looked for.
func (e *instanceNotFoundError) Error() string {
	by := fmt.Sprintf("by the node's name %q", e.name)
	if e.providerID != "" {
		by = fmt.Sprintf("by the provider ID %q", e.providerID)
	}
	if e.listed == 0 {
		return fmt.Sprintf("the cloud has no instance for this node, looked for %s; it listed no instances at all", by)
	}
	return fmt.Sprintf("the cloud has no instance for this node, looked for %s", by)
}

// Is makes the error one of provider.ErrInstanceNotFound.
func (e *instanceNotFoundError) Is(target error) bool { return target == provider.ErrInstanceNotFound }

// errAlwaysTooLate says that the API server took none of several writes in a row, each planned anew.
var errAlwaysTooLate = errors.New("the API server refused each of several attempts as if the node had changed meanwhile")

// writeError says that the API server refused a write.
type writeError struct {
	err error
	// addressesOnly says that everything else has been written.
	addressesOnly bool
}

// Error says what was written and why it was refused.
func (e *writeError) Error() string { return e.err.Error() }

// Unwrap returns the API server's answer.
func (e *writeError) Unwrap() error { return e.err }

// advice says what to do about the API server's answer. An answer that passes by itself needs none.
func (e *writeError) advice() string {
	var answer apierrors.APIStatus
	switch {
	case !errors.As(e.err, &answer):
		return ""
	case lacksPermission(answer):
		return "Check the permissions of the cloud controller manager: a ClusterRole of this version grants them"
	case failsValidation(answer):
		return "The API server does not accept what the cloud provider returned for the node: correct it in the cloud, " +
			"or update the cloud provider"
	case kit.RefusedForGood(e.err):
		return "Check the admission policies and webhooks for nodes"
	default:
		return ""
	}
}

// lacksPermission reports whether an answer is one of the API server's authorizer. Admission answers with the same code, but names no
// user who cannot do something (k8s.io/apiserver, responsewriters.ForbiddenStatus).
func lacksPermission(answer apierrors.APIStatus) bool {
	status := answer.Status()
	return status.Code == http.StatusUnauthorized || status.Code == http.StatusForbidden &&
		strings.Contains(status.Message, `User "`) && strings.Contains(status.Message, `" cannot `)
}

// failsValidation reports whether an answer is one of the API server's validation, which names the fields that it refuses. A
// ValidatingAdmissionPolicy answers with the same code, and names none.
func failsValidation(answer apierrors.APIStatus) bool {
	status := answer.Status()
	return status.Code == http.StatusUnprocessableEntity && status.Details != nil &&
		slices.ContainsFunc(status.Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field != "" })
}

// reasonOf names a failure, and says what to do about it.
func reasonOf(err error) (reason, advice string) {
	var (
		notFound  *instanceNotFoundError
		ambiguous *instances.AmbiguousNameError
		noID      *instances.ProviderIDMissingError
		mismatch  *nodeIPMismatchError
		invalid   *invalidMetadataError
		write     *writeError
	)
	switch {
	case errors.As(err, &notFound) && notFound.reports:
		return ReasonInstanceNotFound, "The node is ready all the same, so it is not deleted. If its machine was made again under this name, delete the " +
			"Node: the kubelet registers it anew. If the instance exists, look for it in the account and region that the cloud config names"
	case errors.As(err, &notFound):
		return ReasonInstanceNotFound, fmt.Sprintf("Check that the instance exists in the account and region that the cloud config "+
			"names, and that it is known under this name. If the node belongs to another provider, annotate it %s=true "+
			"or exclude it by --node-selector", ownership.AnnotationIgnore)
	case errors.Is(err, errNeverInitialized):
		return ReasonNeverInitialized, "Start its kubelet with --cloud-provider=external, delete the Node, and restart the kubelet. If that is so, another " +
			"component takes the taint: stop it"
	case errors.As(err, &ambiguous):
		return ReasonAmbiguousInstance, ""
	case errors.As(err, &noID):
		return ReasonProviderIDMissing, "Start the kubelet with --provider-id, or update the cloud provider"
	case errors.As(err, &mismatch):
		return ReasonNodeIPMismatch, "Correct the kubelet's --node-ip, or give the instance that address in the cloud"
	case errors.As(err, &invalid):
		return ReasonInvalidMetadata, "Rename it in the cloud, or update the cloud provider"
	case errors.As(err, &write):
		return ReasonWriteFailed, write.advice()
	case provider.IsTerminal(err):
		return ReasonCloudError, "Repeating the request will not help; check the credentials and the cloud config"
	default:
		return ReasonCloudError, ""
	}
}

// messageOf is the text of the event of a failure. It is complete for a reader who sees nothing else.
func messageOf(node *corev1.Node, err error) string {
	_, advice := reasonOf(err)
	doing := "Could not refresh the node from the cloud: "
	if ownership.Uninitialized(node) {
		doing = "Could not initialize the node: "
	}
	if write := (*writeError)(nil); errors.As(err, &write) && write.addressesOnly {
		doing = "The node is as the cloud says except for its addresses: "
	}
	if advice != "" {
		advice = ". " + advice + "."
	}
	return message.Line(doing+err.Error(), kit.MaxMessage-len(advice)) + advice
}
