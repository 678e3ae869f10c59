package node

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// managed is an entry of the managed fields, "f:metadata" and so on written out.
func managed(manager string, at int64, fields string) metav1.ManagedFieldsEntry {
	when := metav1.NewTime(time.Unix(at, 0))
	return metav1.ManagedFieldsEntry{Manager: manager, Time: &when, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
}

const (
	setsZone      = `{"f:metadata":{"f:labels":{"f:topology.kubernetes.io/zone":{}}}}`
	setsAddresses = `{"f:status":{"f:addresses":{"k:{\"type\":\"InternalIP\"}":{".":{},"f:address":{}}}}}`
)

func TestAPausedFieldIsLeftAlone(t *testing.T) {
	node := newNode(withLabels(corev1.LabelTopologyZone, "rack-7"), withAddresses(internalIP("10.0.0.1")))
	want := desired{
		addresses: addresses(internalIP("10.0.0.2")), additional: map[string]string{"example.com/a~b": "1"},
		wellKnown: map[string]string{corev1.LabelTopologyZone: "z", corev1.LabelFailureDomainBetaZone: "z"},
	}
	zone, added := fieldLabels+"/topology.kubernetes.io~1zone", fieldLabels+"/example.com~1a~0b"
	all := planFor(node, want, restraint{})
	if fields := all.fields(); len(fields) != 4 || fields[zone] != "z" || fields[added] != "1" || fields[fieldAddresses] != "[InternalIP 10.0.0.2]" {
		t.Errorf("the plan writes %v", fields)
	}
	planned := planFor(node, want, restraint{paused: map[string]bool{zone: true, added: true, fieldAddresses: true, fieldLabels + "/other": true}})
	if got, want := fmt.Sprint(planned.paused), fmt.Sprint([]string{fieldAddresses, added, zone}); got != want {
		t.Errorf("left alone are %s, want %s", got, want)
	}
	after := mustPatch(t, node, planned)
	if after.Labels[corev1.LabelTopologyZone] != "rack-7" || after.Labels[corev1.LabelFailureDomainBetaZone] != "z" ||
		after.Labels["example.com/a~b"] != "" || after.Status.Addresses[0] != internalIP("10.0.0.1") {
		t.Errorf("the node has the labels %v and the addresses %v", after.Labels, after.Status.Addresses)
	}
}

// liveNodes is the API server's view of nodes: with the record of who set which field.
type liveNodes struct {
	client.Reader
	entries []metav1.ManagedFieldsEntry
	reads   int
}

func (r *liveNodes) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	r.reads++
	err := r.Reader.Get(ctx, key, into, options...)
	into.SetManagedFields(r.entries)
	return err
}

// Another controller insists on another zone, or a kubelet on other addresses. For an hour it overwrites what we write within a second.
// The type, which nobody contests, changes every few minutes and is written at once all the while; so is all of another node.
func TestTwoWritersWhoDisagreeAreDamped(t *testing.T) {
	for name, test := range map[string]struct {
		overwrite func(*corev1.Node) bool
		manager   string
		says      string
	}{
		"about a label": {func(n *corev1.Node) bool {
			changed := n.Labels[corev1.LabelTopologyZone] != "rack-7"
			n.Labels[corev1.LabelTopologyZone] = "rack-7"
			return changed
		}, "rack-labeler", `the label topology.kubernetes.io/zone from "a" to "rack-7", by the field manager "rack-labeler", left alone for 30s`},
		"about the addresses": {func(n *corev1.Node) bool {
			changed := n.Status.Addresses[0] != internalIP("172.16.0.1")
			n.Status.Addresses = addresses(internalIP("172.16.0.1"))
			return changed
		}, "kubelet", `the addresses from [InternalIP 10.0.0.1] to [InternalIP 172.16.0.1], by the field manager "kubelet", left alone for 30s`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var nodes []*corev1.Node
				for _, name := range []string{"node0", "node1"} {
					nodes = append(nodes, newNode(withID("sim://"+name), func(n *corev1.Node) { n.Name, n.UID = name, types.UID(name) }))
				}
				s := newSmall(interceptor.Funcs{}, nodes...)
				live := &liveNodes{Reader: s.Client, entries: []metav1.ManagedFieldsEntry{
					managed(fieldManager, 9, `{}`), managed("rack-labeler", 8, setsZone), managed("kubelet", 8, setsAddresses),
				}}
				s.live = live
				generation := 0
				show := func() {
					generation++
					s.cloud.show = nil
					for _, name := range []string{"node0", "node1"} {
						shown := instance("sim://"+name, name, "a", internalIP("10.0.0.1"))
						shown.InstanceType = fmt.Sprint("type-", generation)
						s.cloud.show = append(s.cloud.show, shown)
					}
				}
				show()
				s.refreshAll(t, "node0", "node1")
				overwritten, due, refreshed := 0, time.Now(), time.Now()
				for start := time.Now(); time.Since(start) < time.Hour; time.Sleep(time.Second) {
					node := s.node(t, "node0")
					if changed := test.overwrite(node); changed {
						overwritten++
						status := node.DeepCopy()
						if err := s.Client.Update(t.Context(), node); err != nil {
							t.Fatal(err)
						}
						status.ResourceVersion = node.ResourceVersion
						if err := s.Client.Status().Update(t.Context(), status); err != nil {
							t.Fatal(err)
						}
						due = time.Now()
					}
					if !due.IsZero() && !time.Now().Before(due) {
						_, result := s.pass(t, "node0")
						due = time.Time{}
						if result.RequeueAfter > 0 {
							due = time.Now().Add(result.RequeueAfter)
						}
					}
					if time.Since(refreshed) >= 5*time.Minute {
						refreshed = time.Now()
						show()
						for name, node := range s.refreshAll(t, "node0", "node1") {
							if got, want := node.Labels[corev1.LabelInstanceTypeStable], fmt.Sprint("type-", generation); got != want {
								t.Errorf("%s after %s: type %q, want %q", name, time.Since(start), got, want)
							}
						}
						if node := s.node(t, "node1"); node.Labels[corev1.LabelTopologyZone] != "a" || node.Status.Addresses[0] != internalIP("10.0.0.1") {
							t.Errorf("the other node has the labels %v and the addresses %v", node.Labels, node.Status.Addresses)
						}
					}
				}
				got := s.eventsSince()
				t.Logf("overwritten %d times, %d events, %d reads", overwritten, len(got), live.reads)
				// Three in a row, then after 30 s, 1, 2, 4 and 8 min, and then every 10.
				if overwritten < 8 || overwritten > 14 {
					t.Errorf("what was written was overwritten %d times within an hour", overwritten)
				}
				if len(got) == 0 || len(got) > 7 || live.reads != len(got) || !strings.HasPrefix(got[0], "Warning ConflictingWriter ") ||
					!strings.Contains(got[0], test.says) {
					t.Errorf("%d reads, and the node got the events %q, want %q", live.reads, got, test.says)
				}

				_, result := s.pass(t, "node0") // the other writer is gone
				for range 3 {
					s.refreshAll(t, "node0", "node1")
					time.Sleep(result.RequeueAfter / 3)
				}
				if node, _ := s.pass(t, "node0"); node.Labels[corev1.LabelTopologyZone] != "a" || node.Status.Addresses[0] != internalIP("10.0.0.1") {
					t.Errorf("after the other writer has gone the node has the labels %v and the addresses %v", node.Labels, node.Status.Addresses)
				}
			})
		})
	}
}
