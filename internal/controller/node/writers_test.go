package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

// refreshAll has the cloud asked as the refresh asks it, and makes passes over the nodes that differ.
func (s *small) refreshAll(t *testing.T, names ...string) map[string]*corev1.Node {
	t.Helper()
	time.Sleep(time.Minute)
	nodes := map[string]*corev1.Node{}
	var all []*corev1.Node
	for _, name := range names {
		nodes[name] = s.node(t, name)
		all = append(all, nodes[name])
	}
	var differ []string
	s.inventory.LookupEach(t.Context(), all, 0, func(node *corev1.Node, observation instances.Observation, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if s.differs(node, s.owners.Decide(node), observation) {
			differ = append(differ, node.Name)
		}
	})
	for _, name := range differ {
		nodes[name], _ = s.pass(t, name)
	}
	return nodes
}

// liveNodes is the API server's view of nodes: with the record of who set which field.
type liveNodes struct {
	client.Reader
	entries []metav1.ManagedFieldsEntry
	reads   int
	fails   error
}

func (r *liveNodes) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	r.reads++
	if r.fails != nil {
		return r.fails
	}
	err := r.Reader.Get(ctx, key, into, options...)
	into.SetManagedFields(r.entries)
	return err
}

// managed is an entry of the managed fields.
func managed(manager string, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
}

const (
	setsZone      = `{"f:metadata":{"f:labels":{".":{},"f:topology.kubernetes.io/zone":{}}}}`
	setsAddresses = `{"f:status":{"f:addresses":{"k:{\"type\":\"InternalIP\"}":{".":{},"f:address":{}}}}}`
)

// TestAZoneStaysUnlessAManagerOfTheCloudWroteIt: the controller overwrites a differing zone only if managed fields show a manager of the cloud as its
// writer. It looks up the writer once for each value.
func TestAZoneStaysUnlessAManagerOfTheCloudWroteIt(t *testing.T) {
	for name, test := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		"this manager":                     {[]metav1.ManagedFieldsEntry{managed(fieldManager, setsZone)}, "cloud"},
		"the manager before":               {[]metav1.ManagedFieldsEntry{managed("cloud-controller-manager", setsZone), managed("kubelet", setsAddresses)}, "cloud"},
		"a user":                           {[]metav1.ManagedFieldsEntry{managed("kubectl-label", setsZone)}, "by-hand"},
		"a user beside this manager":       {[]metav1.ManagedFieldsEntry{managed(fieldManager, setsZone), managed("kubectl-apply", setsZone)}, "by-hand"},
		"this manager wrote other fields":  {[]metav1.ManagedFieldsEntry{managed(fieldManager, setsAddresses)}, "by-hand"},
		"no record":                        {nil, "by-hand"},
		"a record that cannot be read":     {[]metav1.ManagedFieldsEntry{managed(fieldManager, `{"f:metadata":[]}`)}, "by-hand"},
		"a record without fields":          {[]metav1.ManagedFieldsEntry{{Manager: fieldManager}}, "by-hand"},
		"an unnamed manager":               {[]metav1.ManagedFieldsEntry{managed("vendor-cloud-controller-manager", setsZone)}, "by-hand"},
		"this manager, for another object": {[]metav1.ManagedFieldsEntry{managed(fieldManager, `{"f:metadata":{"f:labels":{"f:zone":{}}}}`)}, "by-hand"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSmall(interceptor.Funcs{}, newNode(withID("sim://0"), withLabels(corev1.LabelTopologyZone, "by-hand"), withAddresses(internalIP("10.0.0.1"))))
				live := &liveNodes{Reader: s.Client, entries: test.entries}
				s.live = live
				s.cloud.show = []provider.Instance{instance("sim://0", "node0", "cloud", internalIP("10.0.0.1"))}
				for range 5 {
					s.refreshAll(t, "node0")
				}
				if zone := s.node(t, "node0").Labels[corev1.LabelTopologyZone]; zone != test.want || live.reads != 1 {
					t.Errorf("the zone is %q after %d reads, want %q after one", zone, live.reads, test.want)
				}
				if events := s.eventsSince(); len(events) > 0 {
					t.Errorf("events %q, want none", events)
				}
			})
		})
	}
}

