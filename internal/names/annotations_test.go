package names_test

import (
	"slices"
	"testing"

	"github.com/mooring-ccm/mooring/internal/names"
)

func TestAnnotationFaults(t *testing.T) {
	for key, test := range map[string]struct {
		kind, value string
		want        []string
	}{
		"metal.mooring.dev/address-pool": {"Service", "a", nil},
		"metal.mooring.dev/adress-pool": {"Service", "a", []string{
			"the annotation metal.mooring.dev/adress-pool has no meaning on a Service; did you mean metal.mooring.dev/address-pool?",
		}},
		"mooring.dev/adress-pol": {"Service", "a", []string{
			"the annotation mooring.dev/adress-pol has no meaning on a Service; known are metal.mooring.dev/address-pool, " +
				"metal.mooring.dev/allow-shared-ip, metal.mooring.dev/load-balancer-ips",
		}},
		"mooring.dev/confirm-deletion": {"Service", "a", []string{"the annotation mooring.dev/confirm-deletion has no meaning on a Service: it belongs on a Node"}},
		"mooring.dev/ignore":           {"Node", "yes", []string{`the annotation mooring.dev/ignore is "yes" and has no effect: set it to true or false, or remove it`}},
		"metal.mooring.dev/drain":      {"Node", "true", nil},
		"mooring.dev/ignroe":           {"Node", "true", []string{"the annotation mooring.dev/ignroe has no meaning on a Node; did you mean mooring.dev/ignore?"}},
		"example.com/anything":         {"Node", "true", nil},
		"notmooring.dev/anything":      {"Node", "true", nil},
	} {
		if got := names.AnnotationFaults(test.kind, map[string]string{key: test.value}); !slices.Equal(got, test.want) {
			t.Errorf("%s on a %s: %q, want %q", key, test.kind, got, test.want)
		}
	}
}
