package nodelifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
)

// show describes the actions of a plan, in order.
func show(planned plan) []string {
	var shown []string
	for _, action := range planned.actions {
		text := map[actionKind]string{
			markHeld: "hold", clearHeld: "release", addTaint: "taint", removeTaint: "untaint", deleteNode: "delete",
		}[action.kind] + " " + action.node.name
		if action.reason != "" {
			text += ": " + string(action.reason)
		}
		if action.cause != "" && action.cause != causeGone {
			text += ": " + string(action.cause)
		}
		shown = append(shown, text)
	}
	return shown
}

// rounds makes passes five seconds apart over unchanging nodes, in each of which the cloud says the same. It returns the decision of the last one.
func rounds(count int, nodes []facts, settings Settings, sayings ...saying) (plan, guard) {
	var planned plan
	var remembered guard
	for i := range count {
		now := today.Add(time.Duration(i) * 5 * time.Second)
		planned, remembered = decide(nodes, saidAt(now, sayings...), remembered, settings, now)
	}
	return planned, remembered
}

// Each row is a situation of the reference's tests, Test_NodesDeleted and Test_NodesShutdown of
// k8s.io/cloud-provider/controllers/nodelifecycle. What its clouds say by the two interfaces is the same here; how they are
// asked is tested in package instances. Beside the node there is one that the cloud knows, and two observations were made.
func TestSituationsOfTheReference(t *testing.T) {
	const no, unknown, yes = corev1.ConditionFalse, corev1.ConditionUnknown, corev1.ConditionTrue
	bare := func(n *corev1.Node) { n.Spec.ProviderID = "" }
	tests := []struct {
		name  string
		node  facts
		said  saying // nil: it is not asked for, or the answer is an error
		want  []string
		other string // why it differs from the reference
	}{
		{"node is not ready and does not exist", mine(node("a", no)), gone("a"), []string{"delete a"}, ""},
		{"node is not ready and provider returns err", mine(node("a", no)), nil, nil, ""},
		{"node is not ready but still exists", mine(node("a", no)), there(provider.InstanceRunning, "a"), nil, ""},
		{"node ready condition is unknown, node doesn't exist", mine(node("a", unknown)), gone("a"), []string{"delete a"}, ""},
		{"node ready condition is unknown, node exists", mine(node("a", unknown)), there(provider.InstanceRunning, "a"), nil, ""},
		{"node is ready, but provider said it is deleted (maybe a bug in provider)", mine(node("a", yes)), gone("a"), nil, ""},
		{"node is not ready and was shutdown, but exists", mine(node("a", no)), there(provider.InstanceStopped, "a"), []string{"taint a"}, ""},
		{
			"node with empty spec providerID is not ready and was shutdown, but exists", mine(node("a", no, uninitialized)),
			there(provider.InstanceStopped, "a"), []string{"taint a"}, "",
		},
		{
			"the same without the uninitialized taint", factsOf(node("a", no, bare), foreign), there(provider.InstanceStopped, "a"), nil,
			"a node that neither has a provider ID nor waits for one belongs to no cloud",
		},
		{
			"node with non-existing providerID (missing in cloud provider) gets deleted", mine(node("a", no, uninitialized)), gone("a"),
			[]string{"delete a"}, "",
		},
		{
			"the same without the uninitialized taint", factsOf(node("a", no, bare), foreign), gone("a"), nil,
			"a node that neither has a provider ID nor waits for one belongs to no cloud",
		},
		{
			"node with error when getting providerID does not have shutdown taint", mine(node("a", no, uninitialized)), nil, nil, "",
		},
		{
			"node with InstanceID returning InstanceNotFound gets deleted", mine(node("a", no, uninitialized)), gone("a"), []string{"delete a"}, "",
		},
		{
			"node is not ready, but there is error checking if node is shutdown", mine(node("a", no)), there(provider.InstanceStateUnknown, "a"),
			nil, "the reference's row is about a node that does not exist",
		},
		{"node is not ready and is not shutdown", mine(node("a", no)), gone("a"), []string{"delete a"}, ""},
		{"node is ready but provider says it's shutdown (maybe a bug by provider)", mine(node("a", yes)), there(provider.InstanceStopped, "a"), nil, ""},
		{"node is shutdown but provider says it does not exist", mine(node("a", unknown)), gone("a"), []string{"delete a"}, ""},
		{"ready again, the shutdown taint goes without asking", mine(node("a", yes, shutdownTainted)), nil, []string{"untaint a"}, ""},
		{"shut down and tainted already", mine(node("a", unknown, shutdownTainted)), there(provider.InstanceStopped, "a"), nil, ""},
		{
			"the instance runs again, the node is not ready yet", mine(node("a", unknown, shutdownTainted)), there(provider.InstanceRunning, "a"),
			[]string{"untaint a"}, "the reference waits until the node is ready",
		},
		{"a taint whose cloud does not say whether instances run", mine(node("a", unknown, shutdownTainted)),
			there(provider.InstanceStateUnknown, "a"), nil, ""},
		{"no Ready condition is as unknown", mine(node("a", "")), gone("a"), []string{"delete a"}, ""},
		{"foreign", factsOf(node("a", unknown, shutdownTainted), foreign), gone("a"), nil, "the reference has no notion of it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sayings := []saying{there(provider.InstanceRunning, "other")}
			if test.said != nil {
				sayings = append(sayings, test.said)
			}
			planned, _ := rounds(2, []facts{test.node, mine(node("other", yes))}, testSettings(), sayings...)
			if diff := cmp.Diff(test.want, show(planned)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}
