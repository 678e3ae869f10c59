package route

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// epoch is when the first node of a test was made.
var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// clusterCIDRs are those of the reference's own test cases.
var clusterCIDRs = []netip.Prefix{netip.MustParsePrefix("10.120.0.0/16"), netip.MustParsePrefix("a00::/8")}

// node returns a member of ours with an address that follows from its name.
func node(name string, cidrs ...string) member {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Time{Time: epoch}},
		Spec:       corev1.NodeSpec{PodCIDRs: cidrs},
		Status:     corev1.NodeStatus{Addresses: addresses("addr-of-" + name)},
	}
	return member{node: n, membership: ours}
}

func (m member) as(s membership) member { m.membership = s; return m }

func (m member) created(age time.Duration) member {
	m.node.CreationTimestamp = metav1.Time{Time: epoch.Add(age)}
	return m
}

func (m member) leaving() member {
	m.node.DeletionTimestamp = &metav1.Time{Time: epoch}
	return m
}

func addresses(texts ...string) []corev1.NodeAddress {
	var all []corev1.NodeAddress
	for _, text := range texts {
		all = append(all, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: text})
	}
	return all
}

// route returns a route of a provider that knows nothing of addresses.
func route(name, cidr, target string) *cloudprovider.Route {
	return &cloudprovider.Route{Name: name, DestinationCIDR: cidr, TargetNode: types.NodeName(target)}
}

// addressed returns a route of a provider that looks at the addresses of its target.
func addressed(name, cidr, target string, addrs ...string) *cloudprovider.Route {
	r := route(name, cidr, target)
	r.EnableNodeAddresses, r.TargetNodeAddresses = true, addresses(addrs...)
	return r
}

func blackhole(name, cidr, target string) *cloudprovider.Route {
	r := route(name, cidr, target)
	r.Blackhole = true
	return r
}

// lines describes a plan for comparisons: removals, makes, then notices.
func lines(p plan) []string {
	var all []string
	for _, a := range append(append([]action{}, p.removals...), p.makes...) {
		all = append(all, a.line())
	}
	for _, n := range p.notices {
		all = append(all, fmt.Sprintf("%s %s %s", n.problem, n.want.node, n.want.cidr))
	}
	return all
}

func (a action) line() string {
	switch a.kind {
	case remove:
		return fmt.Sprintf("remove %s", a.old.Name)
	case create:
		return fmt.Sprintf("create %s by %s", a.want.cidr, a.want.node)
	default:
		return fmt.Sprintf("%s %s by %s", a.kind, a.old.Name, a.want.node)
	}
}
