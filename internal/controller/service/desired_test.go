package service

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	cloudproviderapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/internal/names"
)

// serviceWith returns a Service of type LoadBalancer that no controller has taken on yet, with edits.
func serviceWith(edits ...func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	for _, edit := range edits {
		edit(service)
	}
	return service
}

func protected(s *corev1.Service) { s.Finalizers = append(s.Finalizers, Finalizer) }
func deleted(s *corev1.Service)   { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
func ofType(kind corev1.ServiceType) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Type = kind }
}
func ofClass(class string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class }
}
func conditioned(s *corev1.Service) {
	s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: ConditionReady, Status: metav1.ConditionTrue})
}

func TestFinalizerIsTheReferences(t *testing.T) {
	if Finalizer != servicehelpers.LoadBalancerCleanupFinalizer {
		t.Errorf("the finalizer is %q, the reference's %q", Finalizer, servicehelpers.LoadBalancerCleanupFinalizer)
	}
}

func TestIntent(t *testing.T) {
	reference := Classes{Default: true}
	classes := Classes{Names: []string{"mooring.dev/a", "mooring.dev/b"}}
	both := Classes{Names: []string{"mooring.dev/a"}, Default: true}
	nodePort := ofType(corev1.ServiceTypeNodePort)
	none := func(*corev1.Service) {}
	for name, test := range map[string]struct {
		classes Classes
		service *corev1.Service
		known   bool
		want    intent
	}{
		"wants none":                                   {reference, serviceWith(nodePort), false, leave},
		"wants one":                                    {reference, serviceWith(), false, provide},
		"wants one, with finalizer":                    {reference, serviceWith(protected), false, provide},
		"has a class":                                  {reference, serviceWith(ofClass("mooring.dev/a")), false, leave},
		"has a class of ours":                          {classes, serviceWith(ofClass("mooring.dev/b")), false, provide},
		"has a foreign class":                          {classes, serviceWith(ofClass("other")), false, leave},
		"has none, and those are not ours":             {classes, serviceWith(), false, leave},
		"has none, and those are ours too":             {both, serviceWith(), false, provide},
		"one of two":                                   {both, serviceWith(ofClass("mooring.dev/a")), false, provide},
		"changed its type":                             {reference, serviceWith(nodePort, protected), false, withdraw},
		"changed its type, no finalizer":               {reference, serviceWith(nodePort), false, leave},
		"changed its type, no finalizer, but made":     {reference, serviceWith(nodePort), true, withdraw},
		"changed its type, class-less ones not ours":   {classes, serviceWith(nodePort, protected), false, leave},
		"the same, but taken on by us":                 {classes, serviceWith(nodePort, protected, conditioned), false, withdraw},
		"to be deleted":                                {reference, serviceWith(protected, deleted), false, withdraw},
		"to be deleted, wants none":                    {reference, serviceWith(nodePort, protected, deleted), false, withdraw},
		"to be deleted, held by others only":           {reference, serviceWith(deleted), false, leave},
		"the same, but made":                           {reference, serviceWith(deleted), true, withdraw},
		"to be deleted, of a foreign class":            {reference, serviceWith(ofClass("other"), protected, deleted), false, leave},
		"the same, but taken on before":                {reference, serviceWith(ofClass("other"), protected, deleted, conditioned), false, withdraw},
		"a class that is no longer ours":               {reference, serviceWith(ofClass("other"), protected, conditioned), false, leave},
		"the class was changed by way of another type": {reference, serviceWith(ofClass("other"), protected), true, withdraw},
		"gone, nothing known":                          {reference, nil, false, leave},
		"gone, but made":                               {reference, nil, true, withdraw},
		"an ordinary Service":                          {reference, serviceWith(ofType(corev1.ServiceTypeClusterIP), none), false, leave},
	} {
		t.Run(name, func(t *testing.T) {
			if got := intentFor(test.service, test.classes, test.known); got != test.want {
				t.Errorf("intent %d, want %d", got, test.want)
			}
		})
	}
}

