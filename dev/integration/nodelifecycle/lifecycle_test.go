package nodelifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/controller/nodelifecycle"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

func withID(scheme string) edit {
	return func(n *corev1.Node) { n.Spec.ProviderID = scheme + "://" + n.Name }
}

func TestNodesFollowTheirInstances(t *testing.T) {
	running, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(6)})
	names := join(t, corev1.ConditionTrue, 1, 6, tainted("example.com/gpu", ""))
	lost, off, silent, alsoLost := names[0], names[1], names[2], names[3]
	running.Delete(t, lost)
	running.Delete(t, alsoLost)
	running.Change(t, off, func(spec *api.InstanceSpec) { spec.Power = api.PowerOff })
	become(t, corev1.ConditionUnknown, lost, off, silent)
	become(t, corev1.ConditionFalse, alsoLost)
	m := start(t, options{Cloud: provider})

	waitGone(t, lost)
	waitForEvent(t, lost, "Normal DeletingNode: Deleting node "+lost)
	waitHeld(t, alsoLost, nodelifecycle.HoldKubeletReports)
	become(t, corev1.ConditionUnknown, alsoLost)
	waitGone(t, alsoLost)
	waitTainted(t, off, true)
	running.Change(t, off, func(spec *api.InstanceSpec) { spec.Power = api.PowerOn })
	waitTainted(t, off, false)
	running.Change(t, off, func(spec *api.InstanceSpec) { spec.Power = api.PowerOff })
	waitTainted(t, off, true)
	become(t, corev1.ConditionTrue, off) // what the cloud says counts no longer
	waitTainted(t, off, false)
	m.waitPasses(t, 3)

	want := map[string][]string{
		lost: {"delete 200"}, alsoLost: {"patch status 200", "delete 200"}, off: {"patch 200", "patch 200", "patch 200", "patch 200"},
	}
	if diff := cmp.Diff(want, only(m.writes(t), names)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	kept := waitFor(t, off, "keeps the taint of others", func(n *corev1.Node) error {
		if !hasTaint(n, "example.com/gpu") {
			return fmt.Errorf("the taints are %v", n.Spec.Taints)
		}
		return nil
	})
	if heldFor(kept) != nil {
		t.Errorf("the node shows a condition: %v", heldFor(kept))
	}
	for metric, want := range map[string]float64{
		"mooring_node_lifecycle_deletions_total": 2, "mooring_node_lifecycle_taints_total": 4, "mooring_node_lifecycle_held_nodes": 0,
		"mooring_node_lifecycle_deletions_in_window": 2, "mooring_node_lifecycle_deletion_limit": 3, "mooring_node_lifecycle_write_failures_total": 0,
	} {
		if got := m.Metric(t, metric); got != want {
			t.Errorf("%s is %v, want %v", metric, got, want)
		}
	}
}

// TestNodesDoNotWaitForThePeriod when a kubelet has become silent, or when the cloud has to confirm that an instance is gone.
func TestNodesDoNotWaitForThePeriod(t *testing.T) {
	running, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	names := join(t, corev1.ConditionTrue, 1, 3)
	lost, off := names[0], names[1]
	m := start(t, options{Cloud: provider, Period: time.Hour})
	poll.Until(t, "the first pass", func(context.Context) error {
		if m.passes(t) == 0 {
			return errors.New("it is not over")
		}
		return nil
	})
	running.Delete(t, lost)
	running.Change(t, off, func(spec *api.InstanceSpec) { spec.Power = api.PowerOff })
	become(t, corev1.ConditionUnknown, lost, off)
	waitGone(t, lost)
	waitTainted(t, off, true)
}

// only returns the writes to some nodes.
func only(writes map[string][]string, names []string) map[string][]string {
	some := map[string][]string{}
	for _, name := range names {
		if done, written := writes[name]; written {
			some[name] = done
		}
	}
	return some
}

