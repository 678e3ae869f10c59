package ccm

import (
	"context"
	"fmt"

	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/provider/profiles"
)

// adopt fills in how many calls of the plugin are made at the same time where neither the operator nor the plugin says it: what its profile
// says, if it has one. It logs what holds, and what raises it.
func (c *config) adopt(ctx context.Context, plugin cloudprovider.Interface) {
	declared := provider.CapabilitiesOf(plugin)
	profile, unknown := profiles.Of(plugin)
	if c.concurrency.ServiceSyncs == 0 && declared.LoadBalancerWrites == 0 {
		c.concurrency.ServiceSyncs = profile.LoadBalancerWrites
	}
	c.ensuresChanged = profile.EnsureChanged
	const toRaise = "set --cloud-api-max-in-flight if reads of this plugin are safe at the same time"
	var reason string
	switch {
	case c.cloudAPIMaxInFlight > 0:
		reason = fmt.Sprintf("%d, as --cloud-api-max-in-flight says", c.cloudAPIMaxInFlight)
	case declared.Limits.InFlight > 0:
		reason = fmt.Sprintf("%d, as the provider declares", declared.Limits.InFlight)
	case profile.InFlight > 0:
		c.cloudAPIMaxInFlight = profile.InFlight
		reason = fmt.Sprintf("%d, by the profile of %s (%s)", profile.InFlight, profile.Name, profile.Source)
	case unknown == nil:
		reason = fmt.Sprintf("as the reference, by the profile of %s (%s); %s", profile.Name, profile.Source, toRaise)
	default:
		reason = fmt.Sprintf("as the reference: %v; %s", unknown, toRaise)
	}
	log.FromContext(ctx).Info("Limiting the concurrent calls of the cloud provider", "reason", reason)
}
