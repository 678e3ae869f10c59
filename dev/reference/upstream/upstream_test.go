package upstream_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/reference/upstream"
)

// source is a test file with what the evaluator has to know.
const source = `package harbor

import (
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	fakecloud "k8s.io/cloud-provider/fake"
)

const quay = "north"

type tweak func(n *v1.Node)

func newNode(name string, tweaks ...tweak) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, tw := range tweaks {
		tw(n)
	}
	return n
}

func taint(key string) tweak {
	return func(n *v1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key})
	}
}

func ready(is bool) tweak {
	var status v1.ConditionStatus
	if is {
		status = v1.ConditionTrue
	} else {
		status = v1.ConditionFalse
	}
	return func(n *v1.Node) {
		for i := range n.Status.Conditions {
			c := &n.Status.Conditions[i]
			if c.Type == v1.NodeReady {
				c.Status = status
				return
			}
		}
		n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: v1.NodeReady, Status: status})
		n.Labels["quay"] = quay
	}
}

func newController() (*Controller, *fakecloud.Cloud) {
	return start(clientset.New())
}

func TestTable(t *testing.T) {
	shared := newNode("shared", taint("anchored"))
	controller, cloud, _ := newController()
	type step struct {
		nodes []*v1.Node
		fails bool
	}
	for _, tc := range []struct {
		name  string
		node  *v1.Node
		cloud *fakecloud.Cloud
		steps []step
		wait  time.Duration
		err   error
		fn    func() (before *v1.Node, after *v1.Node)
		odd   chan int
	}{{
		name: "literals",
		node: &v1.Node{Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}}},
		cloud: &fakecloud.Cloud{Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.1"}}, MetadataErr: errors.New("fog")},
		wait: 2 * 30 * time.Second,
		err:  cloudprovider.InstanceNotFound,
	}, {
		name: "functions",
		node: newNode("n" + fmt.Sprintf("-%d", 7), ready(false), taint("a"), ready(true)),
		steps: []step{{nodes: []*v1.Node{shared}, fails: true}, {nodes: []*v1.Node{shared, newNode("other")}}},
		fn: func() (before *v1.Node, after *v1.Node) {
			before = shared
			after = before.DeepCopy()
			after.Name = "after"
			controller.enqueue(after)
			cloud.Err = fmt.Errorf("no wind")
			return
		},
	}, {
		name: "what no evaluator knows",
		node: strangeNode(),
		odd:  make(chan int),
	}} {
		t.Run(tc.name, func(t *testing.T) {})
	}
}

func TestAlone(t *testing.T) {
	node := newNode("alone")
	node.Spec.ProviderID = "harbor://alone"
}
`

func read(t *testing.T) *upstream.Package {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "harbor")
	must.NoError(t, os.Mkdir(dir, 0o755))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "harbor_test.go"), []byte(source), 0o600))
	return must.Value(upstream.Parse(dir))(t)
}

func TestTablesAreEvaluated(t *testing.T) {
	tests := read(t).Tests()
	cases := tests[0].Cases()
	if tests[0].Name != "TestTable" || len(cases) != 3 {
		t.Fatalf("%s has %d cases", tests[0].Name, len(cases))
	}

	r := cases[0].Read()
	cloud := must.Value(upstream.Value[*fake.Cloud](r, "cloud"))(t)
	node := must.Value(upstream.Value[*corev1.Node](r, "node"))(t)
	expect(t, "addresses", cloud.Addresses, []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}})
	expect(t, "error of the cloud", cloud.MetadataErr.Error(), "fog")
	expect(t, "taints", node.Spec.Taints, []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}})
	expect(t, "duration", must.Value(upstream.Value[time.Duration](r, "wait"))(t), time.Minute)
	if err := must.Value(upstream.Value[error](r, "err"))(t); err != cloudprovider.InstanceNotFound {
		t.Errorf("the error is %v", err)
	}
	expect(t, "a field that is not set", must.Value(upstream.Structs(r, "steps"))(t), nil)

	r = cases[1].Read()
	node = must.Value(upstream.Value[*corev1.Node](r, "node"))(t)
	expect(t, "name", node.Name, "n-7")
	expect(t, "label", node.Labels, map[string]string{"quay": "north"})
	expect(t, "conditions", node.Status.Conditions, []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}})
	steps := must.Value(upstream.Structs(r, "steps"))(t)
	expect(t, "steps", []any{len(steps), steps[0]["fails"], steps[1]["fails"]}, []any{2, true, false})
	pair := must.Value(upstream.Call[*corev1.Node](r, "fn"))(t)
	expect(t, "results", []string{pair[0].Name, pair[1].Name, pair[1].Spec.Taints[0].Key}, []string{"shared", "after", "anchored"})
	expect(t, "calls of a controller", len(r.Calls("enqueue")), 1)
	expect(t, "what a function has changed", must.Value(upstream.Value[*fake.Cloud](r, "cloud"))(t), nil) // a field that is not set, not the variable
}

func TestATestWithoutATableIsACase(t *testing.T) {
	cases := read(t).Tests()[1].Cases()
	node := must.Value(upstream.Value[*corev1.Node](cases[0].Read(), "node"))(t)
	expect(t, "provider ID", node.Spec.ProviderID, "harbor://alone")
}

// TestWhatIsNotReadSaysWhy reads fields that no evaluator knows.
func TestWhatIsNotReadSaysWhy(t *testing.T) {
	r := read(t).Tests()[0].Cases()[2].Read()
	_, err := upstream.Value[*corev1.Node](r, "node")
	must.ErrorContains(t, err, "node: not evaluated: the function strangeNode")
	_, err = upstream.Value[chan int](r, "odd")
	must.ErrorContains(t, err, "odd: not evaluated")
}

func expect[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