func TestNothingIsAskedWhileAllNodesAreReady(t *testing.T) {
	running, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(5)})
	names := join(t, corev1.ConditionTrue, 1, 5)
	create(t, corev1.ConditionUnknown, []string{"stranger"}, withID("aws"))
	create(t, corev1.ConditionUnknown, []string{"of-no-cloud"})
	m := start(t, options{Cloud: provider})
	m.waitPasses(t, 6)
	if got := running.Service.Counts().Received(); got != 0 {
		t.Errorf("%d calls to the cloud in %d passes, want none", got, m.passes(t))
	}
	become(t, corev1.ConditionUnknown, names[0])
	poll.Until(t, "the watch has the node that is not ready", func(context.Context) error {
		if running.Service.Counts().Received(api.OpListInstances) == 0 {
			return errors.New("nothing was listed")
		}
		return nil
	})
	m.waitPasses(t, 6)
	counts := running.Service.Counts()
	if listings := counts.Received(api.OpListInstances); listings == 0 || listings > int64(m.passes(t)) || counts.Received() != listings {
		t.Errorf("%v calls in %d passes, want one listing in each that has a node that is not ready", counts.Operations, m.passes(t))
	}
	if diff := cmp.Diff(map[string][]string{}, only(m.writes(t), append(names, "stranger", "of-no-cloud"))); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestPlainPluginsAreAskedOncePerNodeAndPeriod(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		t.Run(fmt.Sprintf("legacy %t", legacy), func(t *testing.T) {
			plugin := newPlugin("plain", map[string]string{"off": isOff, "silent": runs, "broken": breaks, "ready": runs, "ready2": runs})
			plugin.legacy = legacy
			notReady := []string{"off", "silent", "broken", "lost"}
			create(t, corev1.ConditionUnknown, notReady, withID("plain"))
			create(t, corev1.ConditionTrue, []string{"ready", "ready2"}, withID("plain"))
			m := start(t, options{Cloud: plugin})
			waitGone(t, "lost")
			waitTainted(t, "off", true)
			m.waitPasses(t, 5)
			m.Stop()

			passes := m.passes(t) + 1 // the last one may have been cut off
			counts := plugin.counts()
			for _, name := range notReady {
				for _, method := range []string{"exists", "shutdown"} {
					if got := counts[method+" "+name]; got > passes {
						t.Errorf("%q was called %d times for %s in at most %d passes", method, got, name, passes)
					}
				}
			}
			if broken, off := counts["exists broken"], counts["exists off"]; broken >= off {
				t.Errorf("the cloud was asked %d times for the node for which it fails, and %d times for another: want pauses", broken, off)
			}
			if counts["exists lost"] < 2 || counts["shutdown lost"] != 0 || counts["shutdown broken"] != 0 {
				t.Errorf("calls %v: want two denials of the lost one, and no further question for it or for the broken one", counts)
			}
			for _, name := range []string{"ready", "ready2"} {
				if counts["exists "+name]+counts["shutdown "+name]+counts["metadata "+name] != 0 {
					t.Errorf("calls %v: want none for %s", counts, name)
				}
			}
			if got := present(t, "off", "silent", "broken", "ready", "ready2"); len(got) != 5 {
				t.Errorf("only %v are left", got)
			}
		})
	}
}

// Where nothing else confirms what the cloud says, ready nodes bear witness: of a plugin with the wrong credentials nothing is left.
func TestAPluginThatKnowsNoInstanceIsNotBelieved(t *testing.T) {
	plugin := newPlugin("plain", map[string]string{"w1": runs, "w2": runs, "w3": runs, "w4": runs})
	create(t, corev1.ConditionTrue, []string{"w1", "w2", "w3", "w4"}, withID("plain"))
	create(t, corev1.ConditionUnknown, []string{"lost"}, withID("plain"))
	find := plugin.lose()
	m := start(t, options{Cloud: plugin})
	waitHeld(t, "lost", nodelifecycle.HoldEveryInstanceGone)
	m.waitPasses(t, 5)
	if counts := plugin.counts(); counts["exists w1"] == 0 || counts["exists w3"] != 0 || counts["shutdown w1"] != 0 {
		t.Errorf("calls %v: want up to three witnesses to be asked, and only whether they exist", counts)
	}
	find()
	waitGone(t, "lost")
	if got := m.writes(t)["lost"]; !cmp.Equal(got, []string{"patch status 200", "delete 200"}) {
		t.Errorf("writes %v, want the condition once and the deletion", got)
	}
}

func TestNodesWithoutProviderID(t *testing.T) {
	running, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	join(t, corev1.ConditionTrue, 1, 1)
	running.Change(t, nodeName(2), func(spec *api.InstanceSpec) { spec.Power = api.PowerOff })
	create(t, corev1.ConditionUnknown, []string{"never-was", nodeName(2)}, uninitialized)
	create(t, corev1.ConditionFalse, []string{"lives"}, uninitialized)
	create(t, corev1.ConditionUnknown, []string{"of-no-cloud"})
	const grace = 3 * time.Second
	created := time.Now()
	m := start(t, options{Cloud: provider, Settings: func(s *nodelifecycle.Settings) { s.MinAge = grace }})
	waitGone(t, "never-was")
	if age := time.Since(created); age < grace-time.Second { // creation timestamps are of whole seconds
		t.Errorf("deleted after %s, within the grace of %s", age, grace)
	}
	waitTainted(t, nodeName(2), true)
	m.waitPasses(t, 3)
	if diff := cmp.Diff([]string{"lives", nodeName(2), "of-no-cloud"}, present(t, "lives", nodeName(2), "of-no-cloud")); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if got := m.writes(t); len(got["lives"])+len(got["of-no-cloud"]) != 0 {
		t.Errorf("writes %v: want none to nodes that live or are of no cloud", got)
	}
}

// A plugin that declares nothing is asked for nodes with any provider ID, and its denial counts; not for one that says that it is another
// provider's.
func TestThePluginsWordCountsWhateverTheScheme(t *testing.T) {
	plugin := newPlugin("plugin", map[string]string{"known": runs, "witness": runs})
	create(t, corev1.ConditionTrue, []string{"witness"}, withID("plugin"))
	create(t, corev1.ConditionUnknown, []string{"known", "lost"}, withID("odd"))
	create(t, corev1.ConditionUnknown, []string{"other"}, withID("aws"), func(n *corev1.Node) {
		n.Annotations = map[string]string{ownership.AnnotationProven: fmt.Sprintf(`{"provider":"aws","providerID":%q}`, n.Spec.ProviderID)}
	})
	m := start(t, options{Cloud: plugin})
	waitGone(t, "lost")
	m.waitPasses(t, 3)
	if got := present(t, "known", "other"); len(got) != 2 || len(m.writes(t)["other"]) != 0 {
		t.Errorf("%v are left, writes %v", got, m.writes(t))
	}
}