func TestInputs(t *testing.T) {
	dualStack := func(s *corev1.Service) {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	}
	appProtocol := func(name string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Ports[0].AppProtocol = &name }
	}
	externalIPs := func(addresses ...string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.ExternalIPs = addresses }
	}
	port := func(change func(*corev1.ServicePort)) func(*corev1.Service) {
		return func(s *corev1.Service) { change(&s.Spec.Ports[0]) }
	}
	none := func(*corev1.Service) {}
	for name, test := range map[string]struct {
		before, after func(*corev1.Service)
		want          []string
	}{
		"nothing":     {none, none, nil},
		"port name":   {none, port(func(p *corev1.ServicePort) { p.Name = "web" }), []string{"spec.ports"}},
		"protocol":    {none, port(func(p *corev1.ServicePort) { p.Protocol = corev1.ProtocolUDP }), []string{"spec.ports"}},
		"port":        {none, port(func(p *corev1.ServicePort) { p.Port = 81 }), []string{"spec.ports"}},
		"node port":   {none, port(func(p *corev1.ServicePort) { p.NodePort = 31000 }), []string{"spec.ports"}},
		"target port": {none, port(func(p *corev1.ServicePort) { p.TargetPort = intstr.FromString("x") }), []string{"spec.ports"}},
		"one more port": {none, func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: 443}) },
			[]string{"spec.ports"}},
		"app protocol set":   {none, appProtocol("http"), []string{"spec.ports"}},
		"app protocol":       {appProtocol("http"), appProtocol("tcp"), []string{"spec.ports"}},
		"same app protocol":  {appProtocol("http"), appProtocol("http"), nil},
		"count of addresses": {externalIPs("192.0.2.1"), externalIPs("192.0.2.1", "192.0.2.2"), []string{"spec.externalIPs"}},
		"external addresses": {externalIPs("192.0.2.1"), externalIPs("192.0.2.2"), []string{"spec.externalIPs"}},
		"an empty list":      {externalIPs(), func(s *corev1.Service) { s.Spec.ExternalIPs = []string{} }, nil},
		"UID":                {none, func(s *corev1.Service) { s.UID = "other" }, []string{"metadata.uid"}},
		"traffic policy": {none, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
			[]string{"spec.externalTrafficPolicy"}},
		"health check": {none, func(s *corev1.Service) { s.Spec.HealthCheckNodePort = 30123 }, []string{"spec.healthCheckNodePort"}},
		"requested IP": {none, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" }, []string{"spec.loadBalancerIP"}},
		"source ranges": {none, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} },
			[]string{"spec.loadBalancerSourceRanges"}},
		"affinity": {none, func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }, []string{"spec.sessionAffinity"}},
		"affinity's time": {none, func(s *corev1.Service) {
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](9)}}
		}, []string{"spec.sessionAffinityConfig"}},
		"annotations":      {none, func(s *corev1.Service) { s.Annotations = map[string]string{"a": "b"} }, []string{"metadata.annotations"}},
		"to dual stack":    {none, dualStack, []string{"spec.ipFamilies"}},
		"from dual stack":  {dualStack, none, []string{"spec.ipFamilies"}},
		"still dual stack": {dualStack, dualStack, nil},
		"class":            {none, ofClass("a"), []string{"spec.loadBalancerClass"}},
		"two things": {none, func(s *corev1.Service) { s.Spec.LoadBalancerIP, s.UID = "192.0.2.9", "x" },
			[]string{"metadata.uid", "spec.loadBalancerIP"}},
		"labels are no input":   {none, func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }, nil},
		"nor is the selector":   {none, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "b"} }, nil},
		"nor what we write":     {none, func(s *corev1.Service) { protected(s); conditioned(s) }, nil},
		"nor what is allocated": {none, func(s *corev1.Service) { s.Spec.ClusterIP = "10.0.0.9" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := changes(serviceWith(test.before), serviceWith(test.after))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// nodeWith returns an initialized node, with edits.
func nodeWith(name string, edits ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}, Spec: corev1.NodeSpec{ProviderID: "sim://" + name}}
	for _, edit := range edits {
		edit(node)
	}
	return node
}

func tainted(key string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key}) }
}

func labeled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels = map[string]string{key: value} }
}

func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status})
	}
}

func addressed(addresses ...corev1.NodeAddress) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Addresses = addresses }
}

func identified(id string) func(*corev1.Node) { return func(n *corev1.Node) { n.Spec.ProviderID = id } }

