package managers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
)

func TestMain(m *testing.M) {
	managers.Prepare(logr.Discard())
	m.Run()
}

const nodes = 10

// routed are the flags of a cluster whose cloud has routes.
var routed = []string{"--allocate-node-cidrs=true", "--cluster-cidr=10.0.0.0/16"}

// populate has a kubelet register nodes and a user make a Service.
func populate(t *testing.T, server *apiServer) {
	t.Helper()
	for i := range nodes {
		server.put("nodes", asJSON(t, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), CreationTimestamp: metav1.Now()},
			Spec: corev1.NodeSpec{PodCIDR: fmt.Sprintf("10.0.%d.0/24", i), PodCIDRs: []string{fmt.Sprintf("10.0.%d.0/24", i)}, Taints: []corev1.Taint{
				{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
			}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}))
	}
	server.put("services", asJSON(t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", CreationTimestamp: metav1.Now()},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}},
	}))
}

func asJSON(t *testing.T, typed any) object {
	t.Helper()
	into := object{}
	must.NoError(t, json.Unmarshal(must.Value(json.Marshal(typed))(t), &into))
	return into
}

// expectSettled fails the test unless all nodes are initialized and the Service has its load balancer.
func expectSettled(t *testing.T, server *apiServer) {
	t.Helper()
	for i := range nodes {
		node, name := &corev1.Node{}, fmt.Sprintf("node-%d", i)
		if server.get(t, "nodes", "/"+name, node); node.Spec.ProviderID != "memory://"+name || len(node.Spec.Taints) > 0 {
			t.Errorf("%s has provider ID %q and taints %v", name, node.Spec.ProviderID, node.Spec.Taints)
		}
	}
	service := &corev1.Service{}
	if server.get(t, "services", "default/web", service); len(service.Status.LoadBalancer.Ingress) != 1 {
		t.Errorf("the Service has status %+v", service.Status)
	}
}

// each runs a test in a bubble of its own for each manager, twice and all at once: what the bubbles share would break them.
func each(t *testing.T, test func(*testing.T, *managers.Manager)) {
	for _, manager := range []*managers.Manager{managers.Reference, managers.Mooring} {
		for _, name := range []string{manager.Name, manager.Name + " once more"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				synctest.Test(t, func(t *testing.T) { test(t, manager) })
				t.Logf("took %s", time.Since(began))
			})
		}
	}
}

func TestStart(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		server, plugin := newAPIServer(), newCloud()
		populate(t, server)
		process := must.Value(managers.Start(t.Context(), manager, managers.Settings{
			Flags: routed, Transport: server, Plugin: func(*managers.Incarnation) cloudprovider.Interface { return plugin },
		}))(t)
		defer process.Release()
		time.Sleep(10 * time.Minute)
		if err := process.Err(); err != nil {
			t.Errorf("ended: %v", err)
		}
		expectSettled(t, server)
		if made := plugin.balancers["web"]; made != 1 {
			t.Errorf("the load balancer was made %d times", made)
		}
	})
}

// replica runs a manager as a Pod until the test ends.
func replica(t *testing.T, manager *managers.Manager, server *apiServer, plugin *cloud, flags ...string) *managers.Replica {
	t.Helper()
	r := managers.Run(t.Context(), manager, managers.Settings{
		Flags: append(routed, flags...), Transport: server, Plugin: func(*managers.Incarnation) cloudprovider.Interface { return plugin },
	})
	t.Cleanup(func() { must.NoError(t, r.Stop(30*time.Second)) })
	return r
}

// TestPanic has the plugin panic twice. Mooring survives that, and the reference is started again twice.
func TestPanic(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		server, plugin := newAPIServer(), newCloud()
		plugin.misbehave["InstanceMetadata"] = []func(){mistake, mistake}
		populate(t, server)
		r := replica(t, manager, server, plugin)
		time.Sleep(10 * time.Minute)
		expectSettled(t, server)
		want := 1
		if manager == managers.Reference {
			want = 3
		}
		processes := r.Incarnations()
		if len(processes) != want {
			t.Fatalf("%d processes, want %d", len(processes), want)
		}
		for _, process := range processes[:want-1] {
			must.ErrorContains(t, process.Err(), "the plugin panicked in InstanceMetadata")
		}
		must.NoError(t, processes[want-1].Err())
	})
}

