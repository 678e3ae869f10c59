package netlab

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestTableHasWhatTheRouterLearned(t *testing.T) {
	four := `[{"dst":"default","gateway":"10.0.0.1","dev":"eth0","flags":[]},
		{"dst":"10.244.0.0/24","gateway":"10.78.1.1","dev":"eth0","protocol":"bgp","metric":20,"flags":[]},
		{"dst":"192.0.2.0","protocol":"bird","flags":[],"nexthops":[{"gateway":"10.78.1.2"},{"gateway":"10.78.1.1"}]}]`
	six := `[{"dst":"2001:db8::1","protocol":"186","gateway":"fd00:78::1:1","dev":"eth0"}]`
	table := Table{}
	if err := errors.Join(table.Read([]byte(four)), table.Read([]byte(six))); err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddr
	want := Table{
		netip.MustParsePrefix("10.244.0.0/24"):   {addr("10.78.1.1")},
		netip.MustParsePrefix("192.0.2.0/32"):    {addr("10.78.1.1"), addr("10.78.1.2")},
		netip.MustParsePrefix("2001:db8::1/128"): {addr("fd00:78::1:1")},
	}
	if !table.Equal(want) {
		t.Errorf("the table is %v, want %v", table, want)
	}
}

func TestTableRefusesWhatItCannotRead(t *testing.T) {
	for _, text := range []string{
		`nothing`, `[{"dst":"somewhere","protocol":"bgp","gateway":"10.0.0.1"}]`, `[{"dst":"10.0.0.0/8","protocol":"bgp"}]`,
	} {
		if err := (Table{}).Read([]byte(text)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

func TestCheckNamesAllThatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, _, err := Check(BIRD)
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatalf("the error is %v", err)
	}
	for _, want := range []string{"iproute2", "util-linux", "nftables", "bird2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
}
