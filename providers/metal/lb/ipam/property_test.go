package ipam

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam/pool"
)

// generations are the pools that the config has in the course of a run. They are small, so they run out.
var generations = [][]config.Pool{
	{{Name: "a", Addresses: []string{"192.0.2.0/30", "2001:db8::/127"}}, {Name: "b", Addresses: []string{"198.51.100.0/31"}}},
	{{Name: "a", Addresses: []string{"192.0.2.2-192.0.2.5", "2001:db8::/126"}}, {Name: "b", Addresses: []string{"192.0.2.0/31"}}},
	{{Name: "b", Addresses: []string{"198.51.100.0/30", "2001:db8::1"}, Priority: 1}},
}

var names = []string{"s0", "s1", "s2", "s3", "s4", "s5"}

// fixture is a cluster in which anything may happen at any time.
type fixture struct {
	api   *apiServer
	pools []config.Pool
	*leader
}

func (f *fixture) takeOver(t *rapid.T) {
	last := len(f.api.versions) - 1
	lag := func(what string) int { return rapid.IntRange(max(last-8, 0), last).Draw(t, what) }
	var err error
	if f.leader, err = lead(f.api, f.pools, lag("watch"), lag("cache")); err != nil {
		t.Fatal(err)
	}
}

// wishes draws what a Service asks for.
func wishes(t *rapid.T, service *corev1.Service) {
	service.Annotations = maps.Clone(service.Annotations)
	delete(service.Annotations, AnnotationAddresses)
	delete(service.Annotations, AnnotationPool)
	switch rapid.IntRange(0, 5).Draw(t, "wish") {
	case 0:
		wanted := rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.3", "198.51.100.0"})
		service.Annotations[AnnotationAddresses] = wanted.Draw(t, "address")
	case 1:
		service.Annotations[AnnotationPool] = rapid.SampledFrom([]string{"a", "b", "none"}).Draw(t, "pool")
	}
	both := []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	service.Spec.IPFamilies = rapid.SampledFrom([][]corev1.IPFamily{both[:1], both[:1], both}).Draw(t, "families")
	policies := []corev1.IPFamilyPolicy{corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack}
	policy := rapid.SampledFrom(policies).Draw(t, "policy")
	service.Spec.IPFamilyPolicy = &policy
}

// actions are what can happen.
func (f *fixture) actions() map[string]func(*rapid.T) {
	name := func(t *rapid.T) string { return rapid.SampledFrom(names).Draw(t, "service") }
	return map[string]func(*rapid.T){
		"create": func(t *rapid.T) {
			one := name(t)
			if f.api.now[one] != nil {
				return
			}
			sharing, port := rapid.SampledFrom([]string{"", "", "k"}).Draw(t, "sharing"), rapid.Int32Range(80, 82).Draw(t, "port")
			f.api.create(one, func(s *corev1.Service) {
				s.Annotations[AnnotationSharing], s.Spec.Ports[0].Port = sharing, port
				wishes(t, s)
			})
		},
		"change": func(t *rapid.T) { f.api.change(name(t), func(s *corev1.Service) { wishes(t, s) }) },
		"retype": func(t *rapid.T) {
			f.api.change(name(t), func(s *corev1.Service) {
				if s.DeletionTimestamp.IsZero() {
					types := []corev1.ServiceType{corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP}
					s.Spec.Type = rapid.SampledFrom(types).Draw(t, "type")
				}
			})
		},
		"delete": func(t *rapid.T) { f.api.delete(name(t)) },
		"strip": func(t *rapid.T) { // a user removes the finalizer by force
			one := name(t)
			if service := f.api.now[one]; service != nil && !service.DeletionTimestamp.IsZero() {
				f.api.write(one, nil)
			}
		},
		"step":   func(t *rapid.T) { f.stepAndCheck(t, name(t)) },
		"step 2": func(t *rapid.T) { f.stepAndCheck(t, name(t)) },
		"step 3": func(t *rapid.T) { f.stepAndCheck(t, name(t)) },
		"watch":  func(*rapid.T) { f.watch.follow(f.watch.at + 1) },
		"cache":  func(*rapid.T) { f.cache.follow(f.cache.at + 1) },
		"relist": func(t *rapid.T) {
			rapid.SampledFrom([]*reader{f.watch, f.cache}).Draw(t, "of").follow(len(f.api.versions) - 1)
		},
		"changes":   func(*rapid.T) { f.handleChanges() },
		"unwatched": func(t *rapid.T) { f.checkUnwatched(t.Context(), f.allocations) },
		"crash":     f.takeOver,
		"pools": func(t *rapid.T) {
			f.pools = rapid.SampledFrom(generations).Draw(t, "pools")
			if err := f.SetPools(f.pools); err != nil {
				t.Fatal(err)
			}
		},
		"": f.check,
	}
}

