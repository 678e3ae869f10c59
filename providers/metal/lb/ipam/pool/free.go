package pool

import (
	"math"
	"net/netip"

	"k8s.io/utils/third_party/forked/golang/btree"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// degree is the degree of the trees: nodes of some cache lines.
const degree = 32

// free is the addresses of one family in one pool that no Service holds, as ranges that neither overlap nor touch. To take an address, to
// give one back and to find the lowest costs the logarithm of the number of ranges, however large they are: a /64 of which ten addresses
// are taken has at most eleven.
type free struct {
	ranges *btree.BTree[config.AddressRange]
	// size is how many addresses there are in all; a float, for there may be 2^64 and more.
	size float64
	// taken is how many of them are not free.
	taken int
}

func newFree() *free {
	return &free{ranges: btree.New(degree, func(a, b config.AddressRange) bool { return a.First.Less(b.First) })}
}

// add adds a range that is free, and that no range overlaps which was added before.
func (f *free) add(r config.AddressRange) {
	f.ranges.ReplaceOrInsert(r)
	f.size += sizeOf(r)
}

// lowest returns the lowest free address, and whether there is one.
func (f *free) lowest() (netip.Addr, bool) {
	first, found := f.ranges.Min()
	return first.First, found
}

// around returns the free range that begins at or before an address.
func (f *free) around(addr netip.Addr) (found config.AddressRange, any bool) {
	f.ranges.DescendLessOrEqual(config.AddressRange{First: addr}, func(r config.AddressRange) bool {
		found, any = r, true
		return false
	})
	return found, any
}

// take takes an address out. It does nothing if the address is not free.
func (f *free) take(addr netip.Addr) {
	r, found := f.around(addr)
	if !found || r.Last.Less(addr) {
		return
	}
	f.taken++
	f.ranges.Delete(r)
	if r.First.Less(addr) {
		f.ranges.ReplaceOrInsert(config.AddressRange{First: r.First, Last: addr.Prev()})
	}
	if addr.Less(r.Last) {
		f.ranges.ReplaceOrInsert(config.AddressRange{First: addr.Next(), Last: r.Last})
	}
}

// give gives an address back that was taken.
func (f *free) give(addr netip.Addr) {
	f.taken--
	whole := config.AddressRange{First: addr, Last: addr}
	if before, found := f.around(addr); found && before.Last.Next() == addr {
		f.ranges.Delete(before)
		whole.First = before.First
	}
	if after, found := f.ranges.Get(config.AddressRange{First: addr.Next()}); found {
		f.ranges.Delete(after)
		whole.Last = after.Last
	}
	f.ranges.ReplaceOrInsert(whole)
}

// sizeOf returns how many addresses a range has.
func sizeOf(r config.AddressRange) float64 {
	first, last := r.First.As16(), r.Last.As16()
	size := 1.0
	for i := range first {
		size += (float64(last[i]) - float64(first[i])) * math.Pow(2, float64(8*(len(first)-1-i)))
	}
	return size
}
