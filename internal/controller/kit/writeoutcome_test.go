package kit

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestWriteOutcomes(t *testing.T) {
	nodes, kind := schema.GroupResource{Resource: "nodes"}, schema.GroupKind{Kind: "Node"}
	admission := apierrors.NewInvalid(kind, "node0", nil)
	admission.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "the policy says no"}}
	for name, test := range map[string]struct {
		err     error
		want    WriteOutcome
		forGood bool
	}{
		"success":   {err: nil, want: Written},
		"not found": {err: apierrors.NewNotFound(nodes, "node0"), want: Outdated},
		"conflict":  {err: apierrors.NewConflict(nodes, "node0", errors.New("x")), want: Outdated},
		"a test of the patch failed": {
			err: apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, "", "testing value failed", 0, false), want: Outdated,
		},
		"the UID of another object": {
			err: apierrors.NewInvalid(kind, "node0", field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), "x", "immutable")}), want: Outdated,
		},
		"validation": {
			err:  apierrors.NewInvalid(kind, "node0", field.ErrorList{field.Invalid(field.NewPath("metadata"), "x", "y")}),
			want: Refused, forGood: true,
		},
		"admission":         {err: admission, want: Refused, forGood: true},
		"no permission":     {err: apierrors.NewForbidden(nodes, "node0", errors.New("x")), want: Refused, forGood: true},
		"too many requests": {err: apierrors.NewTooManyRequests("later", 1), want: Refused},
		"unavailable":       {err: apierrors.NewServiceUnavailable("etcd"), want: Uncertain},
		"server timeout":    {err: apierrors.NewServerTimeout(nodes, "patch", 1), want: Uncertain},
		"timeout":           {err: apierrors.NewTimeoutError("slow", 1), want: Uncertain},
		"a failing webhook": {err: apierrors.NewInternalError(errors.New("x")), want: Uncertain, forGood: true},
		"deadline":          {err: context.DeadlineExceeded, want: Uncertain},
		"no API server":     {err: errors.New("connection refused"), want: Uncertain},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{test.err, wrapped(test.err)} {
				if got := OutcomeOf(err); got != test.want {
					t.Errorf("the outcome of %v is %d, want %d", err, got, test.want)
				}
				if got := RefusedForGood(err); got != test.forGood {
					t.Errorf("%v refuses for good: %t, want %t", err, got, test.forGood)
				}
			}
		})
	}
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("writing: %w", err)
}

func TestOnlyRefusedAndUncertainWritesFailed(t *testing.T) {
	for outcome, want := range map[WriteOutcome]bool{
		NotTried: false, Written: false, Outdated: false, Refused: true, Uncertain: true,
	} {
		if got := outcome.Failed(); got != want {
			t.Errorf("%d failed: %t, want %t", outcome, got, want)
		}
	}
}
