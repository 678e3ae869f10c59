package convert

import (
	"encoding/binary"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

var update = flag.Bool("update", false, "write the expected configs and notes of testdata")

// Each file of testdata is converted to the config and the notes beside it.
func TestMetalLB(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(inputs) < 6 {
		t.Fatalf("%d inputs: %v", len(inputs), err)
	}
	for _, input := range inputs {
		if strings.HasSuffix(input, ".config.yaml") {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(input), ".yaml")
		t.Run(name, func(t *testing.T) {
			from, err := os.Open(input)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = from.Close() }()
			result, err := MetalLB(from)
			if err != nil {
				t.Fatal(err)
			}
			text, err := result.YAML()
			if err != nil {
				t.Fatal(err)
			}
			var notes strings.Builder
			for _, note := range result.Notes {
				notes.WriteString(note.String() + "\n")
			}
			golden(t, "testdata/"+name+".config.yaml", string(text))
			golden(t, "testdata/"+name+".notes.txt", notes.String())
			if strings.Contains(string(text)+notes.String(), "swordfish") {
				t.Error("a password is shown")
			}
			for _, wrong := range config.Examine(text, "/").Errors {
				if !strings.Contains(notes.String(), wrong.Field+": "+wrong.ErrorBody()) {
					t.Errorf("the config is invalid, and no note says it: %v", wrong)
				}
			}
		})
	}
}

