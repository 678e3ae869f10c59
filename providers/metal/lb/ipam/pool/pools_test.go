package pool

import (
	"net/netip"
	"testing"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

func TestOverlap(t *testing.T) {
	pools, err := New([]config.Pool{
		{Name: "b", Addresses: []string{"192.0.2.64-192.0.2.127", "2001:db8::/120"}},
		{Name: "a", Addresses: []string{"192.0.2.0/28"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"192.0.2.0/24": "a", "192.0.2.0/32": "a", "192.0.2.15/32": "a", "192.0.2.16/32": "", "192.0.2.32/27": "", "192.0.2.64/26": "b",
		"192.0.2.100/32": "b", "192.0.2.128/25": "", "192.0.0.0/23": "", "0.0.0.0/0": "a", "192.0.1.0/24": "",
		"2001:db8::/64": "b", "2001:db8::1:0/112": "", "::/0": "b", "2001:db7::/32": "",
	} {
		if got := pools.Overlap(netip.MustParsePrefix(text)); got != want {
			t.Errorf("%s overlaps %q, want %q", text, got, want)
		}
	}
}
