package service

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/provider"
)

var noon = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

func at(ip string) corev1.LoadBalancerIngress { return corev1.LoadBalancerIngress{IP: ip} }

func vip(ip string) corev1.LoadBalancerIngress {
	return corev1.LoadBalancerIngress{IP: ip, IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}
}

// reached gives a Service an address.
func reached(ip string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{vip(ip)} }
}

// provided gives a Service all that it has when there is nothing left to do.
func provided(s *corev1.Service) {
	protected(s)
	reached("192.0.2.1")(s)
	s.Status.Conditions = []metav1.Condition{{Type: ConditionReady, Status: metav1.ConditionTrue, Reason: ReasonProvided,
		Message: "The load balancer is as the Service asks", LastTransitionTime: metav1.NewTime(noon)}}
}

// madeFor is what was made for a Service, with the given targets and address.
func madeFor(service *corev1.Service, targets *targetSet, ingress ...corev1.LoadBalancerIngress) *made {
	return &made{service: service, lastEnsured: service, ensured: true, targets: targets.members,
		status: &corev1.LoadBalancerStatus{Ingress: ingress}, unpublished: true, baseline: &corev1.LoadBalancerStatus{Ingress: ingress}}
}

// wanting is what is desired of a Service.
func wanting(service *corev1.Service, known bool, targets *targetSet) desired {
	want := desired{intent: intentFor(service, Classes{Default: true}, known), settled: targets, latest: targets}
	if service != nil {
		want.inputs = service
	}
	return want
}

func verbs(plan []action) []verb {
	result := []verb{}
	for _, act := range plan {
		result = append(result, act.verb)
	}
	return result
}

// situation is what a plan is made for, and what it holds.
type situation struct {
	service *corev1.Service
	seen    observed
	targets *targetSet
	want    []verb
}

// situations are the ones that the reference's tests name, and some more.
func situations() map[string]situation {
	two := targetsOf([]*corev1.Node{nodeWith("a"), nodeWith("b")})
	three := targetsOf([]*corev1.Node{nodeWith("a"), nodeWith("b"), nodeWith("c")})
	none := targetsOf(nil)
	leavingOne := targetsOf([]*corev1.Node{nodeWith("a"), nodeWith("b", doomed)})
	udp := func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }
	bare := func(s *corev1.Service) { s.Finalizers = nil }
	nodePort := ofType(corev1.ServiceTypeNodePort)
	done := serviceWith(provided)
	withTwo := observed{made: madeFor(done, two, at("192.0.2.1"))}
	failed, drifted := madeFor(done, two, at("192.0.2.1")), withTwo
	failed.ensured, drifted.drift = false, []string{"x"}
	elsewhere := madeFor(done, two)
	elsewhere.status = nil
	echoed := madeFor(done, two, at("192.0.2.1"))
	echoed.unpublished = false
	saysElsewhere := serviceWith(protected, func(s *corev1.Service) {
		s.Status.Conditions = []metav1.Condition{*transition(nil, metav1.ConditionUnknown, ReasonImplementedElsewhere,
			"The cloud provider leaves this Service to another controller", noon)}
	})
	ensure, remove := []verb{verbEnsure}, []verb{verbRemove}
	create, undo := []verb{verbProtect, verbEnsure}, []verb{verbRemove, verbRelease}
	return map[string]situation{
		"wants none":                        {serviceWith(nodePort), observed{}, two, nil},
		"wants one, TCP":                    {serviceWith(), observed{}, two, create},
		"wants one, UDP":                    {serviceWith(udp), observed{}, two, create},
		"has the finalizer already":         {serviceWith(protected), observed{}, two, ensure},
		"has a class":                       {serviceWith(ofClass("x")), observed{}, two, nil},
		"no nodes":                          {serviceWith(), observed{}, none, create},
		"after a restart":                   {done, observed{}, two, ensure},
		"made, no address published":        {serviceWith(protected), withTwo, two, []verb{verbPublish}},
		"made, another address published":   {serviceWith(provided, reached("192.0.2.9")), withTwo, two, []verb{verbPublish}},
		"made, another address written":     {serviceWith(provided, reached("192.0.2.9")), observed{made: echoed}, two, nil},
		"made, its address taken away":      {serviceWith(protected), observed{made: echoed}, two, []verb{verbPublish}},
		"all done":                          {done, withTwo, two, nil},
		"all done, as a VIP":                {done, observed{made: madeFor(done, two, vip("192.0.2.1"))}, two, nil},
		"its ports changed":                 {serviceWith(provided, udp), withTwo, two, ensure},
		"its finalizer was taken":           {serviceWith(provided, bare), withTwo, two, []verb{verbProtect}},
		"the last attempt failed":           {done, observed{made: failed}, two, ensure},
		"it has drifted":                    {done, drifted, two, ensure},
		"a node came":                       {done, withTwo, three, []verb{verbRetarget}},
		"a node went":                       {done, observed{made: madeFor(done, three, at("192.0.2.1"))}, two, []verb{verbRetarget}},
		"all nodes went":                    {done, withTwo, none, []verb{verbRetarget}},
		"a node is leaving":                 {done, withTwo, leavingOne, nil},
		"ports and nodes changed":           {serviceWith(provided, udp), withTwo, three, ensure},
		"made elsewhere":                    {serviceWith(protected), observed{made: elsewhere}, two, []verb{verbPublish}},
		"made elsewhere, said so":           {saysElsewhere, observed{made: elsewhere}, two, nil},
		"made elsewhere, a node came":       {saysElsewhere, observed{made: elsewhere}, three, nil},
		"to be deleted":                     {serviceWith(provided, deleted), observed{}, two, undo},
		"to be deleted, made":               {serviceWith(provided, deleted), withTwo, two, undo},
		"to be deleted, balancer gone":      {serviceWith(provided, deleted), observed{removed: true}, two, []verb{verbRelease}},
		"changed its type":                  {serviceWith(provided, nodePort), observed{}, two, undo},
		"changed its type, no finalizer":    {serviceWith(nodePort), withTwo, two, remove},
		"the same, and its address is left": {serviceWith(nodePort, reached("192.0.2.1")), withTwo, two, undo},
		"vanished":                          {nil, withTwo, two, remove},
		"vanished, nothing made":            {nil, observed{}, two, nil},
	}
}

