package metallb

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// made is a resource of a kind that was made in a minute, with a spec in YAML.
func made(t *testing.T, kind, name string, minute int, spec string) resource {
	t.Helper()
	version := "v1beta1"
	if kind == "BGPPeer" {
		version = "v1beta2"
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "metallb.io/" + version, "kind": kind}}
	object.SetNamespace("metallb-system")
	object.SetName(name)
	object.SetCreationTimestamp(metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)))
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	object.Object["spec"] = fields
	one, err := resourceOf(object)
	if err != nil {
		t.Fatal(err)
	}
	return one
}

func poolOf(t *testing.T, name string, minute int, addresses string) resource {
	t.Helper()
	return made(t, "IPAddressPool", name, minute, fmt.Sprintf("addresses: [%q]", addresses))
}

func peerOf(t *testing.T, name string, minute, asn int, further string) resource {
	t.Helper()
	return made(t, "BGPPeer", name, minute, fmt.Sprintf("{myASN: %d, peerASN: 64500, peerAddress: 192.0.2.%d%s}", asn, minute+1, further))
}

// inForce lists the pools and routers of a choice.
func inForce(c choice) string {
	var all []string
	for _, pool := range c.config.Pools {
		all = append(all, pool.Name+"="+strings.Join(pool.Addresses, ","))
	}
	if c.config.BGP != nil {
		for _, peer := range c.config.BGP.Peers {
			all = append(all, peer.Name+"="+peer.Address)
		}
	}
	return strings.Join(all, " ")
}

func refusals(c choice) string { return strings.Join(slices.Sorted(maps.Keys(c.refused)), " ") }

// What is wrong costs nothing that is in force, whatever its name, and what is wrong at the start costs nothing that is older.
func TestWrongResourcesCostNothing(t *testing.T) {
	advert := made(t, "BGPAdvertisement", "all", 0, "{}")
	for name, test := range map[string]struct {
		before, now   []resource
		want, refused string
	}{
		"at the start the oldest counts": {
			now:  []resource{poolOf(t, "a", 2, "198.18.0.8/29"), poolOf(t, "b", 1, "198.18.0.0/28"), poolOf(t, "c", 3, "198.18.1.0/28")},
			want: "b=198.18.0.0/28 c=198.18.1.0/28", refused: "IPAddressPool metallb-system/a",
		},
		"one that is in force counts, however old another is": {
			before: []resource{poolOf(t, "b", 2, "198.18.0.0/28")},
			now:    []resource{poolOf(t, "a", 1, "198.18.0.8/29"), poolOf(t, "b", 2, "198.18.0.0/28")},
			want:   "b=198.18.0.0/28", refused: "IPAddressPool metallb-system/a",
		},
		"the version before stays": {
			before: []resource{poolOf(t, "a", 1, "198.18.0.0/28"), poolOf(t, "b", 1, "198.18.1.0/28")},
			now:    []resource{poolOf(t, "a", 1, "nonsense"), poolOf(t, "b", 1, "198.18.2.0/28")},
			want:   "a=198.18.0.0/28 b=198.18.2.0/28", refused: "IPAddressPool metallb-system/a",
		},
		"two that exchange their addresses": {
			before: []resource{poolOf(t, "a", 1, "198.18.0.0/28"), poolOf(t, "b", 1, "198.18.1.0/28")},
			now:    []resource{poolOf(t, "a", 1, "198.18.1.0/28"), poolOf(t, "b", 1, "198.18.0.0/28")},
			want:   "a=198.18.1.0/28 b=198.18.0.0/28",
		},
		"a router that cannot be served as it is now": {
			before: []resource{advert, poolOf(t, "p", 1, "198.18.0.0/28"), peerOf(t, "r", 1, 64512, "")},
			now:    []resource{advert, poolOf(t, "p", 1, "198.18.0.0/28"), peerOf(t, "r", 1, 64512, ", vrf: red")},
			want:   "p=198.18.0.0/28 r=192.0.2.2", refused: "BGPPeer metallb-system/r",
		},
		"a router whose speaker would be another one": {
			before: []resource{advert, poolOf(t, "p", 1, "198.18.0.0/28"), peerOf(t, "r", 1, 64512, "")},
			now:    []resource{advert, poolOf(t, "p", 1, "198.18.0.0/28"), peerOf(t, "r", 1, 64512, ""), peerOf(t, "a", 0, 64999, "")},
			want:   "p=198.18.0.0/28 r=192.0.2.2", refused: "BGPPeer metallb-system/a",
		},
		"what is gone is gone": {
			before: []resource{poolOf(t, "a", 1, "198.18.0.0/28"), poolOf(t, "b", 1, "198.18.1.0/28")},
			now:    []resource{poolOf(t, "b", 1, "198.18.1.0/28")},
			want:   "b=198.18.1.0/28",
		},
	} {
		t.Run(name, func(t *testing.T) {
			base, err := readBase(nil, ".")
			if err != nil {
				t.Fatal(err)
			}
			before := choice{}
			if test.before != nil {
				if before = choose(base, before, test.before); len(before.refused) > 0 {
					t.Fatalf("before: %v", before.refused)
				}
			}
			got := choose(base, before, test.now)
			if inForce(got) != test.want || refusals(got) != test.refused {
				t.Errorf("in force are %s, refused %v; want %s and %s", inForce(got), got.refused, test.want, test.refused)
			}
			again := choose(base, got, test.now)
			if inForce(again) != test.want || refusals(again) != test.refused {
				t.Errorf("the same again: in force are %s, refused %v", inForce(again), again.refused)
			}
		})
	}
}

// The cloud config beside the resources has the sections that they have no word for, and none of theirs.
func TestCloudConfigBesideTheResources(t *testing.T) {
	const head = "apiVersion: metal.mooring.dev/v1alpha1\nkind: MetalCloudConfig\n"
	base, err := readBase([]byte(head+"announcement: {podRoutes: true, clusterNextHops: 3}\nbgp: {mode: GracefulRestart}\n"), ".")
	if err != nil {
		t.Fatal(err)
	}
	got := choose(base, choice{}, []resource{
		made(t, "BGPAdvertisement", "all", 0, "{}"), poolOf(t, "p", 1, "198.18.0.0/28"), peerOf(t, "r", 1, 64512, ""),
	})
	if made := got.config; len(got.refused) > 0 || made.BGP.Mode != "GracefulRestart" || made.BGP.ASN != 64512 || !*made.Announcement.PodRoutes ||
		made.Announcement.ClusterNextHops != 3 {
		t.Errorf("%v %s", got.refused, got.content)
	}
	if got := choose(base, choice{}, []resource{poolOf(t, "p", 1, "198.18.0.0/28")}); len(got.refused) > 0 || got.config.BGP != nil {
		t.Errorf("without routers: %v %s", got.refused, got.content)
	}
	for text, want := range map[string]string{
		"pools: []\n":                      "pools: comes from MetalLB's resources",
		"bgp: {asn: 64512}\n":              "bgp.asn: comes from",
		"l2: {pools: [a]}\n":               "l2.pools: comes from",
		"announcement: {clusterNext: 3}\n": "unknown field",
		"- 1":                              "reading the cloud config",
	} {
		if _, err := readBase([]byte(head+text), "."); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
