package extensions_test

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/dev/docgen/flagdoc"
	"github.com/mooring-ccm/mooring/extensions"
)

// TestExtensionsAreAddedAndExplained compares the program with all extensions with the one without any.
func TestExtensionsAreAddedAndExplained(t *testing.T) {
	without, added := ccm.NewCommand().Flags(), 0
	with := ccm.NewCommand(extensions.All()...).Flags()
	with.VisitAll(func(flag *pflag.Flag) {
		if without.Lookup(flag.Name) != nil {
			return
		}
		added++
		if _, explained := flagdoc.OfExtensions()[flag.Name]; !explained {
			t.Errorf("nothing says why there is --%s, which the reference does not have", flag.Name)
		}
	})
	if added != 12 {
		t.Errorf("%d flags are added, want 12", added)
	}
}

// TestExtensionsAreOff by default, as whatever the reference does not have.
func TestExtensionsAreOff(t *testing.T) {
	const disabled = "Disabled-by-default controllers: cluster-autoscaler-provider, kubelet-serving-certificate"
	usage := ccm.NewCommand(extensions.All()...).Flags().Lookup("controllers").Usage
	if len(usage) < len(disabled) || usage[len(usage)-len(disabled):] != disabled {
		t.Errorf("--controllers says %q, want %q at the end", usage, disabled)
	}
}
