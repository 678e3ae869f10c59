package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

func TestEveryFailureHasAReasonAndARemedy(t *testing.T) {
	outage := errors.New("connection refused")
	tests := []struct {
		name   string
		err    error
		reason string
		parts  []string
	}{
		{
			"no instance, by name", &instanceNotFoundError{name: "node0", listed: 3}, ReasonInstanceNotFound,
			[]string{`by the node's name "node0"`, "mooring.dev/ignore", "--node-selector"},
		},
		{
			"no instance, by provider ID", &instanceNotFoundError{name: "node0", providerID: "sim://1", listed: -1}, ReasonInstanceNotFound,
			[]string{`by the provider ID "sim://1"`},
		},
		{"an empty list", &instanceNotFoundError{name: "node0"}, ReasonInstanceNotFound, []string{"listed no instances at all"}},
		{
			"an ambiguous name", &instances.AmbiguousNameError{Name: "node0", ProviderIDs: []string{"sim://1", "sim://2"}}, ReasonAmbiguousInstance,
			[]string{"sim://1", "sim://2", "--provider-id"},
		},
		{"no provider ID", &instances.ProviderIDMissingError{Name: "node0"}, ReasonProviderIDMissing, []string{"--provider-id"}},
		{
			"a node IP that does not fit",
			&nodeIPMismatchError{provided: "10.0.0.2", cloud: addresses(internalIP("10.0.0.1")), err: errors.New("no match")},
			ReasonNodeIPMismatch, []string{"10.0.0.2", "InternalIP 10.0.0.1", "--node-ip"},
		},
		{
			"a zone that is no label", &invalidMetadataError{key: "zone", value: "a b", err: errors.New("no label")},
			ReasonInvalidMetadata, []string{`"a b"`},
		},
		{
			"a write without an answer", &writeError{err: fmt.Errorf("writing the addresses of the node: %w", context.DeadlineExceeded)},
			ReasonWriteFailed, []string{"writing the addresses", "deadline"},
		},
		{"an outage", fmt.Errorf("listing: %w", outage), ReasonCloudError, []string{"connection refused"}},
		{"bad credentials", &provider.TerminalError{Err: errors.New("401")}, ReasonCloudError, []string{"401", "credentials"}},
		{"a quota", &provider.ThrottledError{Err: errors.New("429")}, ReasonCloudError, []string{"429"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wrapped := fmt.Errorf("wrapped: %w", test.err)
			if reason, _ := reasonOf(wrapped); reason != test.reason {
				t.Errorf("reason %s, want %s", reason, test.reason)
			}
			message := messageOf(newNode(withTaints(cloudTaint)), wrapped)
			for _, part := range append(test.parts, "Could not initialize the node: ") {
				if !strings.Contains(message, part) {
					t.Errorf("the message does not say %q:\n%s", part, message)
				}
			}
		})
	}
	if message := messageOf(newNode(), outage); !strings.HasPrefix(message, "Could not refresh the node") {
		t.Errorf("the message of an initialized node is %q", message)
	}
}

// What to do about a refused write depends on who refused it. The answers are as an API server of 1.36 gives them.
func TestTheAdviceFitsTheAPIServersAnswer(t *testing.T) {
	nodes, kind := schema.GroupResource{Resource: "nodes"}, schema.GroupKind{Kind: "Node"}
	policy := apierrors.NewForbidden(nodes, "node0", errors.New("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"))
	policy.ErrStatus.Reason, policy.ErrStatus.Code = metav1.StatusReasonInvalid, 422
	policy.ErrStatus.Details.Causes = append(policy.ErrStatus.Details.Causes, metav1.StatusCause{Message: "no"})
	const permissions, returned, admission = "permissions", "what the cloud provider returned", "admission policies and webhooks"
	tests := []struct {
		name string
		err  error
		want string // empty: no advice
	}{
		{"no grant", apierrors.NewForbidden(nodes, "node0", errors.New(`User "u" cannot patch resource "nodes/status" in API group ""`)), permissions},
		{"no such user", apierrors.NewUnauthorized("x"), permissions},
		{
			"validation",
			apierrors.NewInvalid(kind, "node0", field.ErrorList{field.Duplicate(field.NewPath("status", "addresses").Index(1), "x")}), returned,
		},
		{"an admission policy", policy, admission},
		{"an admission plugin", apierrors.NewForbidden(nodes, "node0", errors.New("not allowed to modify node")), admission},
		{"a webhook that denies", &apierrors.StatusError{ErrStatus: metav1.Status{Code: 400, Message: `admission webhook "w" denied the request`}}, admission},
		{"a webhook that fails", apierrors.NewInternalError(errors.New(`failed calling webhook "w"`)), admission},
		{"an overloaded server", apierrors.NewTooManyRequests("x", 1), ""},
		{"no server", errors.New("connection refused"), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, advice := reasonOf(&writeError{err: fmt.Errorf("writing the addresses of the node: %w", test.err)})
			for _, part := range []string{permissions, returned, admission} {
				if strings.Contains(advice, part) != (part == test.want) {
					t.Errorf("the advice is %q, want one of %q", advice, test.want)
				}
			}
			if test.want == "" && advice != "" {
				t.Errorf("the advice is %q, want none", advice)
			}
		})
	}
}

func TestALongMessageKeepsItsAdvice(t *testing.T) {
	long := &writeError{err: apierrors.NewInternalError(errors.New(strings.Repeat("x", 5000)))}
	message := messageOf(newNode(), long)
	if len(message) > kit.MaxMessage || !strings.HasSuffix(message, "webhooks for nodes.") {
		t.Errorf("%d characters that end in %q", len(message), message[len(message)-40:])
	}
}

func TestOutcomes(t *testing.T) {
	nodes, kind := schema.GroupResource{Resource: "nodes"}, schema.GroupKind{Kind: "Node"}
	tests := []struct {
		name string
		err  error
		want kit.WriteOutcome
	}{
		{"success", nil, kit.Written},
		{"not found", apierrors.NewNotFound(nodes, "node0"), kit.Outdated},
		{"conflict", apierrors.NewConflict(nodes, "node0", errors.New("x")), kit.Outdated},
		{
			"a test of the patch failed",
			apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, "", "testing value failed", 0, false), kit.Outdated,
		},
		{
			"validation",
			apierrors.NewInvalid(kind, "node0", field.ErrorList{field.Invalid(field.NewPath("metadata"), "x", "y")}), kit.Refused,
		},
		{"no permission", apierrors.NewForbidden(nodes, "node0", errors.New("x")), kit.Refused},
		{"server error", apierrors.NewInternalError(errors.New("x")), kit.Uncertain},
		{"deadline", context.DeadlineExceeded, kit.Uncertain},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := test.err
			if err != nil {
				err = fmt.Errorf("wrapped: %w", err)
			}
			if got := kit.OutcomeOf(err); got != test.want {
				t.Errorf("outcome %d, want %d", got, test.want)
			}
		})
	}
}