// interceptor lets a test act right before a request of the manager is sent.
type interceptor struct {
	http.RoundTripper
	before func(*http.Request)
}

func (i interceptor) RoundTrip(request *http.Request) (*http.Response, error) {
	i.before(request)
	return i.RoundTripper.RoundTrip(request)
}

func TestOnlyTheNodeThatWasDecidedAboutIsDeleted(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, name string){
		"another node of its name": func(t *testing.T, name string) {
			remove(t, name)
			create(t, corev1.ConditionTrue, []string{name}, withID("plain"))
		},
		"ready again": func(t *testing.T, name string) { become(t, corev1.ConditionTrue, name) },
	} {
		t.Run(name, func(t *testing.T) {
			plugin := newPlugin("plain", map[string]string{"witness": runs})
			create(t, corev1.ConditionTrue, []string{"witness"}, withID("plain"))
			create(t, corev1.ConditionUnknown, []string{"lost"}, withID("plain"))
			var once sync.Once
			m := start(t, options{Cloud: plugin, Transport: func(next http.RoundTripper) http.RoundTripper {
				return interceptor{next, func(request *http.Request) {
					if request.Method == http.MethodDelete && strings.HasSuffix(request.URL.Path, "/nodes/lost") {
						once.Do(func() { meanwhile(t, "lost") })
					}
				}}
			}})
			poll.Until(t, "an attempt to delete the node", func(context.Context) error {
				if got := m.writes(t)["lost"]; len(got) == 0 {
					return fmt.Errorf("there was none")
				}
				return nil
			})
			m.waitPasses(t, 5)
			// A manager whose watch lags behind decides about the old node once more.
			if done := m.writes(t)["lost"]; len(done) == 0 || slices.ContainsFunc(done, func(write string) bool { return write != "delete 409" }) {
				t.Errorf("writes %v, want refused deletions only", done)
			}
			if len(present(t, "lost")) != 1 {
				t.Error("the node is gone")
			}
			if failed := strings.Join(eventsOf(t, "lost"), "\n"); strings.Contains(failed, "DeletingNodeFailed") {
				t.Errorf("a change before the write is reported as a failure:\n%s", failed)
			}
			if got := m.Metric(t, "mooring_node_lifecycle_deletions_in_window"); got != 0 {
				t.Errorf("%v deletions count against the limit, want none: nothing was deleted", got)
			}
		})
	}
}

func TestTwoManagersLeaveEachOthersNodesAlone(t *testing.T) {
	running, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	rack := newPlugin("rack", map[string]string{"r1": runs, "r2": isOff})
	clouds := join(t, corev1.ConditionTrue, 1, 3)
	create(t, corev1.ConditionTrue, []string{"r1", "r2", "r3"}, withID("rack"))
	create(t, corev1.ConditionUnknown, []string{"mine"}, withID("sim"), annotated("mooring.dev/ignore", "true"))
	running.Delete(t, clouds[0])
	become(t, corev1.ConditionUnknown, clouds[0], clouds[1], "r2", "r3")
	a := start(t, options{Cloud: provider})
	b := resume(t, options{Cloud: rack, Rules: ownership.Rules{Schemes: []string{"rack"}}, Account: otherAccount(t), Lease: "rack-node-deletions"})
	waitGone(t, clouds[0], "r3")
	waitTainted(t, "r2", true)
	a.waitPasses(t, 3)
	b.waitPasses(t, 3)
	names := append(clouds, "r1", "r2", "r3", "mine")
	if diff := cmp.Diff(map[string][]string{clouds[0]: {"delete 200"}}, only(a.writes(t), names)); diff != "" {
		t.Errorf("writes of the cloud's manager (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]string{"r2": {"patch 200"}, "r3": {"delete 200"}}, only(b.writes(t), names)); diff != "" {
		t.Errorf("writes of the rack's manager (-want +got):\n%s", diff)
	}
	if got := rack.counts(); got["exists "+clouds[0]]+got["exists "+clouds[1]]+got["exists mine"] != 0 {
		t.Errorf("the rack was asked for the cloud's nodes: %v", got)
	}
	leases, err := admin.CoordinationV1().Leases("kube-system").List(t.Context(), metav1.ListOptions{})
	must.NoError(t, err)
	for i := range leases.Items {
		if name := leases.Items[i].Name; strings.HasSuffix(name, "-node-deletions") && !strings.Contains(leases.Items[i].Annotations["mooring.dev/node-deletions"], `"count":1`) {
			t.Errorf("Lease %s has the annotations %v, want one deletion", name, leases.Items[i].Annotations)
		}
	}
}
