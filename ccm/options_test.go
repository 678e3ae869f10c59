package ccm

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cloudprovider "k8s.io/cloud-provider"
	ccmconfig "k8s.io/cloud-provider/config"
	"k8s.io/cloud-provider/names"
	ccmoptions "k8s.io/cloud-provider/options"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

func buildNothing(context.Context, Environment) (manager.Runnable, error) { return nil, nil }

func provideNothing(context.Context, ProviderEnvironment) (cloudprovider.Interface, error) {
	return nil, nil
}

// TestMistakesInAProgram shows all mistakes of a program's author at once, as its first start does.
func TestMistakesInAProgram(t *testing.T) {
	command := NewCommand(
		RemoveController("tagging"),
		DisableController("routes"),
		ReplaceController(Controller{Name: "service", New: buildNothing}),
		ReplaceController(Controller{Name: "crane", New: buildNothing}),
		WithProvider("", provideNothing), WithProvider("external", provideNothing),
		WithProvider("nothing", nil),
		WithProvider("twice", provideNothing), WithProvider("twice", provideNothing),
		WithFlags(Flags{Section: "empty"}),
	)
	command.SetArgs(nil)
	const has = "; this program has [cloud-node-controller cloud-node-lifecycle-controller node-route-controller service-lb-controller]"
	want := "mistakes in this program:\n" +
		`  RemoveController: there is no controller "tagging"` + has + "\n" +
		`  DisableController: there is no controller "routes"` + has + "\n" +
		`  ReplaceController: "service" is an alias; the name is "service-lb-controller"` + "\n" +
		`  ReplaceController: there is no controller "crane"` + has + "\n" +
		`  WithProvider: "" is no name of a provider` + "\n" +
		`  WithProvider: "external" is no name of a provider` + "\n" +
		`  WithProvider: provider "nothing" has no function that builds it` + "\n" +
		`  WithProvider: provider "twice" is given twice` + "\n" +
		`  WithFlags: Section and Add are required (section "empty")`
	if err := command.ExecuteContext(t.Context()); err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}

// parsed returns the command of a program and its options after a command line was read.
func parsed(t *testing.T, args []string, with ...Option) (*cobra.Command, *options) {
	t.Helper()
	command := &cobra.Command{}
	o, err := newOptions(newProgram(with))
	if err == nil {
		err = addFlags(command, o)
	}
	if err == nil {
		err = command.ParseFlags(args)
	}
	if err != nil {
		t.Fatal(err)
	}
	return command, o
}

// TestEveryPartOfTheReferencesConfigurationIsApplied shows that the controllers get what the flags say, also those of parts that a later
// version of the reference adds.
func TestEveryPartOfTheReferencesConfigurationIsApplied(t *testing.T) {
	_, o := parsed(t, []string{"--node-monitor-period=7s", "--concurrent-node-lifecycle-syncs=3", "--concurrent-service-syncs=2", "--webhooks=-all"})
	var component ccmconfig.CloudControllerManagerConfiguration
	if err := o.applyTo(&component); err != nil {
		t.Fatal(err)
	}
	for field, value := range reflect.ValueOf(component).Fields() {
		if value.IsZero() && field.Name != "TypeMeta" {
			t.Errorf("%s is left empty", field.Name)
		}
	}
	lifecycle := component.NodeLifecycleController
	if lifecycle.NodeMonitorPeriod.Duration != 7*time.Second || lifecycle.ConcurrentNodeLifecycleSyncs != 3 {
		t.Errorf("the node lifecycle controller gets %+v", lifecycle)
	}
}

// TestDefaultsOfAProgram shows that a command line wins over a program's defaults, also where values of a flag add up.
func TestDefaultsOfAProgram(t *testing.T) {
	defaults := WithDefaults(map[string]string{"cloud-provider": "mycloud", "controllers": "*,-route", "cloud-api-qps": "5", "crane-tags": "a=1"})
	var tags map[string]string
	flags := WithFlags(Flags{Section: "crane", Add: func(set *pflag.FlagSet) { set.StringToStringVar(&tags, "crane-tags", nil, "Tags.") }})
	command, o := parsed(t, nil, defaults, flags)
	if err := o.program.applyDefaults(command.Flags()); err != nil {
		t.Fatal(err)
	}
	if o.KubeCloudShared.CloudProvider.Name != "mycloud" || !slices.Equal(o.Generic.Controllers, []string{"*", "-route"}) || o.cloudAPIQPS != 5 || tags["a"] != "1" {
		t.Errorf("%s %v %v %v", o.KubeCloudShared.CloudProvider.Name, o.Generic.Controllers, o.cloudAPIQPS, tags)
	}
	if usage := command.Flags().FlagUsages(); !strings.Contains(usage, `(default "mycloud")`) {
		t.Error("the help does not show the default")
	}
	command, o = parsed(t, []string{"--cloud-provider=sim", "--controllers=service", "--crane-tags=b=2"}, defaults, flags)
	if err := o.program.applyDefaults(command.Flags()); err != nil {
		t.Fatal(err)
	}
	if o.KubeCloudShared.CloudProvider.Name != "sim" || !slices.Equal(o.Generic.Controllers, []string{"service"}) || len(tags) != 1 {
		t.Errorf("%s %v %v", o.KubeCloudShared.CloudProvider.Name, o.Generic.Controllers, tags)
	}
}