func doomed(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func excluded(n *corev1.Node) { labeled(corev1.LabelNodeExcludeBalancers, "")(n) }

func TestTargetRole(t *testing.T) {
	uninitialized, going := tainted(cloudproviderapi.TaintExternalCloudProvider), tainted("ToBeDeletedByClusterAutoscaler")
	for name, test := range map[string]struct {
		node *corev1.Node
		want targetRole
	}{
		"plain":                        {nodeWith("a"), member},
		"without provider ID":          {nodeWith("a", identified("")), member},
		"not ready":                    {nodeWith("a", condition(corev1.NodeReady, corev1.ConditionFalse)), member},
		"readiness unknown":            {nodeWith("a", condition(corev1.NodeReady, corev1.ConditionUnknown)), member},
		"other taint":                  {nodeWith("a", tainted("other")), member},
		"cordoned":                     {nodeWith("a", func(n *corev1.Node) { n.Spec.Unschedulable = true }), member},
		"not initialized":              {nodeWith("a", uninitialized), member}, // see wasInitialized
		"excluded":                     {nodeWith("a", excluded), outside},
		"excluded: true":               {nodeWith("a", labeled(corev1.LabelNodeExcludeBalancers, "true")), outside},
		"excluded: false":              {nodeWith("a", labeled(corev1.LabelNodeExcludeBalancers, "false")), member},
		"excluded: anything else":      {nodeWith("a", labeled(corev1.LabelNodeExcludeBalancers, "please")), outside},
		"being deleted":                {nodeWith("a", doomed), leaving},
		"tainted by the autoscaler":    {nodeWith("a", going), leaving},
		"tainted and excluded":         {nodeWith("a", going, excluded), outside},
		"tainted and not initialized":  {nodeWith("a", going, uninitialized), leaving},
		"not initialized, and deleted": {nodeWith("a", uninitialized, doomed), leaving},
		"excluded and being deleted":   {nodeWith("a", excluded, doomed), outside},
	} {
		t.Run(name, func(t *testing.T) {
			if got := roleOf(test.node); got != test.want {
				t.Errorf("role %d, want %d", got, test.want)
			}
		})
	}
}

// nodeChange is a change of one node, as two lists of what it differs in from a plain one.
type nodeChange struct {
	before, after []func(*corev1.Node)
	// wrote says that the node is among the targets that were written before the change.
	wrote bool
	// want says that the load balancer has to be changed.
	want bool
}

// nodeChanges are the changes that the reference's tests name, and some more.
func nodeChanges() map[string]nodeChange {
	going := tainted("ToBeDeletedByClusterAutoscaler")
	ready, notReady := condition(corev1.NodeReady, corev1.ConditionTrue), condition(corev1.NodeReady, corev1.ConditionFalse)
	internal := func(address string) func(*corev1.Node) {
		return addressed(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	edits := func(edits ...func(*corev1.Node)) []func(*corev1.Node) { return edits }
	return map[string]nodeChange{
		"nothing":                                {nil, nil, true, false},
		"excluded":                               {nil, edits(excluded), true, true},
		"included":                               {edits(excluded), nil, false, true},
		"still excluded":                         {edits(excluded), edits(excluded), false, false},
		"other taint added":                      {nil, edits(tainted("other")), true, false},
		"other taint removed":                    {edits(tainted("other")), nil, true, false},
		"other label added":                      {nil, edits(labeled("other", "")), true, false},
		"other label removed":                    {edits(labeled("other", "")), nil, true, false},
		"still not ready":                        {edits(notReady), edits(notReady), true, false},
		"readiness lost from sight":              {edits(notReady), nil, true, false},
		"readiness came into sight":              {nil, edits(notReady), true, false},
		"became ready":                           {edits(notReady), edits(ready), true, false},
		"became not ready":                       {edits(ready), edits(notReady), true, false},
		"not ready, other condition":             {edits(notReady), edits(notReady, condition(corev1.NodeDiskPressure, corev1.ConditionTrue)), true, false},
		"ready, other condition":                 {edits(ready), edits(ready, condition("Other", corev1.ConditionTrue)), true, false},
		"being deleted":                          {nil, edits(doomed), true, false},
		"provider ID set":                        {edits(identified("")), nil, true, true},
		"provider ID lost":                       {nil, edits(identified("")), true, true},
		"provider ID changed":                    {nil, edits(identified("sim://other")), true, true},
		"address changed":                        {edits(internal("10.0.0.1")), edits(internal("10.0.0.2")), true, true},
		"host name changed":                      {nil, edits(addressed(corev1.NodeAddress{Type: corev1.NodeHostName, Address: "x"})), true, false},
		"tainted by the autoscaler":              {nil, edits(going), true, false},
		"the autoscaler changed its mind":        {edits(going), nil, true, false},
		"the same, after a change left it out":   {edits(going), nil, false, true},
		"tainted and still there, then excluded": {edits(going), edits(going, excluded), true, true},
		"tainted and left out, then excluded":    {edits(going), edits(going, excluded), false, false},
		"tainted, then included":                 {edits(going, excluded), edits(going), false, false},
		"tainted, provider ID changed":           {edits(going), edits(going, identified("sim://other")), true, false},
		"tainted, became ready":                  {edits(going, notReady), edits(going), true, false},
		"tainted, became not ready":              {edits(going), edits(going, notReady), true, false},
		"excluded, then tainted":                 {edits(excluded), edits(excluded, going), false, false},
		"excluded, taint removed":                {edits(excluded, going), edits(excluded), false, false},
		"excluded, became ready":                 {edits(excluded, notReady), edits(excluded), false, false},
		"excluded, provider ID changed":          {edits(excluded), edits(excluded, identified("x")), false, false},
		"not ready, tainted":                     {edits(notReady), edits(notReady, going), true, false},
		"not ready, excluded":                    {edits(notReady), edits(notReady, excluded), true, true},
		"not ready, included":                    {edits(notReady, excluded), edits(notReady), false, true},
		"not ready, provider ID set":             {edits(notReady, identified("")), edits(notReady), true, true},
		"not ready, provider ID changed":         {edits(notReady), edits(notReady, identified("x")), true, true},
		"no provider ID, excluded":               {edits(identified("")), edits(identified(""), excluded), true, true},
		"no provider ID, included":               {edits(identified(""), excluded), edits(identified("")), false, true},
		"no provider ID, became ready":           {edits(identified("")), edits(identified(""), ready), true, false},
		"no provider ID, tainted":                {edits(identified("")), edits(identified(""), going), true, false},
	}
}

// A change of one node asks for a change of a load balancer that has, or has not, the node among its targets.
func TestNodeChange(t *testing.T) {
	for name, test := range nodeChanges() {
		t.Run(name, func(t *testing.T) {
			other := nodeWith("other")
			written := map[string]string{"other": identityOf(other)}
			if test.wrote {
				written["a"] = identityOf(nodeWith("a", test.before...))
			}
			if !targetsOf([]*corev1.Node{other, nodeWith("a", test.before...)}).servedBy(written) {
				t.Fatal("the load balancer is not as it should be before the change")
			}
			got := !targetsOf([]*corev1.Node{other, nodeWith("a", test.after...)}).servedBy(written)
			if got != test.want {
				t.Errorf("asks for a change: %t, want %t", got, test.want)
			}
		})
	}
}

func TestTargets(t *testing.T) {
	a, b, c := nodeWith("a"), nodeWith("b"), nodeWith("c")
	renamed := nodeWith("b", identified("sim://new"))
	written := func(nodes ...*corev1.Node) map[string]string { return targetsOf(nodes).members }
	for name, test := range map[string]struct {
		now     []*corev1.Node
		written map[string]string
		want    bool
	}{
		"no nodes":          {nil, written(), true},
		"nothing known":     {nil, nil, true},
		"the same":          {[]*corev1.Node{c, a, b}, written(a, b, c), true},
		"one more":          {[]*corev1.Node{a, b, c}, written(a, b), false},
		"one less":          {[]*corev1.Node{a, b}, written(a, b, c), false},
		"one for another":   {[]*corev1.Node{a, c}, written(a, b), false},
		"another machine":   {[]*corev1.Node{a, renamed}, written(a, b), false},
		"the last one gone": {nil, written(a), false},
		"one leaving":       {[]*corev1.Node{a, nodeWith("b", doomed)}, written(a, b), true},
		"all leaving":       {[]*corev1.Node{nodeWith("b", doomed)}, written(b), true},
		"left":              {[]*corev1.Node{a}, written(a, b), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := targetsOf(test.now).servedBy(test.written); got != test.want {
				t.Errorf("served: %t, want %t", got, test.want)
			}
		})
	}
	names := namesOf(lastKnown(targetsOf([]*corev1.Node{c, nodeWith("d", excluded), a, nodeWith("e", doomed), b}).nodes))
	if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" {
		t.Errorf("members in order (-want +got):\n%s", diff)
	}
}

func TestListedAs(t *testing.T) {
	set := targetsOf([]*corev1.Node{nodeWith("a"), nodeWith("b"), nodeWith("go", doomed)})
	missing, surplus := set.listedAs([]types.NodeName{"x", "b", "go", "x"})
	if diff := cmp.Diff([][]string{{"a"}, {"x"}}, [][]string{missing, surplus}); diff != "" {
		t.Errorf("missing and surplus (-want +got):\n%s", diff)
	}
}

// Whatever a set is written as serves it, in any order of the nodes; and what lacks a member or holds a stranger does not.
func TestAWrittenSetServes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []*corev1.Node
		for i := range rapid.IntRange(0, 8).Draw(t, "nodes") {
			edit := rapid.SampledFrom([]func(*corev1.Node){func(*corev1.Node) {}, doomed, excluded, tainted(names.TaintToBeDeleted)}).Draw(t, "edit")
			nodes = append(nodes, nodeWith(fmt.Sprintf("n%d", i), edit))
		}
		set := targetsOf(nodes)
		if !targetsOf(rapid.Permutation(nodes).Draw(t, "order")).servedBy(set.members) {
			t.Fatal("a set does not serve itself")
		}
		for name := range set.members {
			less := map[string]string{}
			for other, identity := range set.members {
				if other != name {
					less[other] = identity
				}
			}
			if set.servedBy(less) {
				t.Fatalf("a set without its member %s serves", name)
			}
		}
		more := map[string]string{"stranger": "x"}
		for name, identity := range set.members {
			more[name] = identity
		}
		if set.servedBy(more) {
			t.Fatal("a set with a stranger serves")
		}
	})
}
