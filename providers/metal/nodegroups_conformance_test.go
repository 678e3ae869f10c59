package metal

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mooring-ccm/mooring/provider/conformance"
)

// rulesAbout returns the IDs of the rules that begin so.
func rulesAbout(prefix string) []string {
	var ids []string
	for _, rule := range conformance.Rules() {
		if strings.HasPrefix(rule.ID, prefix) {
			ids = append(ids, rule.ID)
		}
	}
	return ids
}

// TestConformanceOfNodeGroups holds groups of machines to every rule that is about them. When the cloud fails, neither the BMCs nor the
// API server answers, which has the record.
func TestConformanceOfNodeGroups(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for machines to turn on and off, which -short leaves out")
	}
	t.Parallel()
	r := newPoweredRack(t, 32, "minCycleTime: 0s, capacity: {cpu: '8', memory: 32Gi, pods: '110'}")
	r.settled(t, r.Cloud, 0)
	var failing atomic.Bool
	r.client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return failing.Load(), nil, errors.New("the API server does not answer")
	})
	factory := func(context.Context) (*conformance.Subject, error) {
		return &conformance.Subject{
			Cloud: r.Cloud, NodeGroup: groupOfTests, Instances: []conformance.Instance{{NodeName: "m31", ProviderID: idOf(31)}},
			Hooks: conformance.Hooks{InjectFault: func(context.Context, conformance.Fault) (func(), error) {
				failing.Store(true)
				r.service.Fail(http.StatusServiceUnavailable)
				return func() { failing.Store(false); r.service.Fail(0) }, nil
			}},
		}, nil
	}
	rules := rulesAbout("node-groups-")
	var ran []string
	conformance.Run(t, factory, conformance.Options{Rules: rules, Progress: func(result conformance.Result) {
		if result.Outcome != conformance.NotRun {
			ran = append(ran, result.Rule.ID)
		}
	}})
	if !slices.Equal(ran, rules) || len(rules) != 11 {
		t.Errorf("the rules %q were run, want the 11 of %q", ran, rules)
	}
}
