package machine

import (
	"fmt"
	"strings"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

const prefix = config.ProviderIDScheme + "://"

// ParseProviderID returns the ID of the machine that a provider ID stands for. An error is a provider.TerminalError: a provider ID
// that is not understood says nothing about whether a machine exists.
func ParseProviderID(providerID string) (id string, err error) {
	id, ok := strings.CutPrefix(providerID, prefix)
	if !ok || id == "" || strings.ContainsAny(id, "/?# ") {
		return "", &provider.TerminalError{
			Err: fmt.Errorf("provider ID %q names no machine: it must be %s and an ID of the inventory", providerID, prefix),
		}
	}
	return id, nil
}
