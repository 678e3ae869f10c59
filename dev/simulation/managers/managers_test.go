package managers_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

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

// raceDetector says that this was compiled with the race detector, which finds a race in the reference.
var raceDetector bool

// each runs a test in a bubble of its own for each manager, twice and all at once: what the bubbles share would break them.
func each(t *testing.T, test func(*testing.T, *managers.Manager)) {
	for _, manager := range []*managers.Manager{managers.Reference, managers.Mooring} {
		if raceDetector && manager == managers.Reference {
			continue
		}
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
		api, plugin := newCluster(t), newCloud()
		api.populate(t, nodes)
		process := must.Value(managers.Start(t.Context(), manager, managers.Settings{
			Flags: routed, Transport: api, Plugin: func(*managers.Incarnation) cloudprovider.Interface { return plugin },
		}))(t)
		defer process.Release()
		time.Sleep(10 * time.Minute)
		if err := process.Err(); err != nil {
			t.Errorf("ended: %v", err)
		}
		api.expectSettled(t, nodes)
		if made := plugin.made("web"); made != 1 {
			t.Errorf("the load balancer was made %d times", made)
		}
	})
}

// replica runs a manager as a Pod until the test ends.
func replica(t *testing.T, manager *managers.Manager, api *cluster, plugin *cloud, flags ...string) *managers.Replica {
	t.Helper()
	r := managers.Run(t.Context(), manager, managers.Settings{
		Flags: append(routed, flags...), Transport: api, Plugin: func(*managers.Incarnation) cloudprovider.Interface { return plugin },
	})
	t.Cleanup(func() { must.NoError(t, r.Stop(30*time.Second)) })
	return r
}

// TestPanic has the plugin panic twice. Mooring survives that, and the reference is started again twice.
func TestPanic(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		api, plugin := newCluster(t), newCloud()
		plugin.misbehave["InstanceMetadata"] = []func(){mistake, mistake}
		api.populate(t, nodes)
		r := replica(t, manager, api, plugin)
		time.Sleep(10 * time.Minute)
		api.expectSettled(t, nodes)
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
		api, plugin := newCluster(t), newCloud()
		r := replica(t, manager, api, plugin)
		time.Sleep(time.Minute)
		r.Incarnations()[0].Kill(errors.New("concurrent map writes"))
		api.populate(t, nodes)
		synctest.Wait()
		if made := plugin.made("web"); made != 0 {
			t.Errorf("a dead process made the load balancer")
		}
		time.Sleep(10 * time.Minute)
		api.expectSettled(t, nodes)
		if count := len(r.Incarnations()); count != 2 {
			t.Errorf("%d processes, want 2", count)
		}
	})
}

// TestTerminate ends a process by SIGTERM.
func TestTerminate(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		api, plugin := newCluster(t), newCloud()
		api.populate(t, nodes)
		process := must.Value(managers.Start(t.Context(), manager, managers.Settings{
			Flags: routed, Transport: api, Plugin: func(*managers.Incarnation) cloudprovider.Interface { return plugin },
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
		api, plugin := newCluster(t), newCloud()
		api.populate(t, nodes)
		r := replica(t, manager, api, plugin, "--leader-elect=true")
		time.Sleep(time.Minute)
		api.expectSettled(t, nodes)
		api.takeLease(t)
		time.Sleep(20 * time.Second)
		must.ErrorContains(t, r.Incarnations()[0].Err(), "lost")
	})
}

// TestNoAPIServer starts a manager while the API server answers nothing: the reference exits, and Mooring waits.
func TestNoAPIServer(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		api, plugin := newCluster(t), newCloud()
		api.populate(t, nodes)
		api.away.Store(true)
		r := replica(t, manager, api, plugin)
		time.Sleep(time.Minute)
		api.away.Store(false)
		time.Sleep(5 * time.Minute)
		api.expectSettled(t, nodes)
		if first := r.Incarnations()[0].Err(); (first != nil) != (manager == managers.Reference) {
			t.Errorf("the first process ended with %v", first)
		}
	})
}

