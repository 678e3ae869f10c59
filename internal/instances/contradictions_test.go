package instances_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

// Clouds do not always spell a provider ID as the node has it.
func TestProviderIDsInAnotherSpelling(t *testing.T) {
	const azure = "azure:///subscriptions/1/resourceGroups/Prod/vm/a"
	for name, test := range map[string]struct {
		listed []provider.Instance
		id     string
		want   string // the ID of the instance that is found
	}{
		"as it is":                           {instancesOf("sim:///z/a", "SIM:///Z/A"), "sim:///z/a", "sim:///z/a"},
		"in another case":                    {instancesOf("azure:///subscriptions/1/resourcegroups/prod/vm/a"), azure, "azure:///subscriptions/1/resourcegroups/prod/vm/a"},
		"with a slash more":                  {instancesOf("aws:///i-1"), "aws:////i-1", "aws:///i-1"},
		"in two spellings, neither of which": {instancesOf("sim:///z/a", "sim:///z//a"), "SIM:///z/a", ""},
		"another instance":                   {instancesOf("sim:///z/b"), "sim:///z/a", ""},
		"of a node of another name":          {[]provider.Instance{namedInstance("sim:///z/A", "other")}, "sim:///z/a", ""},
		"of a node of this name":             {[]provider.Instance{namedInstance("sim:///z/A", "a")}, "sim:///z/a", "sim:///z/A"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newListingCloud("healthy")
				for _, instance := range test.listed {
					cloud.instances[instance.ProviderID] = instance
				}
				inv := instances.New(instances.Options{Cloud: cloud})
				got := lookup(t, inv, nodeWithID("a", test.id), 0)
				if got.Answered != test.want || (got.Status == instances.Found) != (test.want != "") {
					t.Errorf("%s, the instance %q; want %q", got.Status, got.Answered, test.want)
				}
				if got := lookup(t, inv, node("healthy"), time.Minute); got.Answered != "sim://healthy" {
					t.Errorf("beside it the instance %q is found, want sim://healthy", got.Answered)
				}
			})
		})
	}
}

func instancesOf(ids ...string) (all []provider.Instance) {
	for _, id := range ids {
		all = append(all, namedInstance(id, ""))
	}
	return all
}

func namedInstance(id, name string) provider.Instance {
	instance := instanceFor(name)
	instance.ProviderID = id
	return instance
}

// What was denied while the node's kubelet went on reporting says nothing later, until the cloud has known the instance.
func TestDenialsThatAKubeletHasContradicted(t *testing.T) {
	type step struct {
		after  time.Duration
		ready  corev1.ConditionStatus
		silent bool // the kubelet has not reported since the step before
		listed bool
		want   bool
	}
	const yes, unknown = corev1.ConditionTrue, corev1.ConditionUnknown
	for name, steps := range map[string][]step{
		"denied while it was ready":            {{0, yes, false, false, false}, {5 * time.Minute, yes, false, false, true}, {time.Minute, unknown, true, false, true}},
		"never denied while it was ready":      {{0, yes, false, true, false}, {5 * time.Minute, unknown, true, false, false}, {time.Hour / 2, unknown, true, false, false}},
		"gone before its silence is noticed":   {{0, yes, false, false, false}, {40 * time.Second, yes, true, false, false}, {5 * time.Minute, unknown, true, false, false}},
		"its silence is noticed late":          {{0, yes, false, false, false}, {5 * time.Minute, yes, true, false, false}, {time.Minute, unknown, true, false, false}},
		"ready for longer than silence may be": {{0, yes, false, false, false}, {10 * time.Minute, yes, true, false, true}},
		"the cloud knows it now": {
			{0, yes, false, false, false}, {5 * time.Minute, yes, false, false, true}, {time.Minute, yes, false, true, false},
			{time.Minute, unknown, true, false, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newListingCloud("healthy")
				inv := instances.New(instances.Options{Cloud: cloud})
				reported := time.Now()
				for i, step := range steps {
					time.Sleep(step.after)
					if !step.silent {
						reported = time.Now()
					}
					cloud.remove("sim://a")
					if step.listed {
						cloud.add("a")
					}
					n := nodeWithID("a", "sim://a")
					n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: step.ready, LastHeartbeatTime: metav1.NewTime(reported)}}
					inv.StateEach(t.Context(), []*corev1.Node{n, readyNode("healthy")}, 0,
						func(n *corev1.Node, got instances.Observation, err error) {
							switch {
							case err != nil:
								t.Error(err)
							case n.Name == "healthy" && got.Status != instances.Found, got.Contradicted != (step.want && n.Name == "a"):
								t.Errorf("step %d: %s is %s, contradicted: %t", i, n.Name, got.Status, got.Contradicted)
							}
						})
				}
			})
		})
	}
}
