package layer2

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// What is announced follows the networks of the interfaces: their changes are told, each once.
func TestNetworksAreTold(t *testing.T) {
	r := New(&config.L2{Interfaces: []string{"absent"}}, prometheus.NewRegistry())
	told := func() bool {
		select {
		case <-r.NetworksChanged():
			return true
		default:
			return false
		}
	}
	for _, look := range []struct {
		networks []network
		want     string
		told     bool
	}{
		{nil, "[]", false},
		{[]network{networkOf("eth0", "10.0.0.2/24", "10.0.0.3/24", "10.9.0.1/32"), networkOf("eth1", "fd00::2/64")}, "[10.0.0.0/24 fd00::/64]", true},
		{[]network{networkOf("eth0", "10.0.0.2/24", "10.0.0.3/24", "10.9.0.1/32"), networkOf("eth1", "fd00::2/64")}, "[10.0.0.0/24 fd00::/64]", false},
		{[]network{networkOf("eth0", "10.0.0.2/24")}, "[10.0.0.0/24]", true},
	} {
		r.see(look.networks)
		if got := fmt.Sprint(r.Networks()); got != look.want || told() != look.told {
			t.Errorf("networks %s, want %s, told %t", got, look.want, look.told)
		}
	}
}
