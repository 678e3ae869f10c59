package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/provider"
)

// resultKind is how a pass over a node ended.
type resultKind int

const (
	// The zero value is none of them.
	_ resultKind = iota
	// initialized nodes have lost their taint.
	initialized
	// refreshed nodes are as the cloud says, whether or not anything had to be written.
	refreshed
	// mismatched nodes are as the cloud says except for what cannot be put on them; the refresh comes back to them.
	mismatched
	// waits are nodes about which the cloud says nothing that can be used. They are left alone, and asked for again.
	waits
	// failed passes are retried.
	failed
	// overtaken passes met a node that somebody else had changed, or deleted. They are repeated.
	overtaken
)

// result is how a pass over a node ended, and with what.
type result struct {
	kind resultKind
	// err is why the pass failed, or what the node mismatches by.
	err error
	// note is why the node waits; worthKnowing if an operator should see that once. Then err is why, and else there was no failure.
	note         string
	worthKnowing bool
	// withoutAddresses says why the API server did not take the addresses of a node that is otherwise as decided.
	withoutAddresses error
	// plan and want are what was decided, and said is the answer of the cloud by which.
	plan plan
	want desired
	said *instances.Observation
	// wrote is the resource version of our last write, empty if there was none.
	wrote string
}

// resultOf returns success if the plan was carried out, and how the pass ended otherwise.
func resultOf(done applied, success result) result {
	success.wrote = done.resourceVersion
	if done.withoutAddresses != nil {
		success.withoutAddresses = &writeError{err: done.withoutAddresses, addressesOnly: true}
	}
	switch done.outcome {
	case kit.Written:
		return success
	case kit.Outdated:
		return result{kind: overtaken, wrote: done.resourceVersion, said: success.said, err: &writeError{err: fmt.Errorf("%w: %w", errAlwaysTooLate, done.err)}}
	default:
		return result{kind: failed, err: &writeError{err: done.err}, wrote: done.resourceVersion}
	}
}

// finish draws the consequences of a pass: what is logged and counted, which event the node gets, what is remembered, and when the node
// is tried again.
func (r *reconciler) finish(ctx context.Context, node *corev1.Node, ended result) reconcile.Result {
	log := logf.FromContext(ctx)
	if ended.wrote != "" {
		r.state.wrote(node, ended.wrote, time.Now())
	}
	switch ended.kind {
	case initialized:
		r.state.succeeded(node)
		r.metrics.initialized(time.Since(node.CreationTimestamp.Time))
		r.traces.initialized(ctx, node, ended.providerID(node))
		r.recorder.Event(node, corev1.EventTypeNormal, ReasonSynced, "Node synced successfully")
		log.Info("Initialized the node", ended.keysAndValues(node)...)
		return r.resume(ctx, node, ended)
	case refreshed:
		if ended.withoutAddresses == nil {
			r.state.succeeded(node)
		}
		if ended.wrote != "" {
			log.Info("Refreshed the node", "changes", ended.plan.changes())
		}
		return r.resume(ctx, node, ended)
	case waits:
		delay, first := r.state.waited(node, ended.err, time.Now())
		if !first || !ended.worthKnowing {
			log = log.V(1)
		}
		log.Info("Left the node alone", "reason", ended.note, "retryAfter", delay)
		return retry(delay)
	case failed:
		return retry(r.warn(ctx, node, ended.err))
	case mismatched:
		r.warn(ctx, node, ended.err)
		return r.resume(ctx, node, ended)
	case overtaken:
		return r.repeat(ctx, node, ended)
	}
	return reconcile.Result{}
}

// resume has a pass made over a node of which something is left: addresses that the API server did not take.
func (r *reconciler) resume(ctx context.Context, node *corev1.Node, ended result) reconcile.Result {
	if ended.withoutAddresses == nil {
		return reconcile.Result{}
	}
	r.state.lacksAddresses(node)
	return retry(r.warn(ctx, node, ended.withoutAddresses))
}

