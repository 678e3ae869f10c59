package sim

import (
	"fmt"
	"strings"

	"github.com/mooring-ccm/mooring/provider"
)

const scheme = ProviderName + "://"

// ProviderID returns the provider ID of an instance, "sim://" and its ID. Nothing that can change is in it: an instance
// that moves to another zone keeps it.
func ProviderID(instanceID string) string { return scheme + instanceID }

// ParseProviderID returns the ID of the instance that a provider ID stands for. An error is a provider.TerminalError: a
// provider ID that is not understood says nothing about whether an instance exists.
func ParseProviderID(providerID string) (instanceID string, err error) {
	id, ok := strings.CutPrefix(providerID, scheme)
	if !ok || id == "" || strings.ContainsAny(id, "/?# ") {
		return "", &provider.TerminalError{
			Err: fmt.Errorf("provider ID %q is not of provider %s: it must look like %si-00000001", providerID, ProviderName, scheme),
		}
	}
	return id, nil
}
