package machine

import (
	"errors"
	"testing"

	"github.com/mooring-ccm/mooring/provider"
)

// FuzzProviderID asserts that a provider ID that is understood is the one of its machine, and that another says nothing.
func FuzzProviderID(f *testing.F) {
	for _, id := range []string{"metal://n1", "metal://", "metal://a/b", "sim://i-1", "", "metal://a b", "METAL://n1", "metal://n1#", "metal://\n"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, providerID string) {
		id, err := ParseProviderID(providerID)
		var terminal *provider.TerminalError
		switch {
		case err == nil && (id == "" || prefix+id != providerID):
			t.Errorf("%q is %q", providerID, id)
		case err != nil && (id != "" || !errors.As(err, &terminal) || errors.Is(err, provider.ErrInstanceNotFound)):
			t.Errorf("%q: %q, %v", providerID, id, err)
		}
	})
}
