// Package conformance says whether a provider is right: it runs any cloudprovider.Interface against rules that come from the
// documentation of that interface and of package provider, and names the rule, its source and what was seen when one is broken.
//
// A provider's own test is
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, func(ctx context.Context) (*conformance.Subject, error) { ... }, conformance.Options{})
//	}
//
// The rules are data: see Rules. The same rules run without a *testing.T by Check, as the command `mooring conformance` does it
// against a real account. What a rule makes in the cloud is bounded and removed when the rule ends, whatever came of it.
package conformance
