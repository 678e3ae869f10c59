package dryrun

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/provider"
)

// stillCloud is a plugin with one load balancer, which it does not let anybody change.
type stillCloud struct {
	cloudprovider.Interface
	balancer
	status *corev1.LoadBalancerStatus // nil: no load balancer
	listed []provider.LoadBalancer
	failed error
	lists  bool
	asked  int
}

// balancer are the methods that this plugin does not have.
type balancer struct{ cloudprovider.LoadBalancer }

func (c *stillCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }

func (c *stillCloud) Capabilities() provider.Capabilities {
	if !c.lists {
		return provider.Capabilities{}
	}
	return provider.Capabilities{ListLoadBalancers: func(context.Context, string) ([]provider.LoadBalancer, error) {
		c.asked++
		return c.listed, c.failed
	}}
}

func (c *stillCloud) GetLoadBalancer(context.Context, string, *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	return c.status, c.status != nil, nil
}

// On a cluster where all is done, a manager that begins plans nothing for load balancers. What differs is planned, and what was not
// compared is said in either case.
func TestALoadBalancerThatDoesNotDifferIsNoIntent(t *testing.T) {
	const address = "192.0.2.1"
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}}},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{
			{IP: address, IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}}},
	}
	nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	shown := func(ip string) *corev1.LoadBalancerStatus {
		return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: ip}}}
	}
	full := provider.LoadBalancer{ServiceUID: "uid-1", Targets: []types.NodeName{"b", "a"}, Ports: service.Spec.Ports}
	lacking, silent, other := full, provider.LoadBalancer{ServiceUID: "uid-1"}, full
	lacking.Targets, other.ServiceUID = []types.NodeName{"a"}, "uid-2"
	listening := full
	listening.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 1}}
	unsaid := []string{notListeners, notTargets, notSettings}
	for name, test := range map[string]struct {
		cloud   stillCloud
		changed bool // the Service has changed, so it is no refresh
		paths   []string
		not     []string
	}{
		"the same, listed":         {cloud: stillCloud{status: shown(address), lists: true, listed: []provider.LoadBalancer{other, full}}, not: []string{notSettings}},
		"the same, not listed yet": {cloud: stillCloud{status: shown(address), lists: true, listed: []provider.LoadBalancer{other}}, not: unsaid},
		"the same, a list of less": {cloud: stillCloud{status: shown(address), lists: true, listed: []provider.LoadBalancer{silent}}, not: unsaid},
		"the same, no lists":       {cloud: stillCloud{status: shown(address)}, not: unsaid},
		"another address":          {cloud: stillCloud{status: shown("192.0.2.9")}, paths: []string{"/status/loadBalancer/ingress"}},
		"a target is missing":      {cloud: stillCloud{status: shown(address), lists: true, listed: []provider.LoadBalancer{lacking}}, paths: []string{"/targets"}},
		"another listener":         {cloud: stillCloud{status: shown(address), lists: true, listed: []provider.LoadBalancer{listening}}, paths: []string{"/listeners"}},
		"it does not exist":        {cloud: stillCloud{}, paths: []string{"/targets"}},
		"the Service has changed":  {cloud: stillCloud{status: shown(address)}, changed: true, paths: []string{"/targets"}},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := NewRecorder()
			balancer, _ := Cloud(&test.cloud, recorder).LoadBalancer()
			ctx := Because(t.Context(), "why")
			if !test.changed {
				ctx = Refreshing(ctx)
			}
			for range 3 {
				if _, err := balancer.EnsureLoadBalancer(ctx, "c", service, nodes); err != nil {
					t.Fatal(err)
				}
			}
			var paths []string
			for _, intent := range recorder.Intents(t.Context()) {
				for _, change := range intent.Changes {
					paths = append(paths, change.Path)
				}
			}
			if diff := cmp.Diff(test.paths, paths); diff != "" {
				t.Errorf("planned changes (-want +got):\n%s", diff)
			}
			var not []string
			if compared := recorder.Compared(); compared != nil {
				not = compared.NotCompared
			}
			slices.Sort(test.not)
			if diff := cmp.Diff(test.not, not); diff != "" {
				t.Errorf("not compared (-want +got):\n%s", diff)
			}
			if test.cloud.asked > 1 {
				t.Errorf("%d lists for three comparisons at once", test.cloud.asked)
			}
		})
	}
}

// A list that fails is no list of nothing: the comparison is made again later. And an intent ends what was found before.
func TestAComparisonThatFails(t *testing.T) {
	cloud := &stillCloud{status: &corev1.LoadBalancerStatus{}, lists: true, failed: errors.New("no answer")}
	recorder := NewRecorder()
	balancer, _ := Cloud(cloud, recorder).LoadBalancer()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1"}}
	if _, err := balancer.EnsureLoadBalancer(Refreshing(t.Context()), "c", service, nil); !errors.Is(err, cloud.failed) {
		t.Errorf("error %v, want the list's", err)
	}
	if compared := recorder.Compared(); compared != nil {
		t.Errorf("compared %+v", compared)
	}
	cloud.failed = nil
	if _, err := balancer.EnsureLoadBalancer(Refreshing(t.Context()), "c", service, nil); err != nil || recorder.Compared() == nil {
		t.Errorf("compared %v, error %v", recorder.Compared(), err)
	}
	if _, err := balancer.EnsureLoadBalancer(t.Context(), "c", service, nil); err != nil || recorder.Compared() != nil {
		t.Errorf("compared %v though there is an intent, error %v", recorder.Compared(), err)
	}
}
