package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

const (
	// fieldManager names us in the managed fields of nodes.
	fieldManager = "cloud-node-controller"
	// writeTimeout is the deadline of one write to the API server.
	writeTimeout = 30 * time.Second
)

// applied is what became of a plan.
type applied struct {
	// outcome is that of the last action that was tried, and kit.Written for an empty plan. Actions after it were not tried.
	outcome kit.WriteOutcome
	// resourceVersion is that of the node after the last action that took effect, empty if none did.
	resourceVersion string
	// err says why the last action failed.
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
//
// See ADR 13.
func (w writer) apply(ctx context.Context, node *corev1.Node, planned plan) applied {
	done := applied{outcome: kit.Written}
	for _, action := range planned.actions {
		stepping, span := w.traces.start(ctx, spanOf(action.target))
		patched, err := w.write(stepping, node.Name, action)
		endStep(span, err)
		done.outcome = kit.OutcomeOf(err)
		if done.outcome.Failed() {
			done.err = kit.WriteError(fmt.Errorf("writing the %s of the node: %w", action.target, err))
		}
		if action.target == targetAddresses && kit.RefusedForGood(err) {
			done = applied{outcome: kit.Written, withoutAddresses: done.err}
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
