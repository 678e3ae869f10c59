package pool

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// small pools, so they run out, with ranges that touch and that do not.
func propertyPools(shift int) []config.Pool {
	return []config.Pool{
		{Name: "a", Addresses: []string{fmt.Sprintf("192.0.2.%d-192.0.2.%d", shift, shift+3), "192.0.2.20-192.0.2.21", "192.0.2.22/32"}},
		{Name: "b", Addresses: []string{"2001:db8::/127", "198.51.100.7"}, Priority: 1},
	}
}

// all returns every address of some pools, in order.
func all(pools []config.Pool) []netip.Addr {
	var result []netip.Addr
	for _, pool := range pools {
		ranges, _ := pool.Ranges()
		for _, r := range ranges {
			for addr := r.First; addr.IsValid() && !r.Last.Less(addr); addr = addr.Next() {
				result = append(result, addr)
			}
		}
	}
	slices.SortFunc(result, netip.Addr.Compare)
	return result
}

// Whatever a state was set to before, it answers as one that only has what was last set for each Service: the free addresses are the ones
// that no Service holds, and the lowest is found.
func TestStateIsWhatWasSetLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := propertyPools(0)
		state := NewState(must.Value(New(pools))(t))
		model := map[types.UID][]netip.Addr{}
		candidates := append(all(propertyPools(0)), all(propertyPools(2))...)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				holder := holderNamed(rapid.StringMatching("[a-h]").Draw(t, "service"))
				claimed := rapid.SliceOfN(rapid.SampledFrom(candidates), 0, 2).Draw(t, "claimed")
				shown := rapid.SliceOfN(rapid.SampledFrom(candidates), 0, 2).Draw(t, "shown")
				state.Set(holder, claimed, shown)
				model[holder.UID] = slices.Concat(claimed, shown)
			},
			"remove": func(t *rapid.T) {
				uid := types.UID(rapid.StringMatching("[a-h]").Draw(t, "service"))
				state.Remove(uid)
				delete(model, uid)
			},
			"pools": func(t *rapid.T) {
				pools = propertyPools(rapid.IntRange(0, 3).Draw(t, "shift"))
				state = state.WithPools(must.Value(New(pools))(t))
			},
			"": func(t *rapid.T) {
				taken := map[netip.Addr]bool{}
				for _, addresses := range model {
					for _, addr := range addresses {
						taken[addr] = true
					}
				}
				for _, pool := range pools {
					agree(t, state, pool, taken)
				}
			},
		})
	})
}

// agree compares a pool with a look at each of its addresses.
func agree(t *rapid.T, state *State, pool config.Pool, taken map[netip.Addr]bool) {
	for _, family := range []corev1.IPFamily{v4, v6} {
		var free []netip.Addr
		size := 0
		for _, addr := range all([]config.Pool{pool}) {
			if FamilyOf(addr) != family {
				continue
			}
			size++
			if !taken[addr] {
				free = append(free, addr)
			}
		}
		f := state.free[pool.Name][family]
		if size == 0 {
			if f != nil {
				t.Fatalf("pool %s has %s addresses", pool.Name, family)
			}
			continue
		}
		lowest, found := f.lowest()
		if f.size != float64(size) || f.taken != size-len(free) || found != (len(free) > 0) || found && lowest != free[0] {
			t.Fatalf("pool %s, %s: size %v, taken %d, lowest %s, %t; free are %s of %d",
				pool.Name, family, f.size, f.taken, lowest, found, free, size)
		}
	}
}

// A pool of any size is counted, and served from its lowest address on.
func TestLargePools(t *testing.T) {
	pools := []config.Pool{{Name: "large", Addresses: []string{"10.0.0.0/8", "2001:db8::/32"}, AvoidBuggyIPs: true}}
	state := NewState(compiledPools(t, pools))
	usage := state.Usage()
	if usage[0].Size != 1<<24-2*1<<16 || usage[1].Size != math.Pow(2, 96) {
		t.Errorf("sizes %v", usage)
	}
	granted, err := Allocate(state, Request{Holder: holderNamed("m"), Families: []corev1.IPFamily{v4, v6}})
	if err != nil || !slices.Equal(granted.Addresses, addrs("10.0.0.1", "2001:db8::")) {
		t.Errorf("%v, %v", granted, err)
	}
}

// BenchmarkAllocate10000 gives 10,000 Services an address of each family from one pool, one after the other.
func BenchmarkAllocate10000(b *testing.B) {
	pools := must.Value(New([]config.Pool{{Name: "large", Addresses: []string{"10.0.0.0/16", "2001:db8::/64"}, AvoidBuggyIPs: true}}))(b)
	holders := make([]Holder, 10_000)
	for i := range holders {
		name := fmt.Sprintf("service-%05d", i)
		key := types.NamespacedName{Namespace: "default", Name: name}
		holders[i] = Holder{UID: types.UID(name), Service: key, Created: time.Unix(int64(i), 0)}
	}
	b.ReportAllocs()
	for b.Loop() {
		state := NewState(pools)
		for _, holder := range holders {
			granted, err := Allocate(state, Request{Holder: holder, Families: []corev1.IPFamily{v4, v6}})
			if err != nil {
				b.Fatal(err)
			}
			state.Set(holder, granted.Addresses, nil)
		}
	}
}
