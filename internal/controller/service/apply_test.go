package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/provider"
)

// Patches change what is ours, name the UID, and leave what belongs to others alone.
func TestPatches(t *testing.T) {
	others := func(s *corev1.Service) {
		s.Finalizers = append(s.Finalizers, "example.com/keep")
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: "Other", Status: metav1.ConditionTrue})
	}
	ready := &metav1.Condition{Type: ConditionReady, Status: metav1.ConditionTrue, Reason: "R", Message: "M", LastTransitionTime: metav1.NewTime(noon)}
	shown := map[string]any{"type": ConditionReady, "status": "True", "reason": "R", "message": "M", "lastTransitionTime": "2024-02-29T12:00:00Z"}
	metadata := func(more ...any) map[string]any {
		result := map[string]any{"uid": "uid-1"}
		for i := 0; i < len(more); i += 2 {
			result[more[i].(string)] = more[i+1]
		}
		return result
	}
	order := []any{map[string]any{"type": "Other"}, map[string]any{"type": ConditionReady}}
	for name, test := range map[string]struct {
		act  action
		want map[string]any
	}{
		"protect": {
			action{verb: verbProtect, service: serviceWith(others), publish: publication{ready: ready}},
			map[string]any{
				"metadata": metadata("finalizers", []any{Finalizer}, "$setElementOrder/finalizers", []any{"example.com/keep", Finalizer}),
				"status":   map[string]any{"conditions": []any{shown}, "$setElementOrder/conditions": order},
			},
		},
		"publish": {
			action{verb: verbPublish, service: serviceWith(protected, others), publish: publication{[]corev1.LoadBalancerIngress{vip("192.0.2.1")}, ready}},
			map[string]any{"metadata": metadata(), "status": map[string]any{
				"conditions": []any{shown}, "$setElementOrder/conditions": order,
				"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "192.0.2.1", "ipMode": "VIP"}}},
			}},
		},
		"release": {
			action{verb: verbRelease, service: serviceWith(provided, others)},
			map[string]any{
				"metadata": metadata("$deleteFromPrimitiveList/finalizers", []any{Finalizer}, "$setElementOrder/finalizers", []any{"example.com/keep"}),
				"status": map[string]any{
					"conditions":                  []any{map[string]any{"$patch": "delete", "type": ConditionReady}},
					"$setElementOrder/conditions": []any{map[string]any{"type": "Other"}},
					"loadBalancer":                map[string]any{"ingress": nil},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			patch, err := patchFor(test.act)
			if err != nil {
				t.Fatal(err)
			}
			data, err := patch.Data(nil)
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReasonsAndPauses(t *testing.T) {
	plain, paced := errors.New("plain"), cloudproviderapi.NewRetryError("x", 42*time.Second)
	throttled := &provider.ThrottledError{RetryAfter: time.Minute, Err: plain}
	b := backoff{first: 5 * time.Second, longest: 5 * time.Minute}
	for name, test := range map[string]struct {
		err    error
		before int
		reason string
		delay  time.Duration
		open   bool
	}{
		"plain":                  {plain, 0, ReasonCloudError, 5 * time.Second, false},
		"plain, the fourth":      {plain, 3, ReasonCloudError, 40 * time.Second, false},
		"plain, the hundredth":   {plain, 99, ReasonCloudError, 5 * time.Minute, false},
		"at a pace of its own":   {fmt.Errorf("wrapped: %w", paced), 9, ReasonPending, 42 * time.Second, true},
		"at no pace":             {cloudproviderapi.NewRetryError("x", 0), 0, ReasonPending, kit.Moment, true},
		"at a pace of days":      {cloudproviderapi.NewRetryError("x", 1000*time.Hour), 0, ReasonPending, 1000 * time.Hour, true},
		"throttled":              {&provider.ThrottledError{Err: plain}, 0, ReasonThrottled, 5 * time.Second, true},
		"throttled for a time":   {throttled, 0, ReasonThrottled, time.Minute, true},
		"throttled for too long": {&provider.ThrottledError{RetryAfter: time.Hour, Err: plain}, 0, ReasonThrottled, classify.MaxRetryAfter, true},
		"out of time":            {classify.ErrDeadline, 0, ReasonTimeout, 5 * time.Second, true},
		"terminal":               {&provider.TerminalError{Err: plain}, 0, ReasonRefused, 5 * time.Second, false},
		"not found":              {&retargetError{err: fmt.Errorf("%w: %w", errNotFound, plain)}, 0, ReasonNotFound, 5 * time.Second, false},
		"the API server refused": {&writeError{plain}, 0, ReasonWriteFailed, 5 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reasonOf(test.err); got != test.reason {
				t.Errorf("reason %s, want %s", got, test.reason)
			}
			if got := b.after(test.before, test.err, "uid-1"); got != test.delay {
				t.Errorf("pause %s, want %s", got, test.delay)
			}
			if got := saysNothing(test.err); got != test.open {
				t.Errorf("leaves open what became of a deletion: %t, want %t", got, test.open)
			}
		})
	}
}

// Pauses are lengthened by what depends on the object alone, and never beyond the longest one. Those of Services that fail for long differ, too.
func TestPausesAreSpread(t *testing.T) {
	b := backoff{first: 5 * time.Second, longest: 2 * time.Minute, jitter: true}
	for _, test := range []struct {
		before         int
		least, longest time.Duration
	}{
		{0, 5 * time.Second, 5500 * time.Millisecond}, {99, 109 * time.Second, 2 * time.Minute},
	} {
		different := map[time.Duration]bool{}
		for i := range 100 {
			of := fmt.Sprint("uid-", i)
			pause := b.after(test.before, errors.New("plain"), of)
			different[pause] = true
			if pause < test.least || pause > test.longest || pause != b.after(test.before, errors.New("plain"), of) {
				t.Errorf("the pause of %s after %d failures is %s", of, test.before, pause)
			}
		}
		if len(different) < 50 {
			t.Errorf("100 Services have %d different pauses after %d failures", len(different), test.before)
		}
	}
}

// A Service that is to be cleaned up is looked at every 30 seconds at least.
func TestCleaningUpIsTriedOftener(t *testing.T) {
	b := backoff{first: 5 * time.Second, longest: 2 * time.Minute}
	if ensure, remove := b.of(provide).after(9, errors.New("x"), ""), b.of(withdraw).after(9, errors.New("x"), ""); ensure != 2*time.Minute || remove != kit.WriteTimeout {
		t.Errorf("pauses of %s for an Ensure and %s for a deletion", ensure, remove)
	}
}

// A copy from the cache that is older than our own write is not worked on.
func TestNewest(t *testing.T) {
	versioned := func(version string, edits ...func(*corev1.Service)) *corev1.Service {
		service := serviceWith(edits...)
		service.ResourceVersion = version
		return service
	}
	old, own, new := versioned("9"), versioned("10", protected), versioned("11", protected)
	another := versioned("3", func(s *corev1.Service) { s.UID = "uid-2" })
	for name, test := range map[string]struct{ cached, want *corev1.Service }{
		"older": {old, own}, "newer": {new, new}, "another Service": {another, another}, "gone": {nil, nil},
	} {
		if got := (&state{ownWrite: own}).newest(test.cached); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestCameTooLate(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("Service").GroupKind()
	invalid := func(path string) error {
		return apierrors.NewInvalid(kind, "web", field.ErrorList{field.Forbidden(field.NewPath(path), "no")})
	}
	admission := apierrors.NewInvalid(kind, "web", nil)
	admission.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "the policy says no"}}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"conflict":         {apierrors.NewConflict(corev1.Resource("services"), "web", errors.New("x")), true},
		"not found":        {apierrors.NewNotFound(corev1.Resource("services"), "web"), true},
		"a proxy's 404":    {apierrors.NewGenericServerResponse(404, "patch", corev1.Resource("services"), "web", "default backend - 404", 0, true), true},
		"another's UID":    {invalid("metadata.uid"), true},
		"no finalizers":    {invalid("metadata.finalizers"), true},
		"an odd address":   {invalid("status.loadBalancer.ingress[0].ip"), false},
		"admission":        {admission, false},
		"no right":         {apierrors.NewForbidden(corev1.Resource("services"), "web", errors.New("x")), false},
		"no API server":    {errors.New("connection refused"), false},
		"wrapped conflict": {fmt.Errorf("writing: %w", apierrors.NewConflict(corev1.Resource("services"), "web", errors.New("x"))), true},
	} {
		if got := cameTooLate(test.err); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// The same is not tried again before its time; something else is.
func TestHeld(t *testing.T) {
	same, changed := serviceWith(), serviceWith(ofClass("x"))
	failed := state{ensure: attempt{inputs: same, err: errNotFound, Row: kit.Row{Until: noon.Add(time.Minute)}}}
	for name, test := range map[string]struct {
		known  state
		intent intent
		inputs *corev1.Service
		want   bool
	}{
		"nothing failed":  {state{}, provide, same, false},
		"the same":        {failed, provide, same, true},
		"something else":  {failed, provide, changed, false},
		"to be withdrawn": {failed, withdraw, same, false},
	} {
		last := test.known.continued(desired{intent: test.intent, inputs: test.inputs})
		if got := last.Until.After(noon); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
