package tables_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/fake"
	"k8s.io/cloud-provider/names"
	ccmoptions "k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/reference/tables"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
)

// elsewhere are flags whose effect no bubble shows, and why. TestFlagsAreTheReferences of package ccm compares their shape.
var elsewhere = map[string]string{
	"cloud-config": "the bubble hands the plugin over", "cloud-provider": "the bubble hands the plugin over",
	"kubeconfig": "the bubble has its own way to the API server", "master": "the bubble has its own way to the API server",
	"use-service-account-credentials": "the API server in memory has no ServiceAccounts",
	"enable-leader-migration":         "the reference's part of it is private", "leader-migration-config": "the reference's part of it is private",
	"help": "prints and ends", "version": "prints and ends",
	"contention-profiling": "belongs to the process",
}

// elsewherePrefixes are the same for groups of flags.
var elsewherePrefixes = map[string]string{
	"log": "belongs to the process", "v": "belongs to the process", "webhook": "the reference as documented has no webhooks",
	"authentication-": "nothing is served in a bubble", "authorization-": "nothing is served in a bubble", "requestheader-": "nothing is served in a bubble",
	"tls-": "nothing is served in a bubble", "http2-": "nothing is served in a bubble", "permit-": "nothing is served in a bubble",
	"bind-address": "nothing is served in a bubble", "cert-dir": "nothing is served in a bubble", "client-ca-file": "nothing is served in a bubble",
	"disable-http2": "nothing is served in a bubble", "secure-port": "nothing is served in a bubble", "profiling": "nothing is served in a bubble",
}

// valuesByType are what flags of a type are given.
var valuesByType = map[string][]string{
	"bool":     {"true", "false"},
	"int32":    {"0", "1", "5"}, // fewer than none has the reference panic
	"float32":  {"-1", "0", "50"},
	"duration": {"-1s", "0s", "1s", "1m0s"},
}

// valuesOf are what single flags are given.
var valuesOf = map[string][]string{
	"cidr-allocator-type":          {"CloudAllocator", "nonsense"},
	"cluster-cidr":                 {"", "10.0.0.0/8", "10.0.0.0/8,fd00::/8", "fd00::/8", "10.0.0.0/8,11.0.0.0/8", "10.0.0.0/8,fd00::/8,fd01::/16", "nonsense"},
	"cluster-name":                 {"other", ""},
	"controllers":                  {"*", "cloud-node-controller", "service-lb-controller", "cloud-node", "*,-service-lb-controller", "nonsense", ""},
	"external-cloud-volume-plugin": {"other"},
	"feature-gates":                {"Nonsense=true"},
	"kube-api-content-type":        {"application/json", "nonsense/nonsense"},
	"controller-start-interval":    {"0s", "1s"},
	// Without a pause the reference never lets time pass. Mooring refuses that: TestPeriodsAreRefused.
	"min-resync-period":               {"0s", "1m0s"},
	"node-monitor-period":             {"1s", "1m0s"},
	"node-status-update-frequency":    {"1s", "1m0s"},
	"route-reconciliation-period":     {"1s", "1m0s"},
	"leader-elect-lease-duration":     {"-1s", "0s", "5s", "30s"},
	"leader-elect-renew-deadline":     {"-1s", "0s", "5s", "20s"},
	"leader-elect-resource-lock":      {"leases", "endpoints", "nonsense", ""},
	"leader-elect-resource-name":      {"other", ""},
	"leader-elect-resource-namespace": {"default", ""},
	"leader-elect-retry-period":       {"-1s", "0s", "1s", "20s"},
}

// standard is a cluster in which each controller has something to do.
func standard(flag, value string) *tables.Script {
	flags := []string{"--allocate-node-cidrs=true", "--cluster-cidr=10.0.0.0/16", fmt.Sprintf("--%s=%s", flag, value)}
	if strings.HasPrefix(flag, "leader-elect-") {
		flags = append(flags, "--leader-elect=true")
	}
	if flag == "" {
		flags = flags[:2]
	}
	node := func(name, network string, ready corev1.ConditionStatus, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: network, PodCIDRs: []string{network}, Taints: taints},
			Status: corev1.NodeStatus{
				Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
			},
		}
	}
	uninitialized := corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}
	off := node("off", "10.0.2.0/24", corev1.ConditionUnknown)
	off.Spec.ProviderID = "fake://off"
	return &tables.Script{
		Flags: flags, Lasts: 6 * time.Minute,
		Cloud: &fake.Cloud{
			EnableInstancesV2: true, ExistsByProviderID: true, NodeShutdown: true, ExternalIP: net.ParseIP("192.0.2.10"), RouteMap: map[string]*fake.Route{},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
			ProviderID: map[types.NodeName]string{"new": "fake://new", "off": "fake://off"}, Zone: cloudprovider.Zone{FailureDomain: "a", Region: "b"},
		},
		Nodes: []*corev1.Node{node("new", "10.0.1.0/24", corev1.ConditionTrue, uninitialized), off},
		Steps: []tables.Step{func(ctx context.Context, w *tables.World) error {
			return w.Service(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
			})
		}},
	}
}