func TestPlan(t *testing.T) {
	for name, test := range situations() {
		t.Run(name, func(t *testing.T) {
			test.seen.service = test.service
			known := test.seen.removed || test.seen.made != nil && (test.service == nil || test.seen.made.service.UID == test.service.UID)
			plan := planFor(wanting(test.service, known, test.targets), test.seen, noon)
			if diff := cmp.Diff(test.want, verbs(plan), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			for _, act := range plan {
				if act.service == nil {
					t.Errorf("%s is about no Service", act.verb)
				}
			}
		})
	}
}

// The settled set says that targets are to be changed, the latest what they are changed to. While the latest is written
// already, there is nothing to do, though it has not settled yet.
func TestTargetsAreChangedOnceTheySettle(t *testing.T) {
	old := targetsOf([]*corev1.Node{nodeWith("a")})
	newer := targetsOf([]*corev1.Node{nodeWith("a"), nodeWith("b")})
	service := serviceWith(provided)
	for name, test := range map[string]struct {
		settled, latest, written *targetSet
		want                     []verb
	}{
		"a burst goes on":                   {old, newer, old, nil},
		"it has settled":                    {newer, newer, old, []verb{verbRetarget}},
		"a new Service has got the latest":  {old, newer, newer, nil},
		"and that was only in between":      {old, old, newer, []verb{verbRetarget}},
		"settled long ago, changing anew":   {newer, targetsOf(nil), old, []verb{verbRetarget}},
		"settled, and back to what it was":  {newer, old, old, nil},
		"settled and written, changing now": {newer, old, newer, nil},
	} {
		t.Run(name, func(t *testing.T) {
			want := wanting(service, true, test.settled)
			want.latest = test.latest
			plan := planFor(want, observed{service: service, made: madeFor(service, test.written, at("192.0.2.1"))}, noon)
			if diff := cmp.Diff(test.want, verbs(plan), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPublication(t *testing.T) {
	targets, none := targetsOf([]*corev1.Node{nodeWith("a")}), targetsOf(nil)
	host := corev1.LoadBalancerIngress{Hostname: "lb.example", Ports: []corev1.PortStatus{{Port: 80, Protocol: corev1.ProtocolTCP}}}
	proxy := corev1.LoadBalancerIngress{IP: "192.0.2.1", IPMode: ptr.To(corev1.LoadBalancerIPModeProxy)}
	v4, v6 := at("192.0.2.1"), at("2001:db8::1")
	ingress := func(entries ...corev1.LoadBalancerIngress) []corev1.LoadBalancerIngress { return entries }
	service := serviceWith(protected)
	elsewhere := madeFor(service, targets)
	elsewhere.status = nil
	for name, test := range map[string]struct {
		made    *made
		ingress []corev1.LoadBalancerIngress
		status  metav1.ConditionStatus
		reason  string
	}{
		"an address":                {madeFor(service, targets, at("192.0.2.1")), ingress(vip("192.0.2.1")), "True", ReasonProvided},
		"two addresses":             {madeFor(service, targets, v4, v6), ingress(vip(v4.IP), vip(v6.IP)), "True", ReasonProvided},
		"behind a proxy":            {madeFor(service, targets, proxy), ingress(proxy), "True", ReasonProvided},
		"a host name, and ports":    {madeFor(service, targets, host), ingress(host), "True", ReasonProvided},
		"no address":                {madeFor(service, targets), nil, "False", ReasonNoAddress},
		"an address and no targets": {madeFor(service, none, at("192.0.2.1")), ingress(vip("192.0.2.1")), "False", ReasonNoTargets},
		"elsewhere":                 {elsewhere, nil, "Unknown", ReasonImplementedElsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			got := publicationFor(publishedBy(service), test.made, noon)
			if diff := cmp.Diff(test.ingress, got.ingress, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("ingress (-want +got):\n%s", diff)
			}
			if got.ready.Status != test.status || got.ready.Reason != test.reason || got.ready.Message == "" {
				t.Errorf("condition %+v, want status %s and reason %s", got.ready, test.status, test.reason)
			}
		})
	}
}

// A condition changes its time with its status only.
func TestTransition(t *testing.T) {
	first := transition(nil, metav1.ConditionFalse, "A", "a", noon)
	second := transition(first, metav1.ConditionFalse, "B", "b", noon.Add(time.Hour))
	third := transition(second, metav1.ConditionTrue, "C", "c", noon.Add(2*time.Hour))
	for i, test := range []struct {
		got  *metav1.Condition
		want time.Time
	}{{first, noon}, {second, noon}, {third, noon.Add(2 * time.Hour)}} {
		if !test.got.LastTransitionTime.Time.Equal(test.want) {
			t.Errorf("condition %d: %s, want %s", i, test.got.LastTransitionTime, test.want)
		}
	}
}

func TestDifferences(t *testing.T) {
	targets := targetsOf([]*corev1.Node{nodeWith("a"), nodeWith("b"), nodeWith("go", doomed)})
	service := serviceWith(provided)
	same := provider.LoadBalancer{
		ClusterUID: "me",
		Status:     corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{at("192.0.2.1")}},
		Ports:      []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		Targets:    []types.NodeName{"b", "a"},
	}
	for name, test := range map[string]struct {
		change func(*provider.LoadBalancer)
		want   []string
	}{
		"nothing":            {func(*provider.LoadBalancer) {}, nil},
		"addresses":          {func(l *provider.LoadBalancer) { l.Status.Ingress = nil }, []string{"its addresses have changed in the cloud"}},
		"listeners":          {func(l *provider.LoadBalancer) { l.Ports[0].NodePort = 1 }, []string{"its listeners have changed in the cloud"}},
		"no listener":        {func(l *provider.LoadBalancer) { l.Ports = []corev1.ServicePort{} }, []string{"its listeners have changed in the cloud"}},
		"listeners not said": {func(l *provider.LoadBalancer) { l.Ports = nil }, nil},
		"target missing":     {func(l *provider.LoadBalancer) { l.Targets = l.Targets[1:] }, []string{"in the cloud it lacks the targets b"}},
		"target too much":    {func(l *provider.LoadBalancer) { l.Targets = append(l.Targets, "x") }, []string{"in the cloud it has the wrong targets x"}},
		"leaving target":     {func(l *provider.LoadBalancer) { l.Targets = append(l.Targets, "go") }, nil},
		"no targets":         {func(l *provider.LoadBalancer) { l.Targets = []types.NodeName{} }, []string{"in the cloud it lacks the targets a, b"}},
		"targets not said":   {func(l *provider.LoadBalancer) { l.Targets = nil }, nil},
		"not marked":         {func(l *provider.LoadBalancer) { l.ClusterUID = "" }, []string{"it does not carry the UID of this cluster"}},
	} {
		t.Run(name, func(t *testing.T) {
			listed := same
			listed.Ports, listed.Targets = slices.Clone(same.Ports), slices.Clone(same.Targets)
			test.change(&listed)
			if diff := cmp.Diff(test.want, differences(service, madeFor(service, targets, vip("192.0.2.1")), targets, listed, "me")); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMark(t *testing.T) {
	mine, theirs, none := provider.LoadBalancer{ClusterUID: "me"}, provider.LoadBalancer{ClusterUID: "them"}, provider.LoadBalancer{}
	for _, test := range []struct {
		listed []provider.LoadBalancer
		want   types.UID
	}{{nil, ""}, {[]provider.LoadBalancer{none, theirs}, ""}, {[]provider.LoadBalancer{none, mine}, "me"}} {
		if got := markOf(test.listed, "me"); got != test.want {
			t.Errorf("mark %q among %v, want %q", got, test.listed, test.want)
		}
	}
}

// A Service that waits for the load balancer of a predecessor to be deleted is protected, and can be let go.
func TestPlanWhilePredecessorIsThere(t *testing.T) {
	set := targetsOf(nil)
	for name, test := range map[string]struct {
		service *corev1.Service
		want    []verb
	}{
		"new":           {serviceWith(), []verb{verbProtect}},
		"protected":     {serviceWith(protected), nil},
		"to be deleted": {serviceWith(protected, deleted), []verb{verbRemove, verbRelease}},
	} {
		want := wanting(test.service, false, set)
		want.awaits = true
		if diff := cmp.Diff(test.want, verbs(planFor(want, observed{service: test.service}, noon)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: plan (-want +got):\n%s", name, diff)
		}
	}
}