// TestDefaultsThatAreNone are reported at once, when the program starts.
func TestDefaultsThatAreNone(t *testing.T) {
	command := NewCommand(WithDefaults(map[string]string{"cloud-provder": "mycloud", "cloud-api-qps": "many", "v": "2"}))
	command.SetArgs(nil)
	err := command.ExecuteContext(t.Context())
	want := "mistakes in this program:\n" +
		`  WithDefaults: --cloud-api-qps=many: strconv.ParseFloat: parsing "many": invalid syntax` + "\n" +
		"  WithDefaults: there is no flag --cloud-provder"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}

// TestFlagsOfAProgramThatClash with those of the command, or with each other, are errors, also within one section.
func TestFlagsOfAProgramThatClash(t *testing.T) {
	add := func(names ...string) func(*pflag.FlagSet) {
		return func(flags *pflag.FlagSet) {
			for _, name := range names {
				flags.String(name, "", "")
			}
		}
	}
	command := NewCommand(WithFlags(Flags{Section: "crane", Add: add("cluster-name", "boom")}), WithFlags(Flags{Section: "crane", Add: add("boom")}))
	command.SetArgs(nil)
	want := "conflicting flags:\n  --boom is defined twice by \"crane\"\n  --cluster-name is defined by \"generic\" and by \"crane\""
	if err := command.ExecuteContext(t.Context()); err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}

// TestBuiltinControllersAreChanged replaces, removes and disables them, by name and by alias.
func TestBuiltinControllersAreChanged(t *testing.T) {
	p := newProgram([]Option{
		RemoveController("route", names.CloudNodeLifecycleController),
		DisableController("cloud-node"),
		ReplaceController(Controller{Name: names.ServiceLBController, ClientName: "mine", New: buildNothing}),
		WithController(Controller{Name: "crane", New: buildNothing}),
	})
	if err := p.validate(); err != nil {
		t.Fatal(err)
	}
	enabled, absent, err := p.controllers.selected([]string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, controller := range enabled {
		got = append(got, controller.clientName())
	}
	if diff := cmp.Diff([]string{"mine", "crane"}, got); diff != "" {
		t.Errorf("identities of the enabled (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{names.CloudNodeLifecycleController, names.NodeRouteController}, absent); diff != "" {
		t.Errorf("absent (-want +got):\n%s", diff)
	}
	if enabled, _, err = p.controllers.selected([]string{names.CloudNodeController}); err != nil || len(enabled) != 1 {
		t.Errorf("a disabled controller is not to be named: %v, %v", enabled, err)
	}
	if len(newProgram(nil).controllers) != 4 {
		t.Error("another program was changed")
	}
}

// TestFullRefreshPeriod reads how often nodes are looked up where each is a call. Who sets the reference's flag gets what it says.
func TestFullRefreshPeriod(t *testing.T) {
	for frequency, periods := range map[time.Duration]map[time.Duration]time.Duration{
		5 * time.Minute:  {0: 6 * time.Hour, time.Hour: time.Hour, time.Minute: time.Minute},
		10 * time.Second: {0: 10 * time.Second, time.Hour: time.Hour},
		time.Hour:        {0: time.Hour, 6 * time.Hour: 6 * time.Hour},
	} {
		for given, want := range periods {
			o := &options{CloudControllerManagerOptions: &ccmoptions.CloudControllerManagerOptions{}, settings: settings{nodeFullRefreshPeriod: given}}
			o.NodeStatusUpdateFrequency.Duration = frequency
			if got := o.fullRefreshPeriod(); got != want {
				t.Errorf("frequency %s, period %s: %s, want %s", frequency, given, got, want)
			}
		}
	}
}