// An API server that does not say who wrote a label holds back that label and nothing else.
func TestALabelWaitsForItsWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSmall(interceptor.Funcs{}, newNode(withID("sim://0"), withLabels(corev1.LabelTopologyZone, "old"), withAddresses(internalIP("10.0.0.9"))))
		live := &liveNodes{Reader: s.Client, fails: errors.New("no answer"), entries: []metav1.ManagedFieldsEntry{managed(fieldManager, setsZone)}}
		s.live = live
		s.cloud.show = []provider.Instance{instance("sim://0", "node0", "cloud", internalIP("10.0.0.1"))}
		node := s.refreshAll(t, "node0")["node0"]
		if node.Labels[corev1.LabelTopologyZone] != "old" || node.Status.Addresses[0] != internalIP("10.0.0.1") {
			t.Errorf("the node has the zone %q and the addresses %v", node.Labels[corev1.LabelTopologyZone], node.Status.Addresses)
		}
		live.fails = nil
		if node := s.refreshAll(t, "node0")["node0"]; node.Labels[corev1.LabelTopologyZone] != "cloud" {
			t.Errorf("the zone is %q after the next answer", node.Labels[corev1.LabelTopologyZone])
		}
	})
}

// Another writer replaces the addresses each time that they were written. Each answer of the cloud is written once.
func TestEachAnswerIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSmall(interceptor.Funcs{}, newNode(withID("sim://0")))
		s.cloud.show = []provider.Instance{instance("sim://0", "node0", "", internalIP("10.0.0.1"))}
		for round := range 5 {
			if node := s.refreshAll(t, "node0")["node0"]; len(node.Status.Addresses) != 1 || node.Status.Addresses[0] != internalIP("10.0.0.1") {
				t.Fatalf("round %d: the addresses are %v by an answer of the cloud", round, node.Status.Addresses)
			}
			for range 5 {
				other := s.node(t, "node0")
				other.Status.Addresses = addresses(internalIP("172.16.0.1"))
				if err := s.Client.Status().Update(t.Context(), other); err != nil {
					t.Fatal(err)
				}
				if node, result := s.pass(t, "node0"); node.Status.Addresses[0] != internalIP("172.16.0.1") || result.RequeueAfter != 0 {
					t.Fatalf("round %d: the addresses are %v by the same answer again, and the node is tried again after %s", round, node.Status.Addresses, result.RequeueAfter)
				}
			}
		}
	})
}

// An answer with a host name only is written as any other, as with the reference.
func TestAnAnswerWithoutIPsIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSmall(interceptor.Funcs{}, newNode(withID("sim://0"), readyNow(corev1.ConditionTrue), withAddresses(internalIP("10.0.0.1"), hostName("node0"))))
		s.cloud.show = []provider.Instance{instance("sim://0", "node0", "", hostName("node0"))}
		node := s.refreshAll(t, "node0")["node0"]
		if diff := cmp.Diff(addresses(hostName("node0")), node.Status.Addresses); diff != "" {
			t.Errorf("addresses (-want +got):\n%s", diff)
		}
		s.cloud.show = []provider.Instance{instance("sim://0", "node0", "")}
		if after := s.refreshAll(t, "node0")["node0"]; after.ResourceVersion != node.ResourceVersion {
			t.Errorf("the node has the addresses %v by an answer without any", after.Status.Addresses)
		}
	})
}

// The plugin's word on an ID counts: it may spell the kubelet's in another way, or answer without one, and the kubelet's stays.
func TestANodeIsInitializedWhateverItsIDIsSpelledLike(t *testing.T) {
	for has, answered := range map[string]string{
		"zone/node0": "sim://zone/node0", "SIM://zone/node0": "sim://zone/node0", "sim:///zone/node0": "sim://zone/NODE0", "other://node0": "sim://zone/node0",
		"bare": "",
	} {
		t.Run(has, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, plain := newSmall(interceptor.Funcs{}, newNode(withTaints(cloudTaint), withID(has))), newPlainCloud()
				plain.answer["node0"] = metadataWith(answered)
				s.inventory = instances.New(instances.Options{Cloud: plain})
				node, _ := s.pass(t, "node0")
				if ownership.Uninitialized(node) || node.Spec.ProviderID != has || len(node.Status.Addresses) != 1 {
					t.Errorf("the node is %+v with the addresses %v", node.Spec, node.Status.Addresses)
				}
			})
		})
	}
}

// A node changes in a way that matters while the cloud takes its time: what is sent is planned for the newer version.
func TestAWriteThatIsKnownToBeOutdatedIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := joining(nil, ownership.Uninitialized)
		s.cloud.asked = func() {
			node := s.node(t, "node0")
			node.Spec.Taints = append([]corev1.Taint{{Key: "new", Effect: corev1.TaintEffectNoSchedule}}, node.Spec.Taints...)
			withLabels("new", "1")(node)
			if err := s.Client.Update(t.Context(), node); err != nil {
				t.Error(err)
			}
			w.all = nil
		}
		node, _ := s.pass(t, "node0")
		if ownership.Uninitialized(node) || len(node.Spec.Taints) != 2 || node.Labels["new"] != "1" || s.cloud.listings != 1 {
			t.Errorf("the node is %+v with the labels %v after %d questions", node.Spec, node.Labels, s.cloud.listings)
		}
		if diff := cmp.Diff([]string{"update status", "update"}, w.all); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	})
}
