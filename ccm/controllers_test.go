package ccm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/cloud-provider/names"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// TestControllersThatClash shows the mistakes of an author who writes a program with own controllers.
func TestControllersThatClash(t *testing.T) {
	build := func(context.Context, Environment) (manager.Runnable, error) { return nil, nil }
	for name, test := range map[string]struct {
		controllers []Controller
		want        string
	}{
		"no New":                    {[]Controller{{Name: "crane"}}, `controller "crane" has no New`},
		"a name that is none":       {[]Controller{{Name: "Crane!", New: build}}, `controller name "Crane!": a lowercase RFC 1123 label`},
		"one name twice":            {[]Controller{{Name: "crane", New: build}, {Name: "crane", New: build}}, `the name or alias "crane" belongs to "crane" already`},
		"an alias that is a name":   {[]Controller{{Name: "crane", New: build}, {Name: "boom", Aliases: []string{"crane"}, New: build}}, `controller "boom": the name or alias "crane" belongs to "crane" already`},
		"an alias of the reference": {[]Controller{{Name: "crane", Aliases: []string{"service"}, New: build}}, `controller "crane": the name or alias "service" belongs to "service-lb-controller" in the reference`},
	} {
		t.Run(name, func(t *testing.T) {
			err := errors.Join(registry(test.controllers).validate()...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	if errs := registry([]Controller{{Name: "cloud-node-controller", Aliases: []string{"cloud-node"}, New: build}}).validate(); len(errs) > 0 {
		t.Errorf("the reference's own alias is refused: %v", errs)
	}
}

// TestFlagsThatClash shows that a flag of a controller cannot hide one of the command.
func TestFlagsThatClash(t *testing.T) {
	command := NewCommand(WithController(Controller{
		Name: "crane", New: func(context.Context, Environment) (manager.Runnable, error) { return nil, nil },
		AddFlags: func(flags *pflag.FlagSet) { flags.String("cluster-name", "", "") },
	}))
	command.SetArgs(nil)
	err := command.ExecuteContext(t.Context())
	if err == nil || err.Error() != `conflicting flags: --cluster-name is defined by "generic" and by "crane"` {
		t.Error(err)
	}
}

// TestSelected shows what --controllers asks for in a program that contains only some of the reference's controllers. The
// others are known by name: meant by the star they are told apart, named they are refused.
func TestSelected(t *testing.T) {
	contained := registry{{Name: names.CloudNodeController}, {Name: "crane"}, {Name: "boom", DisabledByDefault: true}}
	others := []string{names.CloudNodeLifecycleController, names.NodeRouteController, names.ServiceLBController}
	for name, test := range map[string]struct {
		list            []string
		enabled, absent []string
		err             string
	}{
		"all":              {list: []string{"*"}, enabled: []string{names.CloudNodeController, "crane"}, absent: others},
		"one":              {list: []string{"crane"}, enabled: []string{"crane"}},
		"all and one more": {list: []string{"*", "boom"}, enabled: []string{names.CloudNodeController, "crane", "boom"}, absent: others},
		"all but one":      {list: []string{"*", "-crane"}, enabled: []string{names.CloudNodeController}, absent: others},
		"all but one not here": {list: []string{"*", "-" + names.NodeRouteController}, enabled: []string{names.CloudNodeController, "crane"},
			absent: []string{names.CloudNodeLifecycleController, names.ServiceLBController}},
		"the first of two wins": {list: []string{"-crane", "crane"}},
		"two not here": {list: []string{"*", names.ServiceLBController, names.NodeRouteController},
			err: "--controllers names node-route-controller, service-lb-controller, which this build does not contain; " +
				"it contains boom, cloud-node-controller, crane"},
	} {
		t.Run(name, func(t *testing.T) {
			enabled, absent, err := contained.selected(test.list)
			if got := fmt.Sprint(err); err != nil && got != test.err || err == nil && test.err != "" {
				t.Errorf("error %q, want %q", got, test.err)
			}
			var names []string
			for _, controller := range enabled {
				names = append(names, controller.Name)
			}
			if diff := cmp.Diff(test.enabled, names); diff != "" {
				t.Errorf("enabled (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.absent, absent); diff != "" {
				t.Errorf("absent (-want +got):\n%s", diff)
			}
		})
	}
}
