package service

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/scenariotest"
)

// ingressOf makes addresses of a text: one a line, of IP, host name, mode and the error of a port.
func ingressOf(text string) (ingress []corev1.LoadBalancerIngress) {
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.TrimSuffix(line, "\n")+"||||", "|")
		entry := corev1.LoadBalancerIngress{IP: parts[0], Hostname: parts[1]}
		if parts[2] != "" {
			mode := corev1.LoadBalancerIPMode(parts[2])
			entry.IPMode = &mode
		}
		if parts[3] != "" {
			entry.Ports = []corev1.PortStatus{{Port: int32(len(parts[3])), Protocol: corev1.ProtocolTCP, Error: &parts[3]}}
		}
		ingress = append(ingress, entry)
	}
	return ingress
}

func conditionsOfOthers() []metav1.Condition {
	return []metav1.Condition{{Type: "example.com/Other", Status: metav1.ConditionTrue, Reason: "Other", LastTransitionTime: metav1.NewTime(noon)}}
}

// FuzzStatus has a plugin return any status for a Service that shows another one. What is written shows what was returned, leaves finalizers
// and conditions of others alone, and is not written a second time.
func FuzzStatus(f *testing.F) {
	f.Add("192.0.2.1|||\n", "")
	f.Add("192.0.2.1||Proxy|\n|lb.example.com||x\n", "192.0.2.1||VIP|\n")
	f.Add("not an address|not a name|Neither|\n", "192.0.2.1|||\n192.0.2.1|||\n")
	f.Add(strings.Repeat("2001:db8::1||VIP|\n", 100), "|||\n|||\n")
	f.Fuzz(func(t *testing.T, returned, shown string) {
		returned, shown = strings.ToValidUTF8(returned, "?"), strings.ToValidUTF8(shown, "?") // JSON of the API has no other text
		service := serviceWith(protected)
		service.Finalizers = append(service.Finalizers, "other/finalizer")
		service.Status.Conditions = conditionsOfOthers()
		service.Status.LoadBalancer.Ingress = normalized(ingressOf(shown)) // as the API server has it
		targets := targetsOf([]*corev1.Node{nodeWith("a")})
		seen := observed{service: service, made: madeFor(service, targets, ingressOf(returned)...)}
		want := desired{intent: provide, inputs: service, settled: targets, latest: targets}
		for _, act := range planFor(want, seen, noon) {
			if act.verb != verbPublish {
				t.Fatalf("it plans to %s", act.verb)
			}
			act.service = service
			patch, err := patchFor(act)
			if err != nil {
				t.Fatal(err)
			}
			if seen.service, err = scenariotest.Patched(service, &corev1.Service{}, patch); err != nil {
				t.Fatalf("the patch does not fit: %v", err)
			}
		}
		if !sameIngress(seen.service.Status.LoadBalancer.Ingress, ingressOf(returned)) {
			t.Errorf("it shows %v of %q", seen.service.Status.LoadBalancer.Ingress, returned)
		}
		if !equality.Semantic.DeepEqual(service.Finalizers, seen.service.Finalizers) ||
			!equality.Semantic.DeepEqual(conditionsOfOthers(), withCondition(seen.service.Status.Conditions, nil)) {
			t.Errorf("of others: %v, %v", seen.service.Finalizers, seen.service.Status.Conditions)
		}
		seen.made.unpublished = false
		if again := planFor(want, seen, noon); len(again) > 0 {
			t.Errorf("it plans %v again", verbs(again))
		}
	})
}