// TestTimers names why a timer has no counterpart. MetalLB accepts a hold time of 0, which turns keepalives off.
func TestTimers(t *testing.T) {
	for timers, want := range map[string][]string{
		"holdTime: 9s, keepaliveTime: 3s": nil,
		"keepaliveTime: 3s":               nil,
		"holdTime: 2s":                    {"spec.holdTime: 2s is less than 3s; the default is used"},
		"holdTime: 0s, keepaliveTime: 1s": {
			"spec.holdTime: 0s is less than 3s; the default is used", "spec.keepaliveTime: 1s is dropped with the hold time; the default is used",
		},
		"holdTime: 9s, keepaliveTime: 9s": {
			"spec.keepaliveTime: 9s is not less than the hold time; the default, a third of the hold time, is used",
		},
	} {
		t.Run(timers, func(t *testing.T) {
			result, err := MetalLB(strings.NewReader("apiVersion: metallb.io/v1beta2\nkind: BGPPeer\nmetadata: {name: p}\n" +
				"spec: {myASN: 64512, peerASN: 64513, peerAddress: 10.0.0.1, " + timers + "}\n---\n" +
				"apiVersion: metallb.io/v1beta1\nkind: BGPAdvertisement\nmetadata: {name: all}\n"))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, note := range result.Notes {
				if _, about, found := strings.Cut(note.String(), "LOST BGPPeer p: "); found {
					got = append(got, about)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test -update writes it):\n%s", file, diff)
	}
}

// Notes name values of the chart, which have to be there.
func TestValuesOfTheChart(t *testing.T) {
	text, err := os.ReadFile("../../../../deploy/charts/mooring/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{secretsValue, layer2Value} {
		if _, found, err := unstructured.NestedFieldNoCopy(values, strings.Split(path, ".")...); !found || err != nil {
			t.Errorf("the chart has no value %s (%v)", path, err)
		}
	}
}

const (
	poolA = "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: a}\nspec: {addresses: [192.0.2.0/24]}\n"
	poolB = "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: b}\nspec: {addresses: [198.51.100.0/24]}\n"
)

// inUTF16 is a text as PowerShell writes it.
func inUTF16(text string, order binary.AppendByteOrder) string {
	var data []byte
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		data = order.AppendUint16(data, unit)
	}
	return string(data)
}

// However its documents are written and divided, a stream is read to its end.
func TestStreams(t *testing.T) {
	for name, streams := range map[string][]string{
		"plain":                        {poolA + "---\n" + poolB},
		"UTF-16, little-endian":        {inUTF16(poolA+"---\n"+poolB, binary.LittleEndian)},
		"UTF-16, big-endian":           {inUTF16(poolA+"---\n"+poolB, binary.BigEndian)},
		"UTF-8 with a byte order mark": {"\ufeff" + poolA + "---\n" + poolB},
		"lines as on Windows":          {strings.ReplaceAll(poolA+"---\n"+poolB, "\n", "\r\n")},
		"documents that end":           {poolA + "...\n" + poolB + "..."},
		"comments at markers":          {"--- # the first\n" + poolA + "--- # the second\n" + poolB + "... # the end\n"},
		"JSON at markers": {`--- {"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": {"name": "a"}, "spec": {"addresses": ["192.0.2.0/24"]}}` +
			"\n---\t" + `{"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": {"name": "b"}, "spec": {"addresses": ["198.51.100.0/24"]}}`},
		"two files, each in its own way": {strings.TrimSuffix(poolA, "\n"), inUTF16(poolB, binary.LittleEndian)},
	} {
		t.Run(name, func(t *testing.T) {
			var readers []io.Reader
			for _, stream := range streams {
				readers = append(readers, strings.NewReader(stream))
			}
			result, err := MetalLB(readers...)
			if err != nil || len(result.Notes) > 0 {
				t.Fatalf("%v, %v", err, result.Notes)
			}
			var pools []string
			for _, pool := range result.Config.Pools {
				pools = append(pools, pool.Name)
			}
			if got := strings.Join(pools, " "); got != "a b" {
				t.Errorf("pools %q", got)
			}
		})
	}
}

func TestDocuments(t *testing.T) {
	want := []string{"a\n---x\n...y\n", "b\n"}
	if got := documents("---\n\n...\na\n---x\n...y\n--- b\n..."); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What else there is is named by what it is of.
func TestOtherFormatsAreNamed(t *testing.T) {
	for name, test := range map[string]struct{ input, want string }{
		"an old ConfigMap": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config, namespace: metallb-system}\ndata:\n  config: |\n    address-pools:\n    - {name: default}\n",
			"LOST ConfigMap metallb-system/config: is of MetalLB before 0.13"},
		"kube-vip": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kubevip, namespace: kube-system}\ndata: {range-global: 192.0.2.1-192.0.2.9}\n",
			"LOST ConfigMap kube-system/kubevip: is of kube-vip's cloud provider"},
		"Cilium":            {"apiVersion: cilium.io/v2alpha1\nkind: CiliumLoadBalancerIPPool\nmetadata: {name: a}\n", "LOST CiliumLoadBalancerIPPool a: is of Cilium"},
		"another ConfigMap": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {config: x}\n", "LOST ConfigMap a: v1 ConfigMap is not read"},
		"an old pool":       {"apiVersion: metallb.io/v1beta1\nkind: AddressPool\nmetadata: {name: a}\n", "LOST AddressPool a: apiVersion: metallb.io/v1beta1 is not read"},
	} {
		if _, err := MetalLB(strings.NewReader(test.input)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct{ input, want string }{
		"nothing":               {"", "there is no IPAddressPool"},
		"others":                {"apiVersion: v1\nkind: Secret\n", "among 1 other objects"},
		"not YAML":              {"a: b: c\n", "document 1: "},
		"no object":             {"- 1\n", "document 1: not an object of Kubernetes"},
		"wrong type":            {"apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: a}\nspec: {addresses: 3}\n", "document 1: IPAddressPool a: "},
		"UTF-16 cut":            {inUTF16(poolA, binary.LittleEndian) + "x", "after document 0: a file in UTF-16 has an odd number of bytes"},
		"UTF-16 without a mark": {inUTF16(poolA, binary.LittleEndian)[2:], "document 1: "},
		"all at once":           {"a: b: c\n---\n- 1\n", "document 2: not an object"},
	} {
		if _, err := MetalLB(strings.NewReader(c.input)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
