package config

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A list of pools is either taken or refused with everything that is wrong with it, by field and value.
func TestValidatePools(t *testing.T) {
	for name, test := range map[string]struct {
		pools []Pool
		want  []string
	}{
		"prefixes, ranges and addresses of both families": {pools: []Pool{
			{Name: "a", Addresses: []string{"192.0.2.0/25", "192.0.2.128-192.0.2.140", "198.51.100.7", "2001:db8::/64"}},
			{Name: "b", Addresses: []string{"192.0.2.141 - 192.0.2.255", "2001:db8:0:1::1-2001:db8:0:1::ff"}},
		}},
		"all at once": {
			pools: []Pool{{}, {Name: "Big", Addresses: []string{"192.0.2.1/24", "nonsense", "192.0.2.9-192.0.2.1", "192.0.2.1-::1"},
				Namespaces: []string{"a/b"}, ServiceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}}},
			want: []string{
				"pools[0].name: Required", "pools[0].addresses: Required", `pools[1].name: Invalid value: "Big"`,
				`pools[1].addresses[0]: Invalid value: "192.0.2.1/24": the address has bits beyond the prefix length; the prefix is 192.0.2.0/24`,
				`pools[1].addresses[1]: Invalid value: "nonsense"`,
				`pools[1].addresses[2]: Invalid value: "192.0.2.9-192.0.2.1": the range ends before it begins`,
				`pools[1].addresses[3]: Invalid value: "192.0.2.1-::1": the ends of the range are of different families`,
				`pools[1].namespaces[0]: Invalid value: "a/b"`, `pools[1].serviceSelector.matchLabels: Invalid value: "a b"`,
			},
		},
		"two of one name": {
			pools: []Pool{{Name: "a", Addresses: []string{"192.0.2.1"}}, {Name: "a", Addresses: []string{"192.0.2.2"}}},
			want:  []string{`pools[1].name: Duplicate value: "a"`},
		},
		"overlaps name both": {
			pools: []Pool{{Name: "narrow", Addresses: []string{"192.0.2.7"}}, {Name: "wide", Addresses: []string{"192.0.2.0/24"}},
				{Name: "last", Addresses: []string{"192.0.2.200-192.0.3.4", "2001:db8::/64"}},
				{Name: "self", Addresses: []string{"2001:db8:1::/64", "2001:db8:1::1"}}},
			want: []string{
				`pools[1].addresses[0]: Invalid value: "192.0.2.0/24": pool "wide" overlaps 192.0.2.7 of pool "narrow"`,
				`pools[2].addresses[0]: Invalid value: "192.0.2.200-192.0.3.4": pool "last" overlaps 192.0.2.0/24 of pool "wide"`,
				`pools[3].addresses[1]: Invalid value: "2001:db8:1::1": pool "self" overlaps 2001:db8:1::/64 of pool "self"`,
			},
		},
		"addresses that cannot be": {
			pools: []Pool{{Name: "a", Addresses: []string{"127.0.0.1", "0.0.0.0/0", "224.0.0.1", "::1", "fe80::/64", "ff02::1",
				"::ffff:192.0.2.1", "fe80::1%eth0"}}},
			want: []string{
				"pools[0].addresses[0]: ", "pools[0].addresses[1]: ", "pools[0].addresses[2]: ", "pools[0].addresses[3]: ",
				"pools[0].addresses[4]: ", "pools[0].addresses[5]: ", "pools[0].addresses[6]: ", "pools[0].addresses[7]: ",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range validatePools(field.NewPath("pools"), test.pools) {
				got = append(got, err.Error())
			}
			if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// Prefixes hold their first and last address.
func TestRanges(t *testing.T) {
	pool := Pool{Name: "a", Addresses: []string{"192.0.2.0/30", "192.0.2.9", "192.0.2.11-192.0.2.13", "2001:db8::/126"}}
	ranges, err := pool.Ranges()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range ranges {
		got = append(got, one.String())
	}
	want := []string{"192.0.2.0-192.0.2.3", "192.0.2.9", "192.0.2.11-192.0.2.13", "2001:db8::-2001:db8::3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A pool assigns addresses unless it says that it does not.
func TestPoolDefaults(t *testing.T) {
	no := false
	pools := []Pool{{Name: "a"}, {Name: "b", AutoAssign: &no}}
	setPoolDefaults(pools)
	if !pools[0].AutoAssigns() || *pools[0].AutoAssign != true || pools[1].AutoAssigns() {
		t.Errorf("got %v and %v", *pools[0].AutoAssign, *pools[1].AutoAssign)
	}
}
