package node

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func TestAFingerprintChangesWithAllThatDecides(t *testing.T) {
	node, said := described()
	original := fingerprintOf(node, said)
	for range 20 { // maps have another order each time
		if fingerprintOf(node.DeepCopy(), said) != original {
			t.Fatal("equal nodes have different fingerprints")
		}
	}
	for name, change := range map[string]edit{
		"a heartbeat": func(n *corev1.Node) {
			n.ResourceVersion = "2"
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(time.Unix(9, 0))}}
		},
		"a foreign annotation": withAnnotation("x", "1"),
	} {
		if node, said := described(change); fingerprintOf(node, said) != original {
			t.Errorf("%s changes the fingerprint", name)
		}
	}
	for name, change := range map[string]edit{
		"the UID": func(n *corev1.Node) { n.UID = "other" }, "the provider ID": withID("sim://2"),
		"a label": withLabels("a", "c"), "one label more": withLabels("c", "d"), "labels that swap their values": withLabels("a", "7", "rack", "b"),
		"the taint": withTaints(cloudTaint), "the node IP": withNodeIP(""),
		"the opt-out": withAnnotation(ownership.AnnotationIgnore, "true"), "the proof": withAnnotation(ownership.AnnotationProven, "{}"),
		"no address": withAddresses(), "the order of the addresses": withAddresses(externalIP("192.0.2.1"), internalIP("10.0.0.1")),
	} {
		if node, said := described(change); fingerprintOf(node, said) == original {
			t.Errorf("%s does not change the fingerprint", name)
		}
	}
	for name, change := range map[string]func(*instances.Observation){
		"the status":      func(o *instances.Observation) { o.Status = instances.NoStatement },
		"the answered ID": func(o *instances.Observation) { o.Answered = "" },
		"the instance's":  func(o *instances.Observation) { o.Metadata.ProviderID = "sim://2" },
		"the type":        func(o *instances.Observation) { o.Metadata.InstanceType = "large" },
		"the zone":        func(o *instances.Observation) { o.Metadata.Zone = "z-2" },
		"the region":      func(o *instances.Observation) { o.Metadata.Region = "r-2" },
		"an address":      func(o *instances.Observation) { o.Metadata.NodeAddresses = o.Metadata.NodeAddresses[:1] },
	} {
		node, said := described()
		if change(&said); fingerprintOf(node, said) == original {
			t.Errorf("%s in the cloud does not change the fingerprint", name)
		}
	}
}

func refreshing() *reconciler {
	return &reconciler{owners: ownership.Rules{ProviderName: "sim"}, state: newState(), metrics: newMetrics(nil)}
}

func TestARefreshLooksAgainWhenSomethingHasChanged(t *testing.T) {
	r := refreshing()
	node, said := described()
	for range 2 {
		if r.differs(node, said) {
			t.Fatal("a node that is as the cloud says differs")
		}
	}
	if r.state.get(node).agreed != fingerprintOf(node, said) {
		t.Error("that the node is as the cloud says is not remembered")
	}
	if changed, _ := described(withLabels(corev1.LabelTopologyZone, "z-2")); !r.differs(changed, said) {
		t.Error("a node that was changed does not differ")
	}
	for _, zone := range []string{"z-2", "not a zone"} {
		said.Metadata.Zone = zone
		for range 2 {
			if !r.differs(node, said) {
				t.Errorf("a node whose instance is in zone %q now does not differ, each time that it is asked for", zone)
			}
		}
	}
}

// BenchmarkRefresh is the part of a refresh of 5,000 nodes that is ours: what is done with the cloud's answers.
func BenchmarkRefresh(b *testing.B) {
	const count = 5000
	nodes, answers := make([]*corev1.Node, count), make([]instances.Observation, count)
	for i := range nodes {
		nodes[i], answers[i] = described(func(n *corev1.Node) { n.Name = fmt.Sprintf("node-%04d", i) })
	}
	for name, forget := range map[string]bool{"unchanged": false, "first": true} {
		b.Run(name, func(b *testing.B) {
			r := refreshing()
			b.ReportAllocs()
			for b.Loop() {
				if forget {
					r.state = newState()
				}
				for i, node := range nodes {
					if r.differs(node, answers[i]) {
						b.Fatal("a node differs")
					}
				}
			}
		})
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
