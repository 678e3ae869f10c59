package pods

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

// nodes makes n1, n2 and so on, the first of which came first, with 10.0.0.1 and fd00::1 and so on.
func nodes(ranges ...[]netip.Prefix) map[string]model.Node {
	result := map[string]model.Node{}
	for i, cidrs := range ranges {
		node := model.Node{Name: fmt.Sprintf("n%d", i+1), Created: time.Unix(int64(i), 0), PodCIDRs: cidrs, Addresses: []netip.Addr{
			netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), netip.MustParseAddr(fmt.Sprintf("fd00::%x", i+1))}}
		result[node.Name] = node
	}
	return result
}

func pool(cidr netip.Prefix) string {
	if cidr.Overlaps(prefix("192.0.2.0/24")) {
		return "public"
	}
	return ""
}

func TestRangesThatAreNotBelieved(t *testing.T) {
	within := []netip.Prefix{prefix("10.244.0.0/16"), prefix("fd01::/48")}
	for name, test := range map[string]struct {
		claimed string
		within  []netip.Prefix
		reason  model.PodReason
		owner   string
	}{
		"within":                                {"10.244.2.0/24", within, "", ""},
		"within, IPv6":                          {"fd01:0:0:2::/64", within, "", ""},
		"all of it":                             {"10.244.0.0/16", within, model.PodsOfOtherNode, "n1"},
		"a part of another node's":              {"10.244.1.0/25", within, model.PodsOfOtherNode, "n1"},
		"an address of another node's":          {"10.244.1.7/32", within, model.PodsOfNoNode, ""},
		"an address, IPv6":                      {"fd01::7/128", within, model.PodsOfNoNode, ""},
		"more than that":                        {"10.0.0.0/8", within, model.PodsOutside, ""},
		"everything":                            {"0.0.0.0/0", within, model.PodsOutside, ""},
		"everything, IPv6":                      {"::/0", within, model.PodsOutside, ""},
		"outside":                               {"198.51.100.0/24", within, model.PodsOutside, ""},
		"somewhere, where nothing says what is": {"198.51.100.0/24", nil, model.PodsOutside, ""},
		"a Service, where nothing says it":      {"10.96.0.0/12", nil, model.PodsOutside, ""},
		"the address of another node":           {"10.0.0.1/32", nil, model.PodsOutside, ""},
		"an eighth of the ranges of pods":       {"10.0.0.0/11", []netip.Prefix{prefix("10.0.0.0/8")}, model.PodsOfNoNode, ""},
		"a pool within the ranges of pods":      {"192.0.2.0/25", []netip.Prefix{prefix("192.0.0.0/16")}, model.PodsOverPool, "public"},
		"a node's address in ranges of pods":    {"10.0.0.0/24", []netip.Prefix{prefix("10.0.0.0/8")}, "", ""},
		"the same range as another node":        {"10.244.1.0/24", within, model.PodsOfOtherNode, "n1"},
		"bits beyond the prefix are left away":  {"10.244.2.9/24", within, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			claimed := prefix(test.claimed)
			out := Desired(Input{
				Nodes:  nodes([]netip.Prefix{prefix("10.244.1.0/24")}, []netip.Prefix{claimed}),
				Within: test.within, PoolOverlap: pool,
			})["n2"]
			if test.reason == "" {
				if !slices.Equal(out.Announced, []netip.Prefix{claimed.Masked()}) || len(out.Problems) > 0 {
					t.Errorf("%+v", out)
				}
				return
			}
			want := model.PodProblem{CIDR: claimed.Masked(), Reason: test.reason, Owner: test.owner}
			if len(out.Announced) > 0 || !slices.Equal(out.Problems, []model.PodProblem{want}) {
				t.Errorf("%+v, want %+v", out, want)
			}
			if got := want.Message(); got == "" || got == string(want.Reason) {
				t.Errorf("the message is %q", got)
			}
		})
	}
}

// A claim of the whole range of pods, by the oldest node, costs no other its own.
func TestABroadClaimTakesNothing(t *testing.T) {
	out := Desired(Input{
		Nodes:  nodes([]netip.Prefix{prefix("10.244.0.0/16")}, []netip.Prefix{prefix("10.244.1.0/24")}, []netip.Prefix{prefix("10.244.2.0/24")}),
		Within: []netip.Prefix{prefix("10.244.0.0/16")},
	})
	if len(out["n1"].Announced) > 0 || len(out["n2"].Announced) != 1 || len(out["n3"].Announced) != 1 {
		t.Errorf("%+v", out)
	}
}

// TestNoNodeTakesFromAnother has nodes claim any ranges: what is announced is announced once, within the ranges of pods, and never
// over a part of another's or of a pool.
func TestNoNodeTakesFromAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claims := rapid.SampledFrom([]string{"10.244.0.0/24", "10.244.1.0/24", "10.244.0.0/16", "10.0.0.0/30", "10.0.0.2/32", "0.0.0.0/0",
			"192.0.2.0/28", "fd01::/64", "fd00::/120", "198.51.100.0/24"})
		var ranges [][]netip.Prefix
		for range rapid.IntRange(1, 6).Draw(t, "nodes") {
			var of []netip.Prefix
			for _, text := range rapid.SliceOfN(claims, 0, 3).Draw(t, "claims") {
				of = append(of, prefix(text))
			}
			ranges = append(ranges, of)
		}
		in := Input{Nodes: nodes(ranges...), PoolOverlap: pool}
		if rapid.Bool().Draw(t, "known") {
			in.Within = []netip.Prefix{prefix("10.244.0.0/16"), prefix("fd01::/48")}
		}
		owners := map[netip.Prefix]string{}
		for name, of := range Desired(in) {
			for _, cidr := range of.Announced {
				if owners[cidr] != "" {
					t.Fatalf("%s is announced for %s and %s", cidr, owners[cidr], name)
				}
				owners[cidr] = name
				if pool(cidr) != "" || len(in.Within) == 0 || !in.Within[0].Contains(cidr.Addr()) && !in.Within[1].Contains(cidr.Addr()) {
					t.Fatalf("%s is announced for %s", cidr, name)
				}
				for other, owner := range owners {
					if other != cidr && other.Overlaps(cidr) {
						t.Fatalf("%s of %s and %s of %s overlap", other, owner, cidr, name)
					}
				}
				for other, node := range in.Nodes {
					if slices.ContainsFunc(node.Addresses, cidr.Contains) {
						t.Fatalf("%s is announced for %s, and holds an address of %s", cidr, name, other)
					}
				}
			}
			for _, cidr := range in.Nodes[name].PodCIDRs { // nothing goes without a word
				about := func(problem model.PodProblem) bool { return problem.CIDR == cidr }
				if !slices.Contains(of.Announced, cidr) && !slices.ContainsFunc(of.Problems, about) {
					t.Fatalf("nothing is said of %s of %s", cidr, name)
				}
			}
		}
	})
}
