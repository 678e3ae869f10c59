package doctest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/provider"
)

// TestCapabilitiesAreExplained finds a row for each field that a provider may declare.
func TestCapabilitiesAreExplained(t *testing.T) {
	page := text(t, "docs/reference/capabilities.md")
	for _, field := range reflect.VisibleFields(reflect.TypeFor[provider.Capabilities]()) {
		name := field.Name
		if !strings.Contains(page, "\n| `"+name+"` |") && !strings.Contains(page, "\n| `"+name+".") {
			t.Errorf("docs/reference/capabilities.md does not explain %s", name)
		}
	}
}
