package compare

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// environment is one of everything that facts are taken of.
func environment() (objects, Observation, []Call) {
	node := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"x": "1"}, Annotations: map[string]string{"y": "2"}},
		Spec: corev1.NodeSpec{
			ProviderID: "sim://1", Taints: []corev1.Taint{{Key: "t", Value: "v", Effect: corev1.TaintEffectNoExecute}},
		},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "10.0.0.2"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.1"},
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Up", Message: "It is up"}},
		},
	}
	service := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", Finalizers: []string{"f"}, DeletionTimestamp: &metav1.Time{},
		},
		Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7"}, Type: corev1.ServiceTypeLoadBalancer},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{
			Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}},
		}},
	}
	event := func(message string) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "web"},
			Type:           corev1.EventTypeNormal, Reason: "Done", Message: message, Source: corev1.EventSource{Component: "c"},
		}
	}
	repair := event("repairing")
	repair.Source.Component = "ipallocator-repair-controller"
	return objects{[]corev1.Node{node}, []corev1.Service{service}, []corev1.Event{event("b"), event("a"), repair, event("b")}},
		Observation{State: map[string]string{"disk/1": "attached"}},
		[]Call{{Action: "Read"}, {Action: "Write", Change: "one"}, {Action: "Write", Change: "two", Error: "Denied"}}
}

func TestFactsSayWhatThereIs(t *testing.T) {
	got := factsOf(environment())
	want := facts{
		"node/a/label/x": "1", "node/a/annotation/y": "2", "node/a/providerID": "sim://1", "node/a/unschedulable": "false",
		"node/a/taint/t:NoExecute": "v", "node/a/condition/Ready": "True Up It is up",
		"node/a/addresses":                "InternalIP 10.0.0.2\nInternalIP 10.0.0.1",
		"service/default/web/finalizer/f": "", "service/default/web/deleted": "",
		"service/default/web/ingress":           "[\n {\n  \"ip\": \"192.0.2.1\"\n }\n]",
		"service/default/web/spec":              "{\n \"type\": \"LoadBalancer\"\n}",
		"event/service/default/web/Normal/Done": "c: a\nc: b",
		"cloud/disk/1":                          "attached",
		"changes of the cloud":                  "Write one\nWrite two Denied",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

// AWS takes 32 letters of a name that begins with an a.
func TestUIDsAreReplacedWhereverTheyShow(t *testing.T) {
	var known identities
	known.add("service", metav1.ObjectMeta{Name: "web", UID: "01234567-89ab-cdef-0123-456789abcdef"})
	known.add("node", metav1.ObjectMeta{Name: "a", UID: "76543210-89ab-cdef-0123-456789abcdef"})
	for text, want := range map[string]string{
		"of 01234567-89ab-cdef-0123-456789abcdef and 76543210-89ab-cdef-0123-456789abcdef": "of <service web> and <node a>",
		"k8s-fw-a0123456789abcdef0123456789abcdef":                                         "k8s-fw-a<service web>",
		"a0123456789abcdef0123456789abcde-7.elb":                                           "a<service web>-7.elb",
		"0123456789abcdef":                                                                 "0123456789abcdef",
	} {
		if got := known.replacer().Replace(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	replaced := facts{"balancer/a0123456789abcdef0123456789abcdef": "x"}.normalized(known.replacer().Replace)
	if _, found := replaced["balancer/a<service web>"]; !found {
		t.Errorf("the names of facts are not replaced: %v", replaced)
	}
}

func TestTheOrderOfChangesCountsUnlessItSaysNothing(t *testing.T) {
	changes := func(lines ...string) facts { return facts{changesOfCloud: strings.Join(lines, "\n")} }
	for _, matters := range []bool{true, false} {
		one, other := changes("b", "a").ordered(matters), changes("a", "b").ordered(matters)
		if cmp.Equal(one, other) == matters {
			t.Errorf("order matters: %t; %v and %v", matters, one, other)
		}
	}
}