// TestFatalError has the plugin end the process in the middle of a call, and then panic in a goroutine that has no handler in the reference.
func TestFatalError(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		api, plugin := newCluster(t), newCloud()
		api.populate(t, nodes)
		starts := 0
		r := managers.Run(t.Context(), manager, managers.Settings{
			Flags: routed, Transport: api,
			Plugin: func(started *managers.Incarnation) cloudprovider.Interface {
				fatal := func() { started.Kill(errors.New("concurrent map writes")) }
				if starts++; starts <= 2 {
					plugin.misbehave["CreateRoute"] = []func(){[]func(){fatal, mistake}[starts-1]}
				}
				return plugin
			},
		})
		t.Cleanup(func() { must.NoError(t, r.Stop(30*time.Second)) })
		time.Sleep(10 * time.Minute)
		api.expectSettled(t, nodes)
		if len(plugin.routes) < nodes {
			t.Errorf("%d routes", len(plugin.routes))
		}
		must.ErrorContains(t, r.Incarnations()[0].Err(), "concurrent map writes")
		if manager == managers.Reference {
			must.ErrorContains(t, r.Incarnations()[1].Err(), "the plugin panicked in CreateRoute")
		}
	})
}

// TestHang ends a process while a call of its plugin hangs.
func TestHang(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		api, plugin := newCluster(t), newCloud()
		api.populate(t, nodes)
		process := must.Value(managers.Start(t.Context(), manager, managers.Settings{
			Flags: routed, Transport: api,
			Plugin: func(started *managers.Incarnation) cloudprovider.Interface {
				plugin.misbehave["InstanceMetadata"] = []func(){func() { <-started.Ended() }}
				return plugin
			},
		}))(t)
		defer process.Release()
		time.Sleep(time.Minute)
		process.Terminate()
		began := time.Now()
		<-process.Ended()
		if took := time.Since(began); took > time.Minute {
			t.Errorf("ended after %s", took)
		}
	})
}

// informed is a plugin that takes informers.
type informed struct {
	*cloud
	factories int
}

func (i *informed) SetInformers(informers.SharedInformerFactory) { i.factories++ }

func TestInformerUser(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		plugin := &informed{cloud: newCloud()}
		process := must.Value(managers.Start(t.Context(), manager, managers.Settings{
			Flags: routed, Transport: newCluster(t), Plugin: func(*managers.Incarnation) cloudprovider.Interface { return plugin },
		}))(t)
		time.Sleep(time.Minute)
		process.Release()
		if plugin.factories != 1 {
			t.Errorf("the plugin got informers %d times", plugin.factories)
		}
	})
}

// TestExit has the plugin end the process by klog in its first call and in a later one.
func TestExit(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		api, plugin := newCluster(t), newCloud()
		api.populate(t, nodes)
		exit := func() { klog.Exit("no credentials") }
		plugin.misbehave["Initialize"], plugin.misbehave["InstanceMetadata"] = []func(){exit}, []func(){exit}
		r := replica(t, manager, api, plugin)
		time.Sleep(10 * time.Minute)
		api.expectSettled(t, nodes)
		processes := r.Incarnations()
		if len(processes) != 3 {
			t.Fatalf("%d processes, want 3", len(processes))
		}
		must.ErrorContains(t, processes[0].Err(), "Initialize: the process exited by klog")
		must.ErrorContains(t, processes[1].Err(), "InstanceMetadata: the process exited by klog")
	})
}

// TestErrorsDoNotPause reports errors in two bubbles, one after the other: client-go would wait for the time of the last error.
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

// TestClients looks at the clients of both managers: each of the reference's has a limit of its own, and the name that it has in production.
func TestClients(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		const nodes, burst = 60, 30
		api := newCluster(t)
		api.populate(t, nodes)
		replica(t, manager, api, newCloud())
		time.Sleep(10 * time.Minute)
		api.expectSettled(t, nodes)
		api.mu.Lock()
		defer api.mu.Unlock()
		for _, client := range []string{"node-controller", "service-controller", "route-controller"} {
			if api.most[client] == 0 {
				t.Errorf("%s asked nothing; the clients are %v", client, api.most)
			}
		}
		if most := api.most["route-controller"]; manager == managers.Reference && most != burst {
			t.Errorf("the route controller sent %d requests at one instant, and its limit is %d", most, burst)
		}
	})
}
