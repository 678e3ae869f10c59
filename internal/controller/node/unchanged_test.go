package node

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// described is a node with what its instance is like, in agreement.
func described(edits ...edit) (*corev1.Node, instances.Observation) {
	node := newNode(append([]edit{
		withID("sim://1"), allLabels("small", "z-1", "r-1"), withLabels("rack", "7", "a", "b"),
		withAddresses(internalIP("10.0.0.1"), externalIP("192.0.2.1")),
	}, edits...)...)
	return node, instances.Observation{Status: instances.Found, Answered: "sim://1", Metadata: cloudprovider.InstanceMetadata{
		ProviderID: "sim://1", InstanceType: "small", Zone: "z-1", Region: "r-1",
		NodeAddresses: addresses(internalIP("10.0.0.1"), externalIP("192.0.2.1")),
	}}
}

func refreshing() *reconciler {
	return newReconciler(Options{Owners: ownership.Rules{ProviderName: "sim"}})
}

func TestARefreshLooksAgainWhenSomethingHasChanged(t *testing.T) {
	r := refreshing()
	node, said := described()
	differs := func(node *corev1.Node) bool { return r.differs(node, r.owners.Decide(node), said) }
	if differs(node) {
		t.Fatal("a node that is as the cloud says differs")
	}
	if len(r.state.rows) > 0 {
		t.Error("a node that is as the cloud says is remembered")
	}
	if changed, _ := described(withLabels(corev1.LabelTopologyZone, "z-2")); !differs(changed) {
		t.Error("a node that was changed does not differ")
	}
	for _, zone := range []string{"z-2", "not a zone"} {
		said.Metadata.Zone = zone
		for range 2 {
			if !differs(node) {
				t.Errorf("a node whose instance is in zone %q now does not differ, each time that it is asked for", zone)
			}
		}
	}
}

// What the refresh found is looked at also where the cache shows no more than our own write.
func TestARefreshCountsAfterOurOwnWrite(t *testing.T) {
	r, now := refreshing(), time.Unix(0, 0)
	node, said := described(func(n *corev1.Node) { n.ResourceVersion = "2" })
	r.state.passed(node, result{kind: initialized, wrote: "2"}, now)
	said.Metadata.Zone = "z-2"
	if !r.differs(node, r.owners.Decide(node), said) {
		t.Fatal("the node does not differ")
	}
	if _, over, _ := r.state.begin(node, now); over {
		t.Error("the pass over the node is over before it began")
	}
}

// BenchmarkRefresh is the part of a refresh of 5,000 nodes that is ours: what is done with the cloud's answers.
func BenchmarkRefresh(b *testing.B) {
	const count = 5000
	nodes, answers := make([]*corev1.Node, count), make([]instances.Observation, count)
	for i := range nodes {
		nodes[i], answers[i] = described(func(n *corev1.Node) { n.Name = fmt.Sprintf("node-%04d", i) })
	}
	r := refreshing()
	b.ReportAllocs()
	for b.Loop() {
		for i, node := range nodes {
			if r.differs(node, r.owners.Decide(node), answers[i]) {
				b.Fatal("a node differs")
			}
		}
	}
}

// BenchmarkHeartbeats is what the heartbeats of 5,000 nodes cost.
func BenchmarkHeartbeats(b *testing.B) {
	node, _ := described()
	next, _ := described(func(n *corev1.Node) { n.ResourceVersion = "2" })
	b.ReportAllocs()
	for b.Loop() {
		for range 5000 {
			if matters(node, next) {
				b.Fatal("a heartbeat matters")
			}
		}
	}
}