// TestFlags gives each flag of the reference to both managers. Both accept the same values, with the same effect on a cluster and its cloud, or
// docs/reference/flags.md says why not. A flag without values is a flag that nothing compares.
func TestFlags(t *testing.T) {
	if raceDetector {
		t.Skip("the reference's service controller races with itself")
	}
	options := must.Value(ccmoptions.NewCloudControllerManagerOptions())(t)
	command := app.NewCloudControllerManagerCommand(options, nil, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, nil)
	reference := map[string]*pflag.Flag{}
	command.Flags().VisitAll(func(flag *pflag.Flag) { reference[flag.Name] = flag })
	rows := differing(t)
	usual := differences(t, "", "")
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range reference {
			if !yield(name) {
				return
			}
		}
	}) {
		if reasonElsewhere(name) != "" {
			continue
		}
		values := valuesOf[name]
		if values == nil {
			values = valuesByType[reference[name].Value.Type()]
		}
		if len(values) == 0 {
			t.Errorf("--%s: nothing compares it: give it values, or say in elsewhere why no bubble shows its effect", name)
		}
		for i, value := range values {
			if testing.Short() && i > 0 {
				continue
			}
			t.Run(name+"="+value, func(t *testing.T) {
				t.Parallel()
				for _, difference := range differences(t, name, value) {
					if !slices.Contains(usual, difference) && !rows[name] {
						t.Errorf("docs/reference/flags.md does not say how this differs: --%s=%s: %s", name, value, difference)
					}
				}
			})
		}
	}
	for name := range elsewhere {
		if reference[name] == nil {
			t.Errorf("the reference has no flag --%s", name)
		}
	}
}

// reasonElsewhere says why no bubble shows what a flag does.
func reasonElsewhere(name string) string {
	if reason := elsewhere[name]; reason != "" {
		return reason
	}
	for prefix, reason := range elsewherePrefixes {
		if name == prefix || (prefix != "v" && strings.HasPrefix(name, prefix)) || name == "vmodule" && prefix == "v" {
			return reason
		}
	}
	return ""
}

// differing are the flags of which the page says that they differ.
func differing(t *testing.T) map[string]bool {
	t.Helper()
	page := string(must.Value(os.ReadFile(filepath.Join("../../..", "docs/reference/flags.md")))(t))
	rows, name := map[string]bool{}, ""
	for line := range strings.Lines(page) {
		if item, is := strings.CutPrefix(line, "- `--"); is {
			name, _, _ = strings.Cut(item, "`")
		}
		if strings.HasPrefix(line, "  **Differs**: ") {
			rows[name] = true
		}
	}
	return rows
}

// differences gives both managers a flag, and the reference perhaps another value.
func differences(t *testing.T, flag, value string, reference ...string) []string {
	t.Helper()
	theirs := must.Value(tables.Play(t, standard(flag, append(reference, value)[0]), managers.Reference))(t)
	return tables.Compare(theirs, must.Value(tables.Play(t, standard(flag, value), managers.Mooring))(t))
}

// TestAnIgnoredFlagIsFound gives the managers different values, as if one of them ignored the flag.
func TestAnIgnoredFlagIsFound(t *testing.T) {
	if raceDetector {
		t.Skip("the reference's service controller races with itself")
	}
	for flag, values := range map[string][2]string{
		"cluster-name": {"other", "kubernetes"}, "configure-cloud-routes": {"false", "true"}, "controllers": {"service-lb-controller", "*"}, "concurrent-service-syncs": {"0", "1"},
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			usual := differences(t, "", "")
			if !slices.ContainsFunc(differences(t, flag, values[1], values[0]), func(one string) bool { return !slices.Contains(usual, one) }) {
				t.Error("nothing differs")
			}
		})
	}
}

// TestPeriodsAreRefused gives Mooring the values with which the reference never lets time pass, or panics. docs/reference/flags.md says so.
func TestPeriodsAreRefused(t *testing.T) {
	rows := differing(t)
	for flag, value := range map[string]string{
		"node-monitor-period": "0s", "node-status-update-frequency": "-1s", "route-reconciliation-period": "0s",
		"concurrent-node-status-updates": "-1", "concurrent-node-syncs": "-1", "concurrent-service-syncs": "-1",
	} {
		t.Run(flag+"="+value, func(t *testing.T) {
			t.Parallel()
			if outcome := must.Value(tables.Play(t, standard(flag, value), managers.Mooring))(t); !outcome.Ended || !rows[flag] {
				t.Errorf("ended: %t; has a row: %t", outcome.Ended, rows[flag])
			}
		})
	}
}
