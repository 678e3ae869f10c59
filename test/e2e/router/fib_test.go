package router

import (
	"net/netip"
	"testing"
)

// Routes as the kernel lists them that FRR and BIRD have put there, with one and with several next hops, and others'.
const listed = `[
 {"dst":"default","gateway":"10.77.0.1","dev":"eth0","flags":[]},
 {"dst":"10.77.0.0/16","dev":"eth0","protocol":"kernel","scope":"link","flags":[]},
 {"dst":"10.200.1.0/24","nhid":9,"gateway":"10.77.1.1","dev":"eth0","protocol":"bgp","metric":20,"flags":[]},
 {"dst":"192.0.2.1","protocol":"bird","metric":32,"flags":[],"nexthops":[
  {"gateway":"10.77.1.2","dev":"eth0","weight":1,"flags":[]},{"gateway":"10.77.1.1","dev":"eth0","weight":1,"flags":[]}]},
 {"dst":"2001:db8::1","protocol":"186","metric":20,"flags":[],"nexthops":[
  {"gateway":"fd00:77::1:1","dev":"eth0","weight":1,"flags":[]}]}
]`

func TestReadFIB(t *testing.T) {
	got := FIB{}
	if err := got.read(listed); err != nil {
		t.Fatal(err)
	}
	one, two := netip.MustParseAddr("10.77.1.1"), netip.MustParseAddr("10.77.1.2")
	want := FIB{
		netip.MustParsePrefix("10.200.1.0/24"):   {one},
		netip.MustParsePrefix("192.0.2.1/32"):    {one, two},
		netip.MustParsePrefix("2001:db8::1/128"): {netip.MustParseAddr("fd00:77::1:1")},
	}
	if !got.Equal(want) {
		t.Errorf("read %v, want %v", got, want)
	}
	if err := (FIB{}).read(`[{"dst":"10.0.0.0/8","protocol":"bgp","dev":"eth0"}]`); err == nil {
		t.Error("a route of the router without a next hop is read")
	}
}
