package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// fieldManager names us in the managed fields of nodes.
	fieldManager = "cloud-node-controller"
	// writeTimeout is the deadline of one write to the API server.
	writeTimeout = 30 * time.Second
)

// outcome is what became of an action.
type outcome int

const (
	// written actions took effect.
	written outcome = iota
	// outdated actions did not: the node has changed since it was planned for.
	outdated
	// gone actions did not: the node has been deleted.
	gone
	// refused actions did not: the API server returned an error, or could not be asked.
	refused
)

// applied is what became of a plan.
type applied struct {
	// outcome is that of the last action that was tried, and written for an empty plan. Actions after it were not tried.
	outcome outcome
	// resourceVersion is that of the node after the last action that took effect, empty if none did.
	resourceVersion string
	// err says why the last action was refused.
	err error
	// withoutAddresses says why the API server did not take the addresses, nil if it did. The actions after them were tried.
	withoutAddresses error
}

// writer carries plans out.
type writer struct {
	client client.Client
	traces *traces
}

// apply carries out a plan, one action after the other, and stops at the first that does not take effect. Only that the API
// server refuses the addresses stops nothing: a node without them can run pods, one that keeps its taint cannot.
func (w writer) apply(ctx context.Context, node *corev1.Node, planned plan) applied {
	done := applied{outcome: written}
	for _, action := range planned.actions {
		stepping, span := w.traces.start(ctx, spanOf(action.target))
		patched, err := w.write(stepping, node.Name, action)
		endStep(span, err)
		done.outcome = outcomeOf(err)
		if done.outcome == refused {
			done.err = fmt.Errorf("writing the %s of the node: %w", action.target, err)
		}
		if action.target == targetAddresses && refusedForGood(err) {
			done = applied{outcome: written, withoutAddresses: done.err}
			continue
		}
		if err != nil {
			return done
		}
		done.resourceVersion = patched.ResourceVersion
	}
	return done
}

// spanOf names the span of a write.
func spanOf(written target) string {
	if written == targetAddresses {
		return spanWriteAddresses
	}
	return spanWriteNode
}

func (w writer) write(ctx context.Context, name string, action action) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	encoded, err := json.Marshal(action.patch)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := client.RawPatch(types.JSONPatchType, encoded)
	if action.target == targetAddresses {
		return node, w.client.Status().Patch(ctx, node, patch, client.FieldOwner(fieldManager))
	}
	return node, w.client.Patch(ctx, node, patch, client.FieldOwner(fieldManager))
}

// outcomeOf returns what became of an action, by the API server's answer.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return written
	case apierrors.IsNotFound(err):
		return gone
	case apierrors.IsConflict(err), patchDoesNotFit(err):
		return outdated
	default:
		return refused
	}
}

// patchDoesNotFit reports whether the API server could not apply a patch, which is how it says that a test failed: it names
// no object then, because no object came to be. Validation and admission have the same code, 422, and do name it.
func patchDoesNotFit(err error) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return details == nil || details.Name == ""
}

// refusedForGood reports whether the API server itself refused a write, for a reason that does not pass by itself. A server that
// is overloaded, or could not be asked, may take the write a moment later.
func refusedForGood(err error) bool {
	var answer apierrors.APIStatus
	return outcomeOf(err) == refused && errors.As(err, &answer) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err)
}
