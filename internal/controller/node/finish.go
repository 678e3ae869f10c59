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
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/node/contest"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/provider"
)

// readTimeout is the deadline of the question who else writes a field.
const readTimeout = 5 * time.Second

// resultKind is how a pass over a node ended.
type resultKind int

const (
	// unconcerned passes had nothing to decide about.
	unconcerned resultKind = iota
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
	// overtaken passes met a node that somebody else had changed. They are repeated.
	overtaken
)

// result is how a pass over a node ended, and with what.
type result struct {
	kind resultKind
	// err is why the pass failed, or what the node mismatches by, initialized or not.
	err error
	// note is why the node waits; worthKnowing if an operator should see that once.
	note         string
	worthKnowing bool
	// withoutAddresses says why the API server did not take the addresses of a node that is otherwise as decided.
	withoutAddresses error
	// pause is how long it is until a field may be written that is left alone, or zero if no field is left alone.
	pause time.Duration
	// plan and want are what was decided.
	plan plan
	want desired
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
		return result{kind: overtaken, wrote: done.resourceVersion}
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
		if ended.err != nil {
			r.warn(ctx, node, ended.err)
		}
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
		delay, first := r.state.waited(node, time.Now())
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
		return r.repeat(ctx, node)
	case unconcerned:
	}
	return reconcile.Result{}
}

// resume has a pass made over a node of which something is left: addresses that the API server did not take, or fields that
// are left alone for a while.
func (r *reconciler) resume(ctx context.Context, node *corev1.Node, ended result) reconcile.Result {
	switch {
	case ended.withoutAddresses != nil:
		r.state.lacksAddresses(node)
		return retry(r.warn(ctx, node, ended.withoutAddresses))
	case ended.pause > 0:
		return retry(ended.pause)
	default:
		return reconcile.Result{}
	}
}

// repeat makes another pass over a node that changed concurrently, soon and silently. If that goes on, the API server refuses the writes for
// another reason, and the node gets an event.
func (r *reconciler) repeat(ctx context.Context, node *corev1.Node) reconcile.Result {
	if delay, worthIt := r.state.conflicted(node); worthIt {
		logf.FromContext(ctx).V(1).Info("The node changed while it was being written; looking at it again")
		return reconcile.Result{RequeueAfter: delay}
	}
	return retry(r.warn(ctx, node, &writeError{err: errAlwaysTooLate}))
}

// warn counts and remembers a failure. The node gets an event, unless it got one for the same reason a short while ago: a
// cloud that is down fails for all nodes, again and again. It returns the pause before the next try.
func (r *reconciler) warn(ctx context.Context, node *corev1.Node, err error) time.Duration {
	if ctx.Err() != nil {
		return failureBackoff.First // we are being stopped, which is nobody's failure
	}
	reason, _ := reasonOf(err)
	now := time.Now()
	delay := r.state.failed(node, err, now)
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.traces.failed(node, reason, err)
	log := logf.FromContext(ctx).WithValues("reason", reason, "retryAfter", delay)
	if r.events.Allow(node.UID, reason, now) {
		r.recorder.Event(node, corev1.EventTypeWarning, reason, messageOf(node, err))
		log.Error(err, "Could not bring the node in line with the cloud")
	} else {
		log.V(1).Info("Could not bring the node in line with the cloud again", "error", err.Error())
	}
	return delay
}

// waiting says by an event what the call for a node's instance waits for.
func (r *reconciler) waiting(node *corev1.Node, reason string) {
	if r.events.Allow(node.UID, ReasonWaitingForCloud, time.Now()) {
		r.recorder.Event(node, corev1.EventTypeNormal, ReasonWaitingForCloud, kit.EventMessage("Waiting to ask the cloud for the node's instance: "+reason))
	}
}

// warnReversed counts fields that are left alone from now on, and says by an event who else writes them, unless there was one a
// short while ago.
func (r *reconciler) warnReversed(ctx context.Context, node *corev1.Node, paused []contest.Reversal) {
	r.metrics.failures.WithLabelValues(ReasonConflictingWriter).Add(float64(len(paused)))
	now := time.Now()
	news := slices.DeleteFunc(slices.Clone(paused), func(of contest.Reversal) bool {
		return !r.events.Allow(node.UID, ReasonConflictingWriter+of.Field, now)
	})
	log := logf.FromContext(ctx)
	if len(news) == 0 {
		log.V(1).Info("Another writer keeps changing fields of the node; leaving them alone", "retryAfter", paused[0].Pause)
		return
	}
	live := r.readLive(ctx, node)
	changes := make([]string, len(news))
	for i, of := range news {
		changes[i] = describeReversal(of, live)
	}
	what := "Another writer keeps changing what the cloud decides about: " + strings.Join(changes, "; ")
	advice := fmt.Sprintf(". Stop the other writer, or annotate the node %s=true.", ownership.AnnotationIgnore)
	r.recorder.Event(node, corev1.EventTypeWarning, ReasonConflictingWriter, message.Line(what, kit.MaxMessage-len(advice))+advice)
	log.Info("Another writer keeps changing fields of the node; leaving them alone for a while", "reason", ReasonConflictingWriter,
		"changes", changes)
}

// readLive reads a node with the record of who set which field, which the cache leaves out. Without it the event says what is known.
func (r *reconciler) readLive(ctx context.Context, node *corev1.Node) *corev1.Node {
	if r.live == nil {
		return node
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	live := &corev1.Node{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(node), live); err != nil || live.UID != node.UID {
		return node
	}
	return live
}

// describeReversal says what is contested, by whom, and what follows.
func describeReversal(of contest.Reversal, live *corev1.Node) string {
	what, wanted, has := "the addresses", of.Wanted, addressList(live.Status.Addresses)
	path := []string{"f:status", "f:addresses"}
	if key, isLabel := labelOf(of.Field); isLabel {
		what, wanted, has = "the label "+key, fmt.Sprintf("%q", of.Wanted), fmt.Sprintf("%q", live.Labels[key])
		path = []string{"f:metadata", "f:labels", "f:" + key}
	}
	by := "a writer that left no name"
	if manager := contest.ManagerOf(live.ManagedFields, path, fieldManager); manager != "" {
		by = fmt.Sprintf("the field manager %q", manager)
	}
	return fmt.Sprintf("%s from %s to %s, by %s, left alone for %s", what, wanted, has, by, of.Pause)
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
	// ReasonAddressesUnconfirmed says that an answer of the cloud would take all IPs from a ready node, which keeps them until a
	// later answer says the same.
	ReasonAddressesUnconfirmed = "AddressesUnconfirmed"
	// ReasonConflictingWriter says that somebody else keeps changing a field that the cloud decides about, and that it is left alone
	// for a while.
	ReasonConflictingWriter = "ConflictingWriter"
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

// unconfirmedError says that a ready node keeps its addresses although the cloud's answer has no IP.
type unconfirmedError struct {
	has, said []corev1.NodeAddress
}

// Error shows both.
func (e *unconfirmedError) Error() string {
	return fmt.Sprintf("by the cloud's answer %s the node, which is ready, would lose all IPs of its addresses %s; "+
		"they stay until a later answer says the same", shownAddresses(e.said), shownAddresses(e.has))
}

// errAlwaysTooLate says that the API server took none of several writes in a row, each planned anew.
var errAlwaysTooLate = errors.New("the API server refused each of several attempts because the node had changed meanwhile")

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
		confirm   *unconfirmedError
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
	case errors.As(err, &confirm):
		return ReasonAddressesUnconfirmed, "Check in the cloud whether the instance has lost its network interfaces"
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
