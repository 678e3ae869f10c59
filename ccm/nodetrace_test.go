package ccm_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/otlp"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	_ "github.com/mooring-ccm/mooring/providers/sim" // the test program may use it
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// traceOf returns the trace of a node: its spans by name, and its root.
func traceOf(received *otlp.Receiver, node string) (spans map[string]*tracepb.Span, root *tracepb.Span) {
	all := received.Spans()
	for _, span := range all {
		if len(span.ParentSpanId) == 0 && attributeOf(span, "k8s.node.name") == node {
			root = span
		}
	}
	spans = map[string]*tracepb.Span{}
	for _, span := range all {
		if root != nil && string(span.TraceId) == string(root.TraceId) {
			spans[span.Name] = span
		}
	}
	return spans, root
}

func attributeOf(span *tracepb.Span, key string) string {
	for _, attribute := range span.Attributes {
		if attribute.Key == key {
			return attribute.Value.GetStringValue()
		}
	}
	return ""
}

// simulated starts a simulated cloud with one instance, and returns it with the flags for it and for a control plane.
func simulated(t *testing.T, kubeconfig string) (*simtest.Cloud, []string) {
	t.Helper()
	cloud := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	return cloud, []string{
		"--cloud-provider=sim", "--cloud-config=" + cloud.ConfigFile, "--kubeconfig=" + kubeconfig, "--leader-elect=false",
	}
}

// join makes a node as a kubelet does that waits for its cloud.
func join(t *testing.T, client kubernetes.Interface, name string) *corev1.Node {
	t.Helper()
	taint := corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}
	node, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CoreV1().Nodes().Delete(cleanUp(t), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting node %s: %v", name, err)
		}
	})
	return node
}

// awaitInitialized waits until a node has lost its taint.
func awaitInitialized(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	poll.Until(t, "node "+name+" is initialized", func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ownership.Uninitialized(node) {
			return errors.New("it has its taint")
		}
		return nil
	})
}

// sayReady has a node say whether it is ready, as its kubelet does.
func sayReady(t *testing.T, client kubernetes.Interface, name string, status corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"KubeletSays","message":"",`+
		`"lastHeartbeatTime":%[2]q,"lastTransitionTime":%[2]q}]}}`, status, time.Now().UTC().Format(time.RFC3339))
	if _, err := client.CoreV1().Nodes().PatchStatus(t.Context(), name, []byte(patch)); err != nil {
		t.Fatal(err)
	}
}

// TestOneTraceFromTheAppearanceOfANodeToItsReadiness reads what the program exports about a node of a real API server.
func TestOneTraceFromTheAppearanceOfANodeToItsReadiness(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	spans := otlp.Start(t)
	cloud, args := simulated(t, kubeconfig)
	p := start(t, append(args, "--controllers=cloud-node-controller", "--secure-port=0", "--tracing-config-file="+spans.ConfigFile(t))...)
	join(t, client, "node-001")
	awaitInitialized(t, client, "node-001")
	// The instance of this one is new: no listing shows it yet.
	cloud.Create(t, cloudsim.DefaultInstance(2))
	node := join(t, client, "node-002")
	awaitInitialized(t, client, node.Name)
	// The controller ends the root after its last write. A node that is ready before that has no span of becoming ready.
	poll.Until(t, "the root is exported", func(context.Context) error {
		_, root := traceOf(spans, node.Name)
		return poll.Holds(root != nil)
	})
	sayReady(t, client, node.Name, corev1.ConditionTrue)
	poll.Until(t, "the trace is exported", func(context.Context) error {
		if found, _ := traceOf(spans, node.Name); found["node.become_ready"] == nil {
			return fmt.Errorf("it has %d spans", len(found))
		}
		return nil
	})
	p.signal(t, syscall.SIGTERM)
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}

	trace, root := traceOf(spans, node.Name)
	started := time.Unix(0, int64(root.StartTimeUnixNano))
	if root.Name != "node.initialize" || !started.Equal(node.CreationTimestamp.Time) {
		t.Errorf("the root is %s and begins at %v, want node.initialize from the node's creation at %v",
			root.Name, started, node.CreationTimestamp)
	}
	for child, parent := range map[string]string{
		"node.notice": "node.initialize", "node.queue": "node.initialize", "node.look_up": "node.initialize",
		"node.write_addresses": "node.initialize", "node.write_node": "node.initialize", "node.become_ready": "node.initialize",
		"cloud.ListInstances": "node.look_up",
	} {
		if trace[child] == nil {
			t.Errorf("there is no span %s", child)
			continue
		}
		if got, want := hex.EncodeToString(trace[child].ParentSpanId), hex.EncodeToString(trace[parent].SpanId); got != want {
			t.Errorf("the parent of %s is %s, want %s, which is %s", child, got, parent, want)
		}
	}
	for _, order := range [][2]string{
		{"node.notice", "node.queue"}, {"node.queue", "node.look_up"}, {"node.look_up", "node.write_addresses"},
		{"node.write_addresses", "node.write_node"}, {"node.write_node", "node.become_ready"},
	} {
		before, after := trace[order[0]], trace[order[1]]
		if before != nil && after != nil && before.EndTimeUnixNano > after.StartTimeUnixNano {
			t.Errorf("%s ends after %s begins", order[0], order[1])
		}
	}
	if got := attributeOf(root, "node.provider_id"); got != "sim://i-00000002" {
		t.Errorf("node.provider_id of the root = %q", got)
	}
}
