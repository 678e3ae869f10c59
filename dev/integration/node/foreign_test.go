package node_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// declaring is a plain plugin that declares its schemes.
type declaring struct{ *plainPlugin }

func (d declaring) Capabilities() provider.Capabilities {
	return provider.Capabilities{ProviderIDSchemes: []string{"plain", "plain-metal"}}
}

// Foreign nodes are neither written nor asked for, whether they wait for an initialization or not.
func TestForeignNodesAreLeftAlone(t *testing.T) {
	cloud := declaring{plain()}
	m := start(t, options{Cloud: cloud, Refresh: often, Pool: "ours"})
	ours := map[string]string{"pool": "ours", corev1.LabelFailureDomainBetaZone: "z", corev1.LabelTopologyZone: "other"}
	foreign := map[string]nodeagent.Options{
		"ignored":      {Name: "ignored", Labels: ours},
		"not-selected": {Name: "not-selected", Labels: map[string]string{"pool": "theirs"}},
		"other-scheme": {Name: "other-scheme", Labels: ours, ProviderID: "aws:///z/i-1"},
	}
	for name, o := range foreign {
		if name == "ignored" {
			createIgnored(t, o)
			continue
		}
		join(t, o)
	}
	join(t,
		nodeagent.Options{Name: "mine", Labels: ours},
		nodeagent.Options{Name: "mine-too", Labels: ours, ProviderID: "plain-metal://7"},
	)
	waitInitialized(t, "mine")
	waitInitialized(t, "mine-too")
	for name := range foreign { // now as nodes that another controller has initialized, with outdated labels
		change(t, name, func(n *corev1.Node) { n.Spec.Taints = nil })
	}
	passes := m.Metric(t, "mooring_node_refresh_duration_seconds")
	poll.Until(t, "three refreshes pass", func(context.Context) error {
		if done := m.Metric(t, "mooring_node_refresh_duration_seconds") - passes; done < 3 {
			return fmt.Errorf("%v have", done)
		}
		return nil
	})
	for name := range foreign {
		done, asked, events := writes(t, m)[name], cloud.counts()[name], eventsOf(t, name)
		if len(done) > 0 || asked > 0 || len(events) > 0 {
			t.Errorf("%s: writes %v, %d calls of the cloud, events %q; want none", name, done, asked, events)
		}
	}
	if got := m.Metric(t, "mooring_node_uninitialized"); got != 0 {
		t.Errorf("mooring_node_uninitialized is %v, want 0", got)
	}
}

// createIgnored registers a node that carries the annotation from the beginning.
func createIgnored(t *testing.T, o nodeagent.Options) {
	t.Helper()
	t.Cleanup(func() { deleteNodes(t, []nodeagent.Options{o}) })
	_, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: o.Name, Labels: o.Labels, Annotations: map[string]string{ownership.AnnotationIgnore: "true"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
}

// Two managers with different providers share a cluster. Each initializes and refreshes its own nodes, and never writes to
// the other's.
func TestTwoManagersShareACluster(t *testing.T) {
	simulated, ours := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	theirs := newPlain("other", func(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
		if !strings.HasPrefix(n.Spec.ProviderID, "other://") {
			return nil, cloudprovider.InstanceNotFound
		}
		return &cloudprovider.InstanceMetadata{ProviderID: n.Spec.ProviderID, Zone: "other-1a"}, nil
	})
	const second = "other-cloud-controller-manager"
	rules, err := admin.RbacV1().ClusterRoles().Get(t.Context(), "mooring:cloud-controller-manager", metav1.GetOptions{})
	must.NoError(t, err)
	bind(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: second}, Rules: rules.Rules}, second)
	mine := start(t, options{Cloud: ours, Refresh: often})
	other := start(t, options{Cloud: theirs, Refresh: often, Account: second})

	join(t,
		nodeagent.Options{Name: "node-001", ProviderID: "sim://i-00000001"},
		nodeagent.Options{Name: "node-002", ProviderID: "sim://i-00000002"},
		nodeagent.Options{Name: "other-1", ProviderID: "other://1"},
		nodeagent.Options{Name: "node-003", ProviderID: "other://3"},
	)
	for name, zone := range map[string]string{"node-001": "sim-1a", "node-002": "sim-1b", "other-1": "other-1a", "node-003": "other-1a"} {
		if got := waitInitialized(t, name).Labels[corev1.LabelTopologyZone]; got != zone {
			t.Errorf("%s is in zone %q, want %q", name, got, zone)
		}
	}
	for _, name := range []string{"node-001", "other-1"} {
		writeZone(t, name, "cloud-controller-manager", "wrong") // the manager before: what a user writes stays
	}
	waitFor(t, "node-001", "is back in its zone", hasLabel(corev1.LabelTopologyZone, "sim-1a"))
	waitFor(t, "other-1", "is back in its zone", hasLabel(corev1.LabelTopologyZone, "other-1a"))
	for _, m := range []struct {
		who     string
		manager *harness.Manager
		foreign []string
	}{
		{"the simulated cloud's manager", mine, []string{"other-1", "node-003"}},
		{"the other manager", other, []string{"node-001", "node-002"}},
	} {
		for _, name := range m.foreign {
			if done := writes(t, m.manager)[name]; len(done) > 0 {
				t.Errorf("%s wrote %v to %s", m.who, done, name)
			}
		}
	}
	for _, name := range []string{"node-001", "other-1"} {
		waitForEvent(t, name, "Normal Synced") // a manager posts events after its writes
	}
	if events := append(eventsOf(t, "node-001"), eventsOf(t, "other-1")...); len(events) != 2 {
		t.Errorf("events %q, want one success for each", events)
	}
	if calls := simulated.Service.Counts(); calls.Received() == 0 {
		t.Error("the simulated cloud was never asked: this test tests nothing")
	}
}

// A plugin that declares nothing is asked for every node, and its answer counts however it spells the node's provider ID.
func TestAnAnswerCountsWhateverTheScheme(t *testing.T) {
	cloud := newPlain("plain", func(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
		metadata := instanceOf(n)
		if strings.HasPrefix(n.Spec.ProviderID, "robot://") {
			metadata.ProviderID = n.Spec.ProviderID
		}
		return metadata, nil
	})
	m := start(t, options{Cloud: cloud})
	join(t,
		nodeagent.Options{Name: "robot-1", ProviderID: "robot://1"}, // answered exactly
		nodeagent.Options{Name: "alien-1", ProviderID: "alien://1"}, // answered with plain://alien-1
		nodeagent.Options{Name: "bare-1", ProviderID: "bare-1"},     // answered with plain://bare-1
	)
	proven := waitInitialized(t, "robot-1")
	if want := `{"provider":"plain","providerID":"robot://1"}`; proven.Annotations[ownership.AnnotationProven] != want {
		t.Errorf("the annotations are %v, want the record %s of the proof", proven.Annotations, want)
	}
	if decision := (ownership.Rules{ProviderName: "plain"}).Decide(proven); decision.Owner != ownership.Ours {
		t.Errorf("for the next leader the node is %s: %s", decision.Owner, decision.Reason())
	}
	for _, name := range []string{"alien-1", "bare-1"} {
		if record := waitInitialized(t, name).Annotations[ownership.AnnotationProven]; record != "" {
			t.Errorf("%s carries the record %s although the answer had another ID", name, record)
		}
	}
	if done := writes(t, m); len(done["robot-1"]) == 0 {
		t.Errorf("writes %v", done)
	}
}
