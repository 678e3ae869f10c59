package openstack

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/openstack/fakecloud"
	"github.com/mooring-ccm/mooring/dev/openstack/octaviatest"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/config"
)

// Every option of the config has to reach load balancers, or to be listed here with the reason.
func TestEveryOptionReachesLoadBalancers(t *testing.T) {
	elsewhere := []string{"Enabled", "LBVersion"} // whether there are any, and a version of which there is one
	nothing := optionsOf(config.LoadBalancer{}, map[string]config.LoadBalancerClass{"c": {}})
	for declared := range reflect.TypeFor[config.LoadBalancer]().Fields() {
		var lb config.LoadBalancer
		set(t, reflect.ValueOf(&lb).Elem().FieldByIndex(declared.Index))
		same := reflect.DeepEqual(optionsOf(lb, map[string]config.LoadBalancerClass{"c": {}}), nothing)
		if same != slices.Contains(elsewhere, declared.Name) {
			t.Errorf("[LoadBalancer] %s changes nothing: %t", declared.Tag.Get("conf"), same)
		}
	}
	for declared := range reflect.TypeFor[config.LoadBalancerClass]().Fields() {
		var class config.LoadBalancerClass
		set(t, reflect.ValueOf(&class).Elem().FieldByIndex(declared.Index))
		if reflect.DeepEqual(optionsOf(config.LoadBalancer{}, map[string]config.LoadBalancerClass{"c": class}), nothing) {
			t.Errorf("[LoadBalancerClass] %s changes nothing", declared.Tag.Get("conf"))
		}
	}
}

// set gives a field a value that is not its zero one.
func set(t *testing.T, field reflect.Value) {
	switch field.Interface().(type) {
	case string:
		field.SetString("x")
	case bool:
		field.SetBool(true)
	case int:
		field.SetInt(7)
	case time.Duration:
		field.SetInt(int64(7 * time.Second))
	default:
		t.Fatalf("a field of type %s", field.Type())
	}
}

func web() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{
			{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080},
		}},
	}
}

func node() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
	}}
}

// Load balancers are made with the session that lists servers, from what the config says.
func TestLoadBalancersOfTheSession(t *testing.T) {
	cloud, balancers := fakecloud.New(t), octaviatest.New(t, 1)
	cloud.Elsewhere = map[string]string{"load-balancer": balancers.URL(), "network": balancers.URL()}
	subject := New(cloud.Source(t, "[LoadBalancer]\nsubnet-id=nodes\ninternal-lb=true\nlb-provider=ovn\n"))
	service, ok := subject.LoadBalancer()
	if !ok || subject.Capabilities().ListLoadBalancers == nil {
		t.Fatal("there are no load balancers")
	}
	ctx := provider.WithClusterUID(t.Context(), "cluster-uid")
	for range 10 {
		status, err := service.EnsureLoadBalancer(ctx, "kubernetes", web(), []*corev1.Node{node()})
		var again *cloudproviderapi.RetryError
		if errors.As(err, &again) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		listed, err := subject.Capabilities().ListLoadBalancers(ctx, "kubernetes")
		if err != nil || len(listed) != 1 || listed[0].ServiceUID != "web-uid" || len(status.Ingress) != 1 || status.Ingress[0].IP == "" {
			t.Errorf("listed %+v with status %+v: %v", listed, status, err)
		}
		if made := balancers.All(octaviatest.LoadBalancers); made[0]["provider"] != "ovn" || cloud.Logins != 1 {
			t.Errorf("made %v with %d logins", made, cloud.Logins)
		}
		return
	}
	t.Error("there is no load balancer after 10 tries")
}

// The manager is told whether labels of nodes choose the members of all load balancers: it follows them then.
func TestTheConfigsSelectorIsDeclared(t *testing.T) {
	for text, want := range map[string]bool{"": false, "node-selector=role=ingress\n": true} {
		subject := New(fakecloud.New(t).Source(t, "[LoadBalancer]\nsubnet-id=nodes\n"+text))
		if got := subject.Capabilities().SelectsByLabels(); got != want {
			t.Errorf("with %q: %t", text, got)
		}
	}
}

// Credentials that are refused may be others in a moment: an error about them does not end the tries.
func TestRefusedCredentialsOfLoadBalancersAreTriedAgain(t *testing.T) {
	cloud, balancers := fakecloud.New(t), octaviatest.New(t, 0)
	cloud.Elsewhere = map[string]string{"load-balancer": balancers.URL(), "network": balancers.URL()}
	subject := New(cloud.Source(t, ""))
	service, _ := subject.LoadBalancer()
	cloud.Lock()
	cloud.Secret = "another"
	cloud.Unlock()
	_, _, err := service.GetLoadBalancer(t.Context(), "kubernetes", web())
	if err == nil || provider.IsTerminal(err) {
		t.Errorf("the error %v ends the tries: %t", err, provider.IsTerminal(err))
	}
}

func TestLoadBalancersAreLeftToAnotherController(t *testing.T) {
	subject := New(fakecloud.New(t).Source(t, "[LoadBalancer]\nenabled=false\n"))
	if _, ok := subject.LoadBalancer(); ok || subject.Capabilities().ListLoadBalancers != nil {
		t.Error("there are load balancers")
	}
}
