package pool

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

const (
	v4 = corev1.IPv4Protocol
	v6 = corev1.IPv6Protocol
)

// examples are the pools of the table.
func examples() []config.Pool {
	no := false
	return []config.Pool{
		{Name: "small", Addresses: []string{"192.0.2.10-192.0.2.11"}},
		{Name: "first", Addresses: []string{"198.51.100.0/31"}, Priority: 10, Namespaces: []string{"prod"},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}},
		{Name: "dual", Addresses: []string{"2001:db8::/126", "203.0.113.0/30"}, Priority: -1,
			ServiceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stack": "dual"}}},
		{Name: "manual", Addresses: []string{"192.0.2.128/30"}, AutoAssign: &no, AvoidBuggyIPs: true},
		{Name: "edges", Addresses: []string{"10.0.0.254-10.0.2.1"}, AutoAssign: &no, AvoidBuggyIPs: true},
	}
}

func compiledPools(t testing.TB, pools []config.Pool) *Pools {
	t.Helper()
	compiled, err := New(pools)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func addrs(texts ...string) []netip.Addr {
	var result []netip.Addr
	for _, text := range texts {
		result = append(result, netip.MustParseAddr(text))
	}
	return result
}

// holderNamed is a Service of a name, which is its UID too. Names that come first in the alphabet are older.
func holderNamed(name string, edits ...func(*Holder)) Holder {
	holder := Holder{
		UID: types.UID(name), Service: types.NamespacedName{Namespace: "default", Name: name},
		Created: time.Unix(int64(name[0]), 0), Ports: []Port{{corev1.ProtocolTCP, 80}},
	}
	for _, edit := range edits {
		edit(&holder)
	}
	return holder
}

func shares(key string, ports ...int32) func(*Holder) {
	return func(h *Holder) {
		h.SharingKey, h.Ports = key, nil
		for _, port := range ports {
			h.Ports = append(h.Ports, Port{corev1.ProtocolTCP, port})
		}
	}
}

func local(selector string) func(*Holder) { return func(h *Holder) { h.Backend = selector } }

// held is a Service that claims addresses already.
type held struct {
	Holder
	claimed []netip.Addr
}

// Each row is a Service "m" that asks for something while others hold addresses.
func TestAllocate(t *testing.T) {
	request := func(edits ...func(*Request)) Request {
		r := Request{Holder: holderNamed("m"), Families: []corev1.IPFamily{v4}, Policy: corev1.IPFamilyPolicySingleStack}
		for _, edit := range edits {
			edit(&r)
		}
		return r
	}
	families := func(policy corev1.IPFamilyPolicy, families ...corev1.IPFamily) func(*Request) {
		return func(r *Request) { r.Policy, r.Families = policy, families }
	}
	asks := func(texts ...string) func(*Request) { return func(r *Request) { r.Asked = addrs(texts...) } }
	has := func(texts ...string) func(*Request) { return func(r *Request) { r.Held = addrs(texts...) } }
	from := func(pool string) func(*Request) { return func(r *Request) { r.Pool = pool } }
	dual := func(r *Request) { r.Labels = labels.Set{"stack": "dual"} }
	sharing := func(edits ...func(*Holder)) func(*Request) {
		return func(r *Request) { r.Holder = holderNamed("m", edits...) }
	}
	full := []held{{holderNamed("a"), addrs("192.0.2.10")}, {holderNamed("b"), addrs("192.0.2.11")}}
	const prefer, require = corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack

	for name, test := range map[string]struct {
		others  []held
		request Request
		want    string // addresses, or a reason and a part of the message; notes behind a semicolon
	}{
		"the lowest address":      {request: request(), want: "192.0.2.10"},
		"the lowest that is free": {others: full[:1], request: request(), want: "192.0.2.11"},
		"none is free": {others: full, request: request(),
			want: "Exhausted: no IPv4 address is free: all 2 of pool small are taken"},
		"by priority and namespace": {request: request(func(r *Request) { r.Service.Namespace = "prod" }), want: "198.51.100.0"},
		"by the namespace's labels": {request: request(func(r *Request) { r.NamespaceLabels = labels.Set{"tier": "gold"} }),
			want: "198.51.100.0"},
		"the next pool when one ends": {others: full, request: request(dual), want: "203.0.113.0"},
		"no pool for the Service": {request: request(families("", v6)),
			want: "Forbidden: pool dual is not for the Service default/m"},
		"no pool with the family": {request: request(families("", v6), from("small")),
			want: "FamilyMissing: pool small has no IPv6 addresses"},
		"no family":            {request: request(families("")), want: "Invalid: the Service has no IP family"},
		"dual stack":           {request: request(dual, families(require, v6, v4)), want: "2001:db8:: 192.0.2.10"},
		"dual stack is needed": {request: request(families(require, v4, v6)), want: "Forbidden: pool dual is not for"},
		"dual stack is preferred": {request: request(families(prefer, v4, v6)),
			want: "192.0.2.10; DualStackDegraded: The Service prefers dual stack and has no IPv6 address: pool dual is not for"},
		"dual stack is preferred, the second only": {others: full, request: request(families(prefer, v4, v6), dual, from("dual"), has("2001:db8::2")),
			want: "203.0.113.0 2001:db8::2"},
		"dual stack is preferred and asked for": {request: request(families(prefer, v4, v6), asks("2001:db8::1")),
			want: "Forbidden: pool dual is not for"},
		"neither family": {others: full, request: request(families(prefer, v4, v6)),
			want: "Exhausted: no IPv4 address is free: all 2 of pool small are taken; pool dual is not for"},

		"an address": {request: request(asks("192.0.2.11")), want: "192.0.2.11"},
		"an address, and any": {request: request(asks("2001:db8::3"), dual, families(require, v4, v6)),
			want: "192.0.2.10 2001:db8::3"},
		"the same address twice": {request: request(asks("192.0.2.11", "192.0.2.11")), want: "192.0.2.11"},
		"two addresses of a family": {request: request(asks("192.0.2.11", "192.0.2.10")),
			want: "192.0.2.11 192.0.2.10"},
		"two addresses of a family, one of which is taken": {others: full[:1], request: request(asks("192.0.2.11", "192.0.2.10"), has("192.0.2.11")),
			want: "Conflict: 192.0.2.10 is held by the Service"},
		"two addresses of a family, which it has": {request: request(asks("192.0.2.10", "192.0.2.11"), has("192.0.2.11", "192.0.2.10")),
			want: "192.0.2.10 192.0.2.11"},
		"two addresses of a family that it had asked for": {request: request(has("192.0.2.11", "192.0.2.10")), want: "192.0.2.11"},
		"an address of no family": {request: request(asks("2001:db8::3")),
			want: "FamilyMissing: the Service asks for 2001:db8::3"},
		"an address of no pool": {request: request(asks("192.0.2.99")), want: "OutsidePools: 192.0.2.99 is in no pool"},
		"an address of another pool": {request: request(asks("192.0.2.11"), from("manual")),
			want: "OutsidePools: 192.0.2.11 is in pool small"},
		"an address of a manual pool": {request: request(asks("192.0.2.129")),
			want: "192.0.2.129"},
		"an address of others": {request: request(asks("198.51.100.1")),
			want: "Forbidden: pool first is not for the Service default/m"},
		"an address that is taken": {others: full, request: request(asks("192.0.2.10")),
			want: "Conflict: 192.0.2.10 is held by the Service default/a: it does not share"},

		"a pool":                          {request: request(from("manual")), want: "192.0.2.128"},
		"a pool of others":                {request: request(from("first")), want: "Forbidden: pool first"},
		"a pool that there is not":        {request: request(from("none")), want: "UnknownPool: there is no pool none"},
		"a pool without its buggy edges":  {request: request(from("edges")), want: "10.0.0.254"},
		"a buggy edge":                    {request: request(asks("10.0.1.0")), want: "OutsidePools: 10.0.1.0 is in no pool"},
		"held":                            {request: request(has("192.0.2.11")), want: "192.0.2.11"},
		"held, and asks for another":      {request: request(has("192.0.2.11"), asks("192.0.2.10")), want: "192.0.2.10"},
		"held, and asks for another pool": {request: request(has("192.0.2.11"), from("manual")), want: "192.0.2.128"},
		"held, and asks for a pool that there is not": {request: request(has("192.0.2.11"), from("gone")),
			want: "192.0.2.11"},
		"held, and in no pool": {request: request(has("192.0.2.99"), from("manual")),
			want: "192.0.2.99; AddressOutsidePools: The Service keeps 192.0.2.99, which is no longer in a pool"},
		"held, asked for, and in no pool": {request: request(has("192.0.2.99"), asks("192.0.2.99")),
			want: "192.0.2.99; AddressOutsidePools: The Service keeps 192.0.2.99"},
		"held, and the pool is for others": {request: request(has("198.51.100.1")),
			want: "198.51.100.1; AddressOutsidePools: The Service keeps 198.51.100.1, although pool first is no longer for it"},
		"held of one family, and wants both": {request: request(has("2001:db8::2"), dual, families(require, v4, v6)),
			want: "192.0.2.10 2001:db8::2"},
		"held of both, and wants one": {request: request(has("192.0.2.11", "2001:db8::2"), families("", v6)),
			want: "2001:db8::2;"},
		"held, and an older one has it": {others: full, request: request(has("192.0.2.10")),
			want: "Conflict: 192.0.2.10 is also the address of the Service default/a, which is older and keeps it"},
		"held, and a younger one has it": {others: []held{{holderNamed("z"), addrs("192.0.2.10")}},
			request: request(has("192.0.2.10")),
			want:    "192.0.2.10"},

		"shared": {others: []held{{holderNamed("a", shares("k", 80)), addrs("192.0.2.11")}}, request: request(sharing(shares("k", 443))),
			want: "192.0.2.11"},
		"shared, another key": {others: []held{{holderNamed("a", shares("k", 80)), addrs("192.0.2.10")}},
			request: request(sharing(shares("l", 443))), want: "192.0.2.11"},
		"shared, the same port": {others: []held{{holderNamed("a", shares("k", 80)), addrs("192.0.2.10")}},
			request: request(sharing(shares("k", 443, 80)), asks("192.0.2.10")),
			want:    "Conflict: 192.0.2.10 is held by the Service default/a: it has the port TCP/80 too"},
		"shared, the same port of another protocol": {others: []held{{holderNamed("a", shares("k", 80)), addrs("192.0.2.11")}},
			request: request(sharing(shares("k"), func(h *Holder) { h.Ports = []Port{{corev1.ProtocolUDP, 80}} })),
			want:    "192.0.2.11"},
		"shared, one local": {others: []held{{holderNamed("a", shares("k", 80)), addrs("192.0.2.10")}},
			request: request(sharing(shares("k", 443), local("app=x"))), want: "192.0.2.11"},
		"shared, both local": {others: []held{{holderNamed("a", shares("k", 80), local("app=x")), addrs("192.0.2.11")}},
			request: request(sharing(shares("k", 443), local("app=x"))), want: "192.0.2.11"},
		"shared, with all who do": {others: []held{{holderNamed("a", shares("k", 80)), addrs("192.0.2.10")},
			{holderNamed("b", shares("k", 443)), addrs("192.0.2.10")}}, request: request(sharing(shares("k", 443))),
			want: "192.0.2.11"},
		"shared in a pool that is not for it": {others: []held{{holderNamed("a", shares("k", 80)), addrs("192.0.2.129")}},
			request: request(sharing(shares("k", 443))), want: "192.0.2.10"},
		"shared, and its port is an older one's now": {others: []held{{holderNamed("a", shares("k", 80)), addrs("192.0.2.10")},
			{holderNamed("m", shares("k", 443)), addrs("192.0.2.10")}}, request: request(sharing(shares("k", 80)), has("192.0.2.10")),
			want: "Conflict: 192.0.2.10 is also the address of the Service default/a, which is older and keeps it: " +
				"it has the port TCP/80 too"},
	} {
		t.Run(name, func(t *testing.T) {
			state := NewState(compiledPools(t, examples()))
			for _, other := range test.others {
				state.Set(other.Holder, other.claimed, nil)
			}
			before := state.Usage()
			granted, err := Allocate(state, test.request)
			if got := describe(t, granted, err); !strings.HasPrefix(got, test.want) {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if !slices.Equal(before, state.Usage()) {
				t.Error("the state has changed")
			}
		})
	}
}

// describe says what came of a request, as the table does.
func describe(t *testing.T, granted Grant, err error) string {
	t.Helper()
	var refused *RefusedError
	if errors.As(err, &refused) {
		if len(granted.Addresses) > 0 {
			t.Errorf("granted %s, and an error", granted.Addresses)
		}
		return refused.Error()
	}
	if err != nil {
		t.Fatalf("%v is no *RefusedError", err)
	}
	var parts []string
	for _, addr := range granted.Addresses {
		parts = append(parts, addr.String())
	}
	said := strings.Join(parts, " ") + ";"
	for _, note := range granted.Notes {
		said += fmt.Sprintf(" %s: %s", note.Reason, note.Message)
	}
	return said
}

// A pool that is disabled gives no address, by itself, by asking or by sharing, and takes none back.
func TestDisabledPool(t *testing.T) {
	pools := []config.Pool{{Name: "old", Addresses: []string{"192.0.2.0/24"}, Disabled: true}, {Name: "new", Addresses: []string{"198.51.100.0/24"}, Priority: -1}}
	state := NewState(compiledPools(t, pools))
	state.Set(holderNamed("a", shares("key", 80)), addrs("192.0.2.7"), nil)
	request := func(name string, change func(*Request)) Request {
		r := Request{Holder: holderNamed(name, shares("key", 81)), Families: []corev1.IPFamily{v4}}
		change(&r)
		return r
	}
	for name, test := range map[string]struct {
		request Request
		want    string
	}{
		"keeps":            {request("a", func(r *Request) { r.Held = addrs("192.0.2.7") }), "192.0.2.7;"},
		"keeps by asking":  {request("a", func(r *Request) { r.Held, r.Asked = addrs("192.0.2.7"), addrs("192.0.2.7") }), "192.0.2.7;"},
		"by itself":        {request("b", func(*Request) {}), "198.51.100.0;"},
		"asks for one":     {request("b", func(r *Request) { r.Asked = addrs("192.0.2.8") }), "Forbidden: pool old is disabled, and gives no more addresses"},
		"asks to share":    {request("b", func(r *Request) { r.Asked = addrs("192.0.2.7") }), "Forbidden: pool old is disabled, and gives no more addresses"},
		"asks for it":      {request("b", func(r *Request) { r.Pool = "old" }), "Forbidden: pool old is disabled, and gives no more addresses"},
		"leaves it for it": {request("a", func(r *Request) { r.Held, r.Pool = addrs("192.0.2.7"), "new" }), "198.51.100.0;"},
	} {
		granted, err := Allocate(state, test.request)
		got := fmt.Sprint(err)
		if err == nil {
			got = granted.Addresses[0].String() + ";"
			for _, note := range granted.Notes {
				got += " " + note.Message
			}
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// An address that a Service merely shows goes to no other Service. But a Service that has the address keeps it.
func TestShownAddresses(t *testing.T) {
	state := NewState(compiledPools(t, examples()))
	state.Set(holderNamed("a"), addrs("192.0.2.10"), addrs("192.0.2.11"))
	r := Request{Holder: holderNamed("m"), Families: []corev1.IPFamily{v4}}
	if _, err := Allocate(state, r); err == nil {
		t.Error("an address was granted that another Service shows")
	}
	r.Held = addrs("192.0.2.11")
	if got, err := Allocate(state, r); err != nil || got.Addresses[0] != r.Held[0] {
		t.Errorf("a Service lost its address to one that merely shows it: %v, %v", got, err)
	}
	state.Remove("a")
	if usage := state.Usage(); slices.ContainsFunc(usage, func(u Usage) bool { return u.Taken > 0 }) {
		t.Errorf("left behind: %v", usage)
	}
}

// The author of the older Service edits its port to the port of another tenant's Service, with which it shares an address. The Service that
// has the port keeps the address, and the older one gets an address of its own.
func TestWhoHasThePortKeepsIt(t *testing.T) {
	s := NewState(compiledPools(t, []config.Pool{{Name: "public", Addresses: []string{"192.0.2.0/24"}}}))
	granted := func(name string, port int32) Holder {
		holder := holderNamed(name, shares("public", port))
		holder.Granted = holder.Ports
		return holder
	}
	ip := addrs("192.0.2.0")
	squatter, shop := granted("a-squatter", 81), granted("z-shop", 443)
	s.Set(squatter, ip, ip)
	s.Set(shop, ip, ip)
	squatter.Ports = []Port{{corev1.ProtocolTCP, 443}}
	asking := Request{Holder: squatter, Families: []corev1.IPFamily{v4}, Held: ip}
	if grant, err := Allocate(s, asking); err != nil || slices.Equal(grant.Addresses, ip) {
		t.Errorf("the squatter gets %v, %v", grant.Addresses, err)
	}
	asking.Asked = ip
	if _, err := Allocate(s, asking); err == nil || !strings.Contains(err.Error(), "which had the port first and keeps it: it has the port TCP/443 too") {
		t.Errorf("the squatter that asks for the address gets %v", err)
	}
	s.Set(squatter, ip, ip) // another replica has only seen the objects
	if grant, err := Allocate(s, Request{Holder: shop, Families: []corev1.IPFamily{v4}, Held: ip}); err != nil || !slices.Equal(grant.Addresses, ip) {
		t.Errorf("the other one gets %v, %v", grant.Addresses, err)
	}
	if losers := s.Losers(ip[0]); len(losers) != 1 || losers[0].UID != squatter.UID {
		t.Errorf("losers: %v", losers)
	}
}

// The author of the older Service no longer shares with another namespace: the older Service leaves the address, and the other keeps it.
func TestWhoTurnsLeaves(t *testing.T) {
	for name, turn := range map[string]func(*Holder){
		"no key":       func(h *Holder) { h.SharingKey = "" },
		"policy Local": func(h *Holder) { h.Backend = "evil/app=a" },
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState(compiledPools(t, []config.Pool{{Name: "public", Addresses: []string{"192.0.2.0/24"}}}))
			squatter, shop := holderNamed("a-squatter", shares("public", 81)), holderNamed("z-shop", shares("public", 443))
			squatter.Service.Namespace = "evil"
			ip := addrs("192.0.2.0")
			s.Set(squatter, ip, ip)
			s.Set(shop, ip, ip)
			turn(&squatter)
			asking := Request{Holder: squatter, Families: []corev1.IPFamily{v4}, Held: ip}
			if grant, err := Allocate(s, asking); err != nil || slices.Equal(grant.Addresses, ip) {
				t.Errorf("the squatter gets %v, %v", grant.Addresses, err)
			}
			asking.Asked = ip
			if _, err := Allocate(s, asking); err == nil || !strings.Contains(err.Error(), "which shares it as before and keeps it") {
				t.Errorf("the squatter that asks for the address gets %v", err)
			}
			for _, edit := range []func(*Holder){func(*Holder) {}, func(h *Holder) { *h = holderNamed("a-squatter", shares("another", 81)); h.Service.Namespace = "evil" }} {
				edit(&squatter)
				s.Set(squatter, ip, ip) // another replica has only seen the objects
				if grant, err := Allocate(s, Request{Holder: shop, Families: []corev1.IPFamily{v4}, Held: ip}); err != nil || !slices.Equal(grant.Addresses, ip) {
					t.Errorf("beside %+v the other one gets %v, %v", squatter, grant.Addresses, err)
				}
			}
		})
	}
}

// Of the Services that claim one address the oldest keeps it, and so does each that can share it with all before it.
func TestLosers(t *testing.T) {
	state := NewState(compiledPools(t, examples()))
	addr := addrs("192.0.2.10")
	for _, holder := range []Holder{
		holderNamed("d", shares("k", 1)), holderNamed("c", shares("k", 2)), holderNamed("b"), holderNamed("a", shares("k", 1)),
	} {
		state.Set(holder, addr, nil)
	}
	var got []string
	for _, loser := range state.Losers(addr[0]) {
		got = append(got, fmt.Sprintf("%s to %s: %s", loser.UID, loser.Winner.UID, loser.Obstacle))
	}
	want := []string{"b to a: it does not share", "d to a: it has the port TCP/1 too"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