// TestKill kills a process while it works. The next one goes on.
func TestKill(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		server, plugin := newAPIServer(), newCloud()
		r := replica(t, manager, server, plugin)
		time.Sleep(time.Minute)
		r.Incarnations()[0].Kill(errors.New("concurrent map writes"))
		populate(t, server)
		synctest.Wait()
		if made := plugin.balancers["web"]; made != 0 {
			t.Errorf("a dead process made the load balancer")
		}
		time.Sleep(10 * time.Minute)
		expectSettled(t, server)
		if count := len(r.Incarnations()); count != 2 {
			t.Errorf("%d processes, want 2", count)
		}
	})
}

// TestTerminate ends a process by SIGTERM.
func TestTerminate(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		server, plugin := newAPIServer(), newCloud()
		populate(t, server)
		process := must.Value(managers.Start(t.Context(), manager, managers.Settings{
			Flags: routed, Transport: server, Plugin: func(*managers.Incarnation) cloudprovider.Interface { return plugin },
		}))(t)
		defer process.Release()
		time.Sleep(time.Minute)
		process.Terminate()
		<-process.Ended()
		if manager == managers.Reference {
			must.ErrorContains(t, process.Err(), managers.ErrKilled.Error())
		} else {
			must.NoError(t, process.Err())
		}
	})
}

// TestElection has a manager lead, lose its lease to another holder, and end.
func TestElection(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		server, plugin := newAPIServer(), newCloud()
		populate(t, server)
		r := replica(t, manager, server, plugin, "--leader-elect=true")
		time.Sleep(time.Minute)
		expectSettled(t, server)
		lease := &coordinationv1.Lease{}
		if !server.get(t, "leases", "kube-system/cloud-controller-manager", lease) {
			t.Fatal("there is no lease")
		}
		lease.Spec.HolderIdentity = ptr.To("another")
		lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now()))
		server.put("leases", asJSON(t, lease))
		time.Sleep(20 * time.Second)
		must.ErrorContains(t, r.Incarnations()[0].Err(), "lost")
	})
}

// TestNoAPIServer starts a manager while the API server answers nothing: the reference exits, and Mooring waits.
func TestNoAPIServer(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		server, plugin := newAPIServer(), newCloud()
		populate(t, server)
		server.setAway(true)
		r := replica(t, manager, server, plugin)
		time.Sleep(time.Minute)
		server.setAway(false)
		time.Sleep(5 * time.Minute)
		expectSettled(t, server)
		if first := r.Incarnations()[0].Err(); (first != nil) != (manager == managers.Reference) {
			t.Errorf("the first process ended with %v", first)
		}
	})
}

// TestFatalError has the plugin end the process in the middle of a call, and then panic in a goroutine that has no handler in the reference.
func TestFatalError(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		server, plugin := newAPIServer(), newCloud()
		populate(t, server)
		var process *managers.Incarnation
		r := managers.Run(t.Context(), manager, managers.Settings{
			Flags:     routed,
			Transport: server,
			Plugin: func(started *managers.Incarnation) cloudprovider.Interface {
				process = started
				return plugin
			},
		})
		t.Cleanup(func() { must.NoError(t, r.Stop(30*time.Second)) })
		plugin.misbehave["CreateRoute"] = []func(){func() { process.Kill(errors.New("concurrent map writes")) }, mistake}
		time.Sleep(10 * time.Minute)
		expectSettled(t, server)
		if len(plugin.routes) < nodes {
			t.Errorf("%d routes", len(plugin.routes))
		}
		must.ErrorContains(t, r.Incarnations()[0].Err(), "concurrent map writes")
		if manager == managers.Reference {
			must.ErrorContains(t, r.Incarnations()[1].Err(), "the plugin panicked in CreateRoute")
		}
	})
}

// TestExit has the plugin end the process by klog in its first call and in a later one.
func TestExit(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		server, plugin := newAPIServer(), newCloud()
		populate(t, server)
		exit := func() { klog.Exit("no credentials") }
		plugin.misbehave["Initialize"], plugin.misbehave["InstanceMetadata"] = []func(){exit}, []func(){exit}
		r := replica(t, manager, server, plugin)
		time.Sleep(10 * time.Minute)
		expectSettled(t, server)
		processes := r.Incarnations()
		if len(processes) != 3 {
			t.Fatalf("%d processes, want 3", len(processes))
		}
		must.ErrorContains(t, processes[0].Err(), "Initialize: the process exited by klog")
		must.ErrorContains(t, processes[1].Err(), "InstanceMetadata: the process exited by klog")
	})
}

// TestErrorsDoNotPause reports errors in two bubbles, one after the other: the time of the last one is not that of either.
func TestErrorsDoNotPause(t *testing.T) {
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Hour)
			began := time.Now()
			for range 3 {
				utilruntime.HandleError(errors.New("an error that client-go does not return"))
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("took %s", took)
			}
		})
	}
}
