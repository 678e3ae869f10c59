package conformance_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider/conformance"
)

// empty is a provider that offers nothing yet.
type empty struct{ cloudprovider.Interface }

func (empty) ProviderName() string                           { return "mycloud" }
func (empty) Routes() (cloudprovider.Routes, bool)           { return nil, false }
func (empty) Instances() (cloudprovider.Instances, bool)     { return nil, false }
func (empty) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

// The test of a provider runs all rules, each as a test of its own. Hooks are what the test can do in the cloud and the provider
// cannot.
func ExampleRun() {
	_ = func(t *testing.T) {
		conformance.Run(t, func(context.Context) (*conformance.Subject, error) {
			return &conformance.Subject{Cloud: empty{}, Hooks: conformance.Hooks{}}, nil
		}, conformance.Options{})
	}
}

// A program tries rules and reports what comes of it. What the provider does not offer is not run.
func ExampleCheck() {
	factory := func(context.Context) (*conformance.Subject, error) {
		return &conformance.Subject{Cloud: empty{}}, nil
	}
	report, err := conformance.Check(context.Background(), factory, conformance.Options{Rules: []string{"routes-black-hole"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, result := range report.Results {
		fmt.Println(result.Rule.ID, result.Outcome, result.Reason)
	}
	// Output: routes-black-hole not run the provider does not offer Routes
}

// Rules are data: a provider's test chooses those about what its cloud has.
func ExampleRules() {
	count := 0
	for _, rule := range conformance.Rules() {
		if strings.HasPrefix(rule.ID, "routes-") {
			count++
		}
	}
	fmt.Println(count > 3)
	// Output: true
}