// stepAndCheck lets the controller go on, and sees that a Service keeps the addresses that it shows unless it asked for others.
func (f *fixture) stepAndCheck(t *rapid.T, name string) {
	before := f.api.now[name]
	if _, err := f.step(name); err != nil && Refusal(err) == nil {
		t.Fatalf("a step for %s: %v", name, err)
	}
	after, made := f.api.now[name], f.made[name]
	if before == nil || after == nil || before.UID != after.UID || made == nil || made.service.UID != after.UID {
		return
	}
	shown := shownBy(after)
	if len(shown) == 0 || slices.Equal(shown, shownBy(before)) {
		return
	}
	for _, addr := range shownBy(before) {
		if !slices.Contains(shown, addr) && !f.everAskedToLeave(name, after, addr) {
			t.Fatalf("%s had %s and has %s, and asked for none of that: %v", name, addr, shown, made.service.Annotations)
		}
	}
}

// everAskedToLeave reports whether a Service asks for something else than an address, or ever did: caches lag behind.
func (f *fixture) everAskedToLeave(name string, service *corev1.Service, addr netip.Addr) bool {
	return slices.ContainsFunc(f.api.versions, func(at map[string]*corev1.Service) bool {
		return at[name] != nil && at[name].UID == service.UID && askedToLeave(at[name], addr)
	})
}

// askedToLeave reports whether a Service asks for something else than an address.
func askedToLeave(service *corev1.Service, addr netip.Addr) bool {
	family := pool.FamilyOf(addr)
	if !slices.Contains(service.Spec.IPFamilies, family) || service.Annotations[AnnotationPool] != "" {
		return true
	}
	asked, _ := askedOf(service)
	return slices.ContainsFunc(asked, func(other netip.Addr) bool { return other != addr && pool.FamilyOf(other) == family })
}

// check sees that no two Services show one address that do not share it.
func (f *fixture) check(t *rapid.T) {
	holders := map[netip.Addr][]*corev1.Service{}
	for _, service := range f.api.now {
		for _, addr := range shownBy(service) {
			for _, other := range holders[addr] {
				a, b := holderOf(service), holderOf(other)
				if a.SharingKey == "" || a.SharingKey != b.SharingKey || a.Ports[0] == b.Ports[0] {
					t.Fatalf("%s is the address of %s and of %s", addr, service.UID, other.UID)
				}
			}
			holders[addr] = append(holders[addr], service)
		}
	}
}

// catchUp delivers everything and lets the controller finish.
func (f *fixture) catchUp(t *rapid.T) {
	for range 1000 {
		f.watch.follow(len(f.api.versions) - 1)
		f.cache.follow(len(f.api.versions) - 1)
		busy := false
		for _, name := range names {
			did, err := f.step(name)
			if err != nil && Refusal(err) == nil {
				t.Fatal(err)
			}
			busy = busy || (did && err == nil)
			f.check(t)
		}
		f.handleChanges()
		if !busy && len(f.retried) == 0 {
			return
		}
		f.retried = nil
	}
	t.Fatal("the controller does not come to an end")
}

// complete checks that, when all is quiet, the allocations say what the API server does, and that no Service is refused for nothing.
func (f *fixture) complete(t *rapid.T) {
	f.checkUnwatched(t.Context(), f.allocations)
	f.catchUp(t)
	for _, service := range f.api.now {
		e := f.allocations.entries[service.UID]
		if made := f.made[service.Name]; e != nil && made != nil && made.status == nil {
			continue // it was refused, and keeps what it was granted before, which may not have been written
		}
		if e == nil || !slices.Equal(e.claimed(), shownBy(service)) || !slices.Equal(e.shown, e.claimed()) {
			t.Fatalf("%s shows %v; the allocations have %+v", service.UID, shownBy(service), e)
		}
	}
	if len(f.allocations.entries) != len(f.api.now) {
		t.Fatalf("%d Services allocated, %d on the API server", len(f.allocations.entries), len(f.api.now))
	}
	for _, addr := range slices.Collect(maps.Keys(f.allocations.unchecked)) {
		if losers := f.allocations.state.Losers(addr); len(losers) > 0 {
			t.Fatalf("conflicts about %s: %+v", addr, losers)
		}
	}
}

// Services come, change and go, pools change, caches lag behind and jump, processes end at any step and others take over: no
// address is ever given twice, none changes without being asked to, and in the end nothing is left behind.
func TestNoAddressIsDoubledChangedOrLost(t *testing.T) {
	for range 5 { // the number of runs is rapid's flag, which holds for all properties of a package
		rapid.Check(t, runOnce)
	}
}

// runOnce is one run.
func runOnce(t *rapid.T) {
	f := &fixture{api: newAPIServer(), pools: generations[0]}
	f.takeOver(t)
	t.Repeat(f.actions())
	f.catchUp(t)
	f.complete(t)
	for _, name := range names {
		f.api.delete(name)
	}
	f.catchUp(t)
	f.checkUnwatched(t.Context(), f.allocations)
	if len(f.api.now) > 0 {
		t.Fatalf("%d Services are left", len(f.api.now))
	}
	for _, usage := range f.allocations.state.Usage() {
		if usage.Taken != 0 {
			t.Fatalf("left behind: %+v of %+v", usage, f.allocations.entries)
		}
	}
	if left := fmt.Sprint(len(f.allocations.entries), len(f.waiting)); left != "0 0" {
		t.Fatalf("entries and refusals left behind: %s", left)
	}
}
