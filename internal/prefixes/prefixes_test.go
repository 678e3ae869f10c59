package prefixes

import (
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func claim(owner, prefix string) Claim { return Claim{owner, netip.MustParsePrefix(prefix)} }

// A claim of an unusual length counts after all others, however old it is; among few the senior one's length is usual.
func TestRank(t *testing.T) {
	got := Rank([]Claim{
		claim("evil", "10.0.0.0/8"), claim("a", "10.1.1.0/24"), claim("a", "fd00:1::/64"), claim("worse", "10.1.1.7/32"), claim("b", "10.1.2.0/24"),
		claim("c", "fd00:2::/80"),
	})
	want := "[{a 10.1.1.0/24} {a fd00:1::/64} {b 10.1.2.0/24} {evil 10.0.0.0/8} {worse 10.1.1.7/32} {c fd00:2::/80}]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// What is held does not overlap, and what is refused overlaps what it names.
func TestTake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var held Held
		var all []Claim
		for range rapid.IntRange(1, 30).Draw(t, "claims") {
			addr := netip.AddrFrom4([4]byte{10, 0, byte(rapid.IntRange(0, 3).Draw(t, "third")), byte(rapid.IntRange(0, 255).Draw(t, "fourth"))})
			prefix, err := addr.Prefix(rapid.IntRange(20, 32).Draw(t, "bits"))
			if err != nil {
				t.Fatal(err)
			}
			next := Claim{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "owner"), prefix}
			free := true
			for _, one := range all {
				free = free && !one.Prefix.Overlaps(next.Prefix)
			}
			other, taken := held.Take(next)
			if taken != free || !taken && !other.Prefix.Overlaps(next.Prefix) {
				t.Fatalf("%v among %v: %v, because of %v", next, all, taken, other)
			}
			if taken {
				all = append(all, next)
			}
		}
	})
}
