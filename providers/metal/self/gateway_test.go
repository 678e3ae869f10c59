package self

import "testing"

// The text is what Linux shows with two default routes, of which the second one counts more.
func TestGateway(t *testing.T) {
	const four = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	0100000A	0003	0	0	100	00000000	0	0	0
eth1	00000000	FE01A8C0	0003	0	0	50	00000000	0	0	0
eth0	0000000A	00000000	0001	0	0	0	00FFFFFF	0	0	0
`
	const six = `fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001 eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000010 00000001 00000000 00000003 eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd000000000000000000000000000001 00000400 00000001 00000000 00000003 eth0
`
	if got, err := lowest(four, gateway4); err != nil || got.String() != "192.168.1.254" {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := lowest(six, gateway6); err != nil || got.String() != "fd00::1" {
		t.Errorf("%s, %v", got, err)
	}
	for _, text := range []string{"", "eth0", "eth0 0000000A 00000000 0001 0 0 0 00FFFFFF 0 0 0"} {
		if got, err := lowest(text, gateway4); err == nil {
			t.Errorf("%q has the gateway %s", text, got)
		}
	}
}
