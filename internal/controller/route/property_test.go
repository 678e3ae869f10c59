package route

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"pgregory.net/rapid"
)

// situation is what a plan is made of.
type situation struct {
	members []member
	routes  []*cloudprovider.Route
	can     abilities
	// addressed says that the cloud looks at the addresses of targets.
	addressed bool
}

var (
	drawnAddresses = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b"}), 0, 2, rapid.ID)

	drawnNames = []string{"n0", "n1", "n2", "n3", "n4"}
	// Within the cluster CIDRs, parts of one another, in several spellings, outside, and no CIDR at all.
	drawnCIDRs = []string{
		"10.120.0.0/24", "10.120.1.0/24", "10.120.1.0/25", "10.120.1.128/25", "10.120.2.0/24", "a00:100::/24", "A00:0100::/24",
		"a00:200::/24", "10.120.0.0/15", "10.99.0.0/24", "b00:100::/24", "10.120.0.0/33", "",
	}
)

func drawSituation(t *rapid.T) situation {
	s := situation{addressed: rapid.Bool().Draw(t, "addressed")}
	s.can = abilities{replaces: rapid.Bool().Draw(t, "replaces"), maxRoutes: rapid.SampledFrom([]int{0, 0, 3, 8}).Draw(t, "limit")}
	for _, name := range drawnNames {
		if !rapid.Bool().Draw(t, name+" exists") {
			continue
		}
		m := node(name, rapid.SliceOfN(rapid.SampledFrom(drawnCIDRs[:len(drawnCIDRs)-1]), 0, 3).Draw(t, name+" CIDRs")...)
		m.membership = rapid.SampledFrom([]membership{ours, ours, ours, others, undecided, presumed}).Draw(t, name+" membership")
		m = m.created(time.Duration(rapid.IntRange(0, 2).Draw(t, name+" age")))
		m.node.Status.Addresses = addresses(drawnAddresses.Draw(t, name+" addresses")...)
		s.members = append(s.members, m)
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "routes") {
		target := rapid.SampledFrom(append(slices.Clone(drawnNames), "gone", "")).Draw(t, "target")
		r := route(fmt.Sprintf("r%d", i), rapid.SampledFrom(drawnCIDRs).Draw(t, "CIDR"), target)
		r.Blackhole = rapid.IntRange(0, 3).Draw(t, "blackhole") == 0
		r.EnableNodeAddresses = s.addressed
		r.TargetNodeAddresses = addresses(drawnAddresses.Draw(t, "addresses")...)
		s.routes = append(s.routes, r)
	}
	return s
}

func (s situation) plan() plan { return makePlan(desire(s.members, clusterCIDRs), s.routes, s.can) }

// after returns the cloud's routes after an action that succeeded.
func (s situation) after(a action) situation {
	switch a.kind {
	case remove:
		s.routes = slices.DeleteFunc(slices.Clone(s.routes), func(r *cloudprovider.Route) bool { return r == a.old })
	case replace:
		s.routes = slices.Clone(s.routes)
		s.routes[slices.Index(s.routes, a.old)] = a.wanted()
	default:
		s.routes = slices.DeleteFunc(slices.Clone(s.routes), func(r *cloudprovider.Route) bool { return r == a.old })
		made := a.wanted()
		made.Name, made.EnableNodeAddresses = fmt.Sprintf("made-%s-%s", a.want.node, a.want.destination), s.addressed
		s.routes = append(s.routes, made)
	}
	return s
}

// steps returns the situation at the beginning and after each action.
func (s situation) steps() []situation {
	planned := s.plan()
	all := []situation{s}
	for _, a := range append(slices.Clone(planned.removals), planned.makes...) {
		all = append(all, all[len(all)-1].after(a))
	}
	return all
}

func (s situation) member(name types.NodeName) (member, bool) {
	i := slices.IndexFunc(s.members, func(m member) bool { return m.node.Name == string(name) })
	if i < 0 {
		return member{}, false
	}
	return s.members[i], true
}

// has reports whether the node has the CIDR, in any spelling.
func (m member) has(cidr string) bool {
	return slices.ContainsFunc(m.node.Spec.PodCIDRs, func(own string) bool { return canonical(own) == canonical(cidr) })
}

func canonical(cidr string) string {
	if prefix, err := netip.ParsePrefix(cidr); err == nil {
		return prefix.Masked().String()
	}
	return cidr
}

// equalAsSets compares as the reference does.
func equalAsSets(a, b []corev1.NodeAddress) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(addr corev1.NodeAddress) bool { return !slices.Contains(b, addr) })
}

// inClusterCIDRs is a second opinion: each address of the CIDR's ends is inside one and the same range.
func inClusterCIDRs(cidr string) bool {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return false
	}
	first := prefix.Masked().Addr()
	last := first.AsSlice()
	for bit := prefix.Bits(); bit < len(last)*8; bit++ {
		last[bit/8] |= 1 << (7 - bit%8)
	}
	end, _ := netip.AddrFromSlice(last)
	return slices.ContainsFunc(clusterCIDRs, func(r netip.Prefix) bool { return r.Contains(first) && r.Contains(end) })
}

func TestAppliedPlanLeavesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := drawSituation(t).steps()
		if again := steps[len(steps)-1].plan(); len(again.removals)+len(again.makes) > 0 {
			t.Fatalf("a second plan: %q", lines(again))
		}
	})
}

func TestPlanDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSituation(t)
		shuffled := s
		shuffled.members = rapid.Permutation(s.members).Draw(t, "members")
		shuffled.routes = rapid.Permutation(s.routes).Draw(t, "routes")
		if diff := cmp.Diff(lines(s.plan()), lines(shuffled.plan())); diff != "" {
			t.Fatalf("another order, another plan:\n%s", diff)
		}
	})
}

// Nothing is touched outside the cluster CIDRs, nothing that delivers to the pods of a node that is not ours by that node, and
// nothing that the cloud did not list: routes of other clusters are not in the list.
func TestPlanTouchesOnlyWhatIsOurs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSituation(t)
		planned := s.plan()
		for _, a := range append(slices.Clone(planned.removals), planned.makes...) {
			if a.want != nil {
				m, found := s.member(a.want.node)
				if !found || m.membership != ours && (m.membership != presumed || a.kind != create) || !m.has(a.want.cidr) {
					t.Fatalf("%q is for a node that is not ours or does not have that CIDR", a.line())
				}
			}
			if a.old == nil {
				continue
			}
			if !slices.Contains(s.routes, a.old) {
				t.Fatalf("%q touches a route that was not listed", a.line())
			}
			if !inClusterCIDRs(a.old.DestinationCIDR) {
				t.Fatalf("%q touches %s, outside the cluster CIDRs", a.line(), a.old.DestinationCIDR)
			}
			if m, found := s.member(a.old.TargetNode); found && m.membership != ours && m.has(a.old.DestinationCIDR) {
				t.Fatalf("%q touches the route of a node that is not ours", a.line())
			}
		}
	})
}

// TestRemovalsComeBeforeCreations: when a route is made, no other removable route leads to the same destination.
func TestRemovalsComeBeforeCreations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSituation(t)
		planned := s.plan()
		for _, a := range planned.removals {
			if a.kind != remove {
				t.Fatalf("%q is among the removals", a.line())
			}
			s = s.after(a)
		}
		for _, a := range planned.makes {
			if a.kind == remove {
				t.Fatalf("%q is among the makes", a.line())
			}
			for _, r := range s.routes {
				m, found := s.member(r.TargetNode)
				spared := found && m.membership != ours && m.has(r.DestinationCIDR)
				if r != a.old && canonical(r.DestinationCIDR) == canonical(a.want.cidr) && inClusterCIDRs(r.DestinationCIDR) && !spared {
					t.Fatalf("%q comes while %s leads there", a.line(), r.Name)
				}
			}
			s = s.after(a)
		}
	})
}

// A pod CIDR that a route delivers to, and one will deliver to, is never without, where the cloud can replace.
func TestReplacementLeavesNoGap(t *testing.T) {
	delivers := func(s situation, cidr string) bool {
		return slices.ContainsFunc(s.routes, func(r *cloudprovider.Route) bool {
			return canonical(r.DestinationCIDR) == canonical(cidr) && !r.Blackhole
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		s := drawSituation(t)
		s.can.replaces = true
		steps := s.steps()
		for _, m := range s.members {
			for _, cidr := range m.node.Spec.PodCIDRs {
				if m.membership != ours || !delivers(s, cidr) || !delivers(steps[len(steps)-1], cidr) {
					continue
				}
				for i, step := range steps {
					if !delivers(step, cidr) {
						t.Fatalf("after %d of %q there is no route to %s", i, lines(s.plan()), cidr)
					}
				}
			}
		}
	})
}

// TestAppliedPlanIsComplete: after a plan each want is met or reported as unmet, and routes that no node can want are deleted.
func TestAppliedPlanIsComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSituation(t)
		planned := s.plan()
		steps := s.steps()
		end := steps[len(steps)-1]
		unmet := map[string]bool{}
		for _, w := range planned.unmet {
			unmet[string(w.node)+" "+canonical(w.cidr)] = true
		}
		for _, m := range s.members {
			for _, cidr := range m.node.Spec.PodCIDRs {
				met := slices.ContainsFunc(end.routes, func(r *cloudprovider.Route) bool {
					return r.TargetNode == types.NodeName(m.node.Name) && canonical(r.DestinationCIDR) == canonical(cidr) && !r.Blackhole &&
						(!r.EnableNodeAddresses || equalAsSets(r.TargetNodeAddresses, m.node.Status.Addresses))
				})
				if m.membership == ours && met == unmet[m.node.Name+" "+canonical(cidr)] {
					t.Fatalf("node %s, pod CIDR %s: met: %t, and said to be so: %t", m.node.Name, cidr, met, !met)
				}
			}
		}
		for _, r := range end.routes {
			claimed := slices.ContainsFunc(s.members, func(m member) bool {
				return slices.ContainsFunc(m.node.Spec.PodCIDRs, func(cidr string) bool {
					return destinationOf(cidr).overlaps(destinationOf(r.DestinationCIDR))
				})
			})
			if _, known := s.member(r.TargetNode); inClusterCIDRs(r.DestinationCIDR) && !known && !claimed {
				t.Fatalf("the stale route %s to %s is still there", r.Name, r.DestinationCIDR)
			}
		}
	})
}

// No more routes are made than there is room for.
func TestPlanStaysWithinTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSituation(t)
		steps := s.steps()
		if most := max(s.can.maxRoutes, len(s.routes)); s.can.maxRoutes > 0 && len(steps[len(steps)-1].routes) > most {
			t.Fatalf("%d routes with a limit of %d", len(steps[len(steps)-1].routes), s.can.maxRoutes)
		}
	})
}
