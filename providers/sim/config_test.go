package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// tempFile writes a file and returns its path.
func tempFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfig(t *testing.T) {
	token := tempFile(t, "secret\n")
	config, err := ReadConfig(strings.NewReader(fmt.Sprintf(`
# what a cluster's administrator writes
apiVersion: sim.mooring.dev/v1alpha1
kind: CloudConfig
endpoint: https://cloud.example:8443/base
tokenFile: %s
clusterName: blue
region: sim-1
maxRoutes: 100
routeWrites: 4
requestTimeout: 3s
watch: true
routeBatch: 50
changeTargets: true
`, token)))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		APIVersion: ConfigAPIVersion, Kind: ConfigKind, Endpoint: "https://cloud.example:8443/base", TokenFile: token,
		ClusterName: "blue", Region: "sim-1", MaxRoutes: 100, RouteWrites: 4, RequestTimeout: metav1.Duration{Duration: 3 * time.Second},
		Watch: true, RouteBatch: 50, ChangeTargets: true,
	}
	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestConfigErrorsAllAtOnce(t *testing.T) {
	empty := tempFile(t, "\n")
	missing := filepath.Join(t.TempDir(), "missing")
	const known = "apiVersion, caFile, changeTargets, clusterName, endpoint, kind, maxRoutes, nodeGroups, region, requestTimeout, routeBatch, routeWrites, " +
		"tokenFile, watch"
	cases := map[string]struct {
		config string
		want   []string
	}{
		"empty": {"", []string{"(document): Invalid value: the document is empty"}},
		"nothing": {"{}", []string{
			`apiVersion: Unsupported value: "": supported values: "sim.mooring.dev/v1alpha1"`,
			`kind: Unsupported value: "": supported values: "CloudConfig"`,
			`endpoint: Required value: must be a URL such as https://cloud.example:8443`,
			`tokenFile: Required value: the file with the bearer token`,
			`region: Required value: where load balancers are created`,
		}},
		"everything wrong": {
			fmt.Sprintf("apiVersion: v1\nkind: Config\nendpoint: ftp://x\nendpoint: http://x\ntokenFile: %s\ncaFile: %s\nclusterName: A_B\nregion: [a]\n"+
				"requestTimeout: 10\ntimeout: 5s\n", missing, empty),
			[]string{
				`endpoint: Duplicate value: "http://x"`,
				`region: Invalid value: must be a string, not a list`,
				`requestTimeout: Invalid value: "10": must be a string, not an integer`,
				`timeout: Invalid value: "5s": unknown field; known here: ` + known,
				`apiVersion: Unsupported value: "v1": supported values: "sim.mooring.dev/v1alpha1"`,
				`kind: Unsupported value: "Config": supported values: "CloudConfig"`,
				fmt.Sprintf(`tokenFile: Invalid value: %q: token file: open %s: no such file or directory`, missing, missing),
				fmt.Sprintf(`caFile: Invalid value: %q: %s holds no PEM certificate`, empty, empty),
				`clusterName: Invalid value: "A_B": a lowercase RFC 1123 subdomain`,
			},
		},
		"values": {
			fmt.Sprintf("apiVersion: %s\nkind: %s\nendpoint: https://user:secret@x\ntokenFile: %s\nregion: r\nrequestTimeout: 1h\nrouteBatch: 101\n",
				ConfigAPIVersion, ConfigKind, empty),
			[]string{
				`endpoint: Invalid value: "https://user:xxxxx@x": must not contain credentials: use tokenFile`,
				fmt.Sprintf(`tokenFile: Invalid value: %q: token file %s: is empty`, empty, empty),
				`requestTimeout: Invalid value: "1h0m0s": must be between 0s and 5m0s`,
				`routeBatch: Invalid value: 101: must be 0 to 100`,
			},
		},
		"node groups": {
			fmt.Sprintf("apiVersion: %s\nkind: %s\nendpoint: https://x\ntokenFile: %s\nregion: r\n", ConfigAPIVersion, ConfigKind, tempFile(t, "secret")) + `
nodeGroups:
- {name: a, maxSize: 300, zone: z, machineType: m, network: 10.0.0.0/24}
- {name: a, minSize: 3, maxSize: 2, zone: z, machineType: m, network: 10.0.0.0/16, options: {scaleDownUtilizationThreshold: 2}}
- {name: A_B, labels: {"a b": c}, taints: [{key: k, effect: Never}], network: 10.1.0.1/24}
`,
			[]string{
				`clusterName: Required value: it marks the instances of nodeGroups`,
				`nodeGroups[0].network: Invalid value: "10.0.0.0/24": has fewer addresses than maxSize, which is 300`,
				`nodeGroups[1].name: Duplicate value: "a"`,
				`nodeGroups[1].minSize: Invalid value: 3: must be 0 to maxSize`,
				`nodeGroups[1].network: Invalid value: "10.0.0.0/16": overlaps 10.0.0.0/24 of nodeGroups[0]`,
				`nodeGroups[1].options.scaleDownUtilizationThreshold: Invalid value: 2: must be 0 to 1`,
				`nodeGroups[2].name: Invalid value: "A_B": a lowercase RFC 1123 label`,
				`nodeGroups[2].maxSize: Invalid value: 0: must be 1 to 10000`,
				`nodeGroups[2].zone: Required value: where the instances are`,
				`nodeGroups[2].machineType: Required value: what the instances are`,
				`nodeGroups[2].network: Invalid value: "10.1.0.1/24": must be a CIDR such as 10.20.0.0/16`,
				`nodeGroups[2].labels: Invalid value: "a b"`,
				`nodeGroups[2].taints[0].effect: Unsupported value: "Never"`,
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ReadConfig(strings.NewReader(c.config))
			if err == nil {
				t.Fatal("the config was accepted")
			}
			message := err.Error()
			for _, want := range c.want {
				if !strings.Contains(message, want) {
					t.Errorf("the error does not say %s\n%s", want, message)
				}
			}
			if got := strings.Count(message, " value: "); got != len(c.want) {
				t.Errorf("%d errors, want %d:\n%s", got, len(c.want), message)
			}
		})
	}
}

func TestConfigIsRequired(t *testing.T) {
	_, err := cloudprovider.GetCloudProvider(ProviderName, nil)
	if err == nil || !strings.Contains(err.Error(), "--cloud-config") {
		t.Errorf("error is %v, want one that names the flag", err)
	}
}
