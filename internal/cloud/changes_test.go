package cloud

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/provider"
)

// declared is a plugin with the capabilities of a test.
type declared struct {
	plugin
	capabilities provider.Capabilities
}

func (d *declared) Capabilities() provider.Capabilities { return d.capabilities }

// changing returns a plugin whose ChangeRoutes answers, behind the client, and how often calls had an outcome.
func changing(answer func() ([]error, error)) (change provider.ChangeRoutesFunc, calls func(outcome string) float64) {
	behind := Decorate(&declared{capabilities: provider.Capabilities{
		ChangeRoutes: func(context.Context, string, []provider.RouteChange) ([]error, error) { return answer() },
	}}, Options{})
	return provider.CapabilitiesOf(behind).ChangeRoutes, func(outcome string) float64 {
		return counted(behind, "ChangeRoutes", outcome)
	}
}

// counted returns how many calls of an operation had an outcome.
func counted(behind cloudprovider.Interface, operation, outcome string) float64 {
	return testutil.ToFloat64(behind.(*decorated).calls.metrics.calls.WithLabelValues(operation, outcome))
}

// One call makes many changes, and is counted as one, by what it says of the cloud.
func TestChangesOfRoutes(t *testing.T) {
	to := func(cidr string) provider.RouteChange {
		return provider.RouteChange{New: &cloudprovider.Route{DestinationCIDR: cidr}}
	}
	changes := []provider.RouteChange{to("10.0.0.0/24"), to("10.0.1.0/24")}
	full, lost := errors.New("the table is full"), errors.New("connection reset")
	for name, test := range map[string]struct {
		results   []error
		err       error
		outcome   string
		throttled []bool // by result
	}{
		"all made":            {results: []error{nil, nil}, outcome: classify.OutcomeOK, throttled: []bool{false, false}},
		"one failed":          {results: []error{nil, full}, outcome: classify.OutcomeOK, throttled: []bool{false, false}},
		"all failed":          {results: []error{full, full}, outcome: classify.OutcomeError, throttled: []bool{false, false}},
		"one refused":         {results: []error{nil, errors.New("429 Too Many Requests")}, outcome: classify.OutcomeThrottled, throttled: []bool{false, true}},
		"the answer was lost": {err: lost, outcome: classify.OutcomeError},
		"all refused":         {err: errors.New("429 Too Many Requests"), outcome: classify.OutcomeThrottled},
	} {
		change, calls := changing(func() ([]error, error) { return slices.Clone(test.results), test.err })
		results, err := change(t.Context(), "c", changes)
		var throttled []bool
		for _, result := range results {
			throttled = append(throttled, provider.IsThrottled(result))
		}
		if !errors.Is(err, test.err) || !slices.Equal(throttled, test.throttled) || calls(test.outcome) != 1 {
			t.Errorf("%s: results %v, error %v, %v calls counted as %s", name, results, err, calls(test.outcome), test.outcome)
		}
	}
}

// A call of several changes that does not return keeps its routes: no call with a change of them is made, calls about others are.
func TestChangesBesideACallThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := func(cidr, node string) provider.RouteChange {
			return provider.RouteChange{New: &cloudprovider.Route{DestinationCIDR: cidr, TargetNode: types.NodeName(node)}}
		}
		a, hangs, other := to("10.0.0.0/24", "a"), to("10.0.2.0/24", "hangs"), to("10.0.9.0/24", "z")
		over := make(chan struct{})
		behind := Decorate(&declared{capabilities: provider.Capabilities{
			ChangeRoutes: func(_ context.Context, _ string, changes []provider.RouteChange) ([]error, error) {
				for _, change := range changes {
					if change.New != nil && change.New.TargetNode == "hangs" {
						<-over
					}
				}
				return make([]error, len(changes)), nil
			},
		}}, Options{})
		change := func(changes ...provider.RouteChange) error {
			results, err := provider.CapabilitiesOf(behind).ChangeRoutes(t.Context(), "c", changes)
			return errors.Join(append(results, err)...)
		}
		if err := change(other); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := change(a, hangs); !errors.Is(err, classify.ErrStillRunning) || time.Since(begun) != classify.MaxRetryAfter {
			t.Errorf("the call of both ended after %s with %v", time.Since(begun), err)
		}
		if err := change(a); !errors.Is(err, classify.ErrStillRunning) {
			t.Errorf("one of its changes, alone: %v", err)
		}
		if err := change(a, other); !errors.Is(err, classify.ErrStillRunning) {
			t.Errorf("one of its changes and another: %v", err)
		}
		if err := change(other); err != nil {
			t.Errorf("the other, alone: %v", err)
		}
		if err := Unreturned(behind); err == nil || len(strings.Split(err.Error(), "\n")) != 1 {
			t.Errorf("writes that have not returned: %v, want one", err)
		}
		close(over)
		synctest.Wait()
		if err := change(a); err != nil {
			t.Errorf("when it has returned: %v", err)
		}
	})
}

// A change of targets is a write like any other: it is counted, and its errors have types.
func TestChangesOfTargets(t *testing.T) {
	behind := Decorate(&declared{capabilities: provider.Capabilities{
		ChangeTargets: func(_ context.Context, _ string, _ *v1.Service, add, remove []*v1.Node) error {
			if len(add) == 1 && len(remove) == 2 {
				return errors.New("429 Too Many Requests")
			}
			return nil
		},
	}}, Options{})
	change := provider.CapabilitiesOf(behind).ChangeTargets
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}}
	if err := change(t.Context(), "c", service, []*v1.Node{{}}, []*v1.Node{{}, {}}); !provider.IsThrottled(err) {
		t.Errorf("%v, want a refusal", err)
	}
	if got := counted(behind, "ChangeTargets", classify.OutcomeThrottled); got != 1 {
		t.Errorf("%v calls were counted, want 1", got)
	}
}

// What a provider declares holds where the operator says nothing.
func TestDeclaredLimits(t *testing.T) {
	limits := provider.Limits{CallsPerSecond: 10, Burst: 5, InFlight: 3}
	for name, test := range map[string]struct {
		options Options
		limits  provider.Limits
		took    time.Duration
		most    int
	}{
		"nothing is said":    {Options{}, provider.Limits{}, 0, 0},
		"declared":           {Options{}, limits, 1500 * time.Millisecond, 3},
		"without a burst":    {Options{}, provider.Limits{CallsPerSecond: 10}, time.Second, 0},
		"a burst of nothing": {Options{}, provider.Limits{Burst: 5}, 0, 0},
		"the operator's":     {Options{QPS: 5, Burst: 10, MaxInFlight: 4}, limits, 2 * time.Second, 4},
		"only the rate":      {Options{QPS: 5}, limits, 3 * time.Second, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := &declared{capabilities: provider.Capabilities{Limits: test.limits}}
				cloud.metadata = func(context.Context, *v1.Node) (*cloudprovider.InstanceMetadata, error) {
					return &cloudprovider.InstanceMetadata{}, nil
				}
				behind := Decorate(cloud, test.options)
				if got := test.options.within(test.limits).MaxInFlight; got != test.most {
					t.Errorf("%d calls at once at the most, want %d", got, test.most)
				}
				begun := time.Now()
				for range 20 {
					if _, err := metadataOf(t, behind, t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if took := time.Since(begun); took < test.took || took > test.took+100*time.Millisecond {
					t.Errorf("20 calls took %s, want %s", took, test.took)
				}
			})
		})
	}
}
