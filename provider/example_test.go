package provider_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// A provider says of the cloud's answer what it means. The manager waits as long as the cloud asks, and holds all calls meanwhile.
func ExampleThrottled() {
	refused := errors.New("429 Too Many Requests")
	err := fmt.Errorf("listing instances: %w", provider.Throttled(30*time.Second, refused))
	after, said := provider.RetryAfter(err)
	fmt.Println(after, said, provider.IsThrottled(err), errors.Is(err, refused))
	// Output: 30s true true true
}

// That an instance does not exist is said by a type, never by a text.
func ExampleNotFound() {
	err := fmt.Errorf("instance i-1: %w", provider.NotFound(errors.New("404")))
	fmt.Println(provider.IsNotFound(err), provider.IsNotFound(errors.New("404: instance not found")))
	// Output: true false
}

// Another author's plugin gets capabilities that are known of its cloud.
func ExampleWithCapabilities() {
	var plugin cloudprovider.Interface = plain{}
	better := provider.WithCapabilities(plugin, provider.Capabilities{
		ProviderIDSchemes: []string{"plain", "older"},
		ListInstances: func(_ context.Context, yield func([]provider.Instance) error) error {
			return yield([]provider.Instance{{NodeName: "node-1", InstanceMetadata: cloudprovider.InstanceMetadata{ProviderID: "plain://1"}}})
		},
	})
	declared := provider.CapabilitiesOf(better)
	err := declared.ListInstances(context.Background(), func(page []provider.Instance) error {
		fmt.Println(page[0].ProviderID, declared.ProviderIDSchemes)
		return nil
	})
	fmt.Println(err)
	// Output:
	// plain://1 [plain older]
	// <nil>
}
