package provider_test

import (
	"testing"

	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// plain is a plugin that knows nothing of this project.
type plain struct{ cloudprovider.Interface }

func (plain) ProviderName() string { return "plain" }

// informedPlain is one that wants informers.
type informedPlain struct {
	plain
	informed *bool
}

func (p informedPlain) SetInformers(informers.SharedInformerFactory) { *p.informed = true }

// declaring is one that declares something itself.
type declaring struct{ plain }

func (declaring) Capabilities() provider.Capabilities {
	return provider.Capabilities{MaxRoutes: 5, RouteWrites: 2}
}

func TestWithCapabilities(t *testing.T) {
	wrapped := provider.WithCapabilities(plain{}, provider.Capabilities{MaxRoutes: 7})
	if got := provider.CapabilitiesOf(wrapped); got.MaxRoutes != 7 || wrapped.ProviderName() != "plain" {
		t.Errorf("%q declares %d routes, want plain with 7", wrapped.ProviderName(), got.MaxRoutes)
	}
	if _, wants := wrapped.(cloudprovider.InformerUser); wants {
		t.Error("a plugin that wants no informers asks for some")
	}
	if inner := wrapped.(interface {
		Unwrap() cloudprovider.Interface
	}).Unwrap(); inner != (plain{}) {
		t.Errorf("unwrapped: %v", inner)
	}

	var informed bool
	wrapped = provider.WithCapabilities(informedPlain{informed: &informed}, provider.Capabilities{MaxRoutes: 7})
	wrapped.(cloudprovider.InformerUser).SetInformers(nil)
	if got := provider.CapabilitiesOf(wrapped); !informed || got.MaxRoutes != 7 || wrapped.ProviderName() != "plain" {
		t.Errorf("informed %t, %q declares %d routes", informed, wrapped.ProviderName(), got.MaxRoutes)
	}

	more := provider.CapabilitiesOf(declaring{})
	more.LoadBalancerWrites = 50
	if got := provider.CapabilitiesOf(provider.WithCapabilities(declaring{}, more)); got.MaxRoutes != 5 || got.LoadBalancerWrites != 50 {
		t.Errorf("%d routes, %d writes; want what it declares itself and 50", got.MaxRoutes, got.LoadBalancerWrites)
	}
}