// repeat makes another pass over a node that changed concurrently, soon and silently. If that goes on, the API server refuses the writes for
// another reason, and the node fails.
func (r *reconciler) repeat(ctx context.Context, node *corev1.Node, ended result) reconcile.Result {
	if delay, worthIt := r.state.conflicted(node, ended.said); worthIt || ended.err == nil {
		logf.FromContext(ctx).V(1).Info("The node changed while it was being written; looking at it again")
		return reconcile.Result{RequeueAfter: delay}
	}
	return retry(r.warn(ctx, node, ended.err))
}

// warn counts and remembers a failure. It returns the pause before the next try.
func (r *reconciler) warn(ctx context.Context, node *corev1.Node, err error) time.Duration {
	if ctx.Err() != nil {
		return 0 // we are being stopped, which is nobody's failure
	}
	reason, _ := reasonOf(err)
	now := time.Now()
	delay := r.state.failed(node, err, now)
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.traces.failed(node, reason, err)
	logf.FromContext(ctx).V(1).Info("Could not bring the node in line with the cloud", "reason", reason, "retryAfter", delay, "error", err.Error())
	since, begins := r.state.fails(node, reason, now)
	say := func() { r.say(ctx, node, reason, err) }
	switch {
	case begins:
		time.AfterFunc(warningDelay, func() {
			if ctx.Err() == nil && r.state.stillFails(node, reason, since) {
				say()
			}
		})
	case now.Sub(since) >= warningDelay:
		say()
	}
	return delay
}

// say gives a node the event of a failure, unless it got one for the same reason a short while ago: a cloud that is down fails for all nodes,
// again and again.
func (r *reconciler) say(ctx context.Context, node *corev1.Node, reason string, err error) {
	if r.events.Record(r.recorder, node, corev1.EventTypeWarning, reason, messageOf(node, err)) {
		logf.FromContext(ctx).Error(err, "Could not bring the node in line with the cloud", "reason", reason)
	}
}

// waiting says by an event what the call for a node's instance waits for.
func (r *reconciler) waiting(node *corev1.Node, reason string) {
	r.events.Record(r.recorder, node, corev1.EventTypeNormal, ReasonWaitingForCloud, "Waiting to ask the cloud for the node's instance: "+reason)
}

// retry puts a node that has had its chance behind those that have not.
func retry(delay time.Duration) reconcile.Result {
	priority := priorityRetry
	return reconcile.Result{RequeueAfter: delay, Priority: &priority}
}

// providerID returns what the node has, or has been given.
func (r result) providerID(node *corev1.Node) string {
	return cmp.Or(node.Spec.ProviderID, r.want.providerID)
}

// maxDiscardedShown is how many of the labels that no node gets a log line names.
const maxDiscardedShown = 20

// keysAndValues describe an initialization for the log.
func (r result) keysAndValues(node *corev1.Node) []any {
	providerID := r.providerID(node)
	said := []any{"changes", r.plan.changes(), "providerID", providerID}
	if r.want.providerID != "" && r.want.providerID != providerID {
		said = append(said, "cloudProviderID", r.want.providerID)
	}
	if len(r.plan.kept) > 0 {
		said = append(said, "labelsOfOthers", r.plan.kept)
	}
	if len(r.want.discarded) > 0 {
		discarded := make([]string, min(len(r.want.discarded), maxDiscardedShown))
		for i := range discarded {
			label := r.want.discarded[i]
			discarded[i] = message.Line(label.key, maxShown) + ": " + label.reason
		}
		said = append(said, "discardedLabels", discarded)
	}
	return said
}

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
	// ReasonWriteFailed says that the API server did not accept what should be written to the node.
	ReasonWriteFailed = names.ReasonWriteFailed
)

// instanceNotFoundError says that the cloud knows no instance for a node.
type instanceNotFoundError struct {
	name, providerID string
	// listed is how many instances the cloud has, -1 if it was asked for this one only.
	listed int
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
	case errors.As(err, &notFound):
		return ReasonInstanceNotFound, fmt.Sprintf("Check that the instance exists in the account and region that the cloud config "+
			"names, and that it is known under this name. If the node belongs to another provider, annotate it %s=true "+
			"or exclude it by --node-selector", ownership.AnnotationIgnore)
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

// messageOf is the text of the event of a failure. What it says of the node is enough for somebody who reads only it.
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
