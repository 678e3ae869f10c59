package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// engine is the controller without controller-runtime around it: queue, workers, targets and all that they call.
type engine struct {
	cluster *cluster
	cloud   *memoryCloud
	// instances is asked for nodes; nil: a plugin that cannot be asked.
	instances cloudprovider.Interface
	core      *Controller
	// record is where it is recorded what was made; nil: nowhere.
	record  *Record
	watcher watcher
	queue   priorityqueue.PriorityQueue[reconcile.Request]
	events  *record.FakeRecorder
	stop    func()
}

// wireTest wires a controller as New does, which leads. Its pauses have no jitter, and it knows the cluster's UID.
func wireTest(options Options, balancer cloudprovider.LoadBalancer) *Controller {
	options.Classes, options.Owners = Classes{Default: true}, ownership.Rules{ProviderName: "sim"}
	options.TargetDelay, options.FirstRetry, options.LongestRetry = DefaultTargetDelay, DefaultFirstRetry, kit.LongestRetry
	c := wire(options)
	c.backoff.jitter = false
	c.lead(balancer).clusterUID = func(context.Context) types.UID { return "me" }
	return c
}

// startEngine starts an engine with as many workers as writes. It must be stopped before the test's bubble ends.
func startEngine(t testing.TB, writes int, edits ...func(*engine)) *engine {
	t.Helper()
	e := &engine{cluster: newCluster(), events: record.NewFakeRecorder(100_000), cloud: &memoryCloud{
		balancer: map[types.UID]map[string]string{}, calls: map[string]int{},
	}}
	for _, edit := range edits {
		edit(e)
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Millisecond, time.Second)
	e.queue = priorityqueue.New(t.Name(), func(options *priorityqueue.Opts[reconcile.Request]) { options.RateLimiter = limiter })
	if e.instances == nil {
		e.instances = e.cloud
	}
	e.core = wireTest(Options{
		Cloud: e.cloud, Client: e.cluster, Recorder: e.events, Writes: writes, TargetQuiet: DefaultTargetQuiet, AbsenceTime: DefaultAbsenceTime,
		DriftCheckPeriod: -1, DriftCheckCalls: DefaultDriftCheckCalls, Record: e.record,
	}, e.cloud)
	_ = e.core.enqueuer.Capture(context.Background(), e.queue)
	e.watcher = watcher{e.core.reconciler}
	e.run(workersFor(e.core.limiter.Places()))
	return e
}

func (e *engine) run(workers int) {
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), logr.Discard()))
	var running sync.WaitGroup
	e.stop = func() {
		cancel()
		e.queue.ShutDown()
		running.Wait()
	}
	running.Go(func() { e.core.record.run(ctx, e.core.states, e.core.targets) })
	running.Go(func() { e.core.targets.run(ctx, func() { e.core.retarget(ctx) }) })
	for range workers {
		running.Go(func() {
			for {
				request, priority, shutdown := e.queue.GetWithPriority()
				if shutdown {
					return
				}
				result, err := e.core.reconciler.Reconcile(ctx, request)
				if err != nil {
					panic(err)
				}
				if result.Priority != nil {
					priority = *result.Priority
				}
				if result.RequeueAfter > 0 {
					e.queue.AddWithOpts(priorityqueue.AddOpts{After: result.RequeueAfter, Priority: &priority}, request)
				}
				e.queue.Done(request)
			}
		})
	}
}

// addService creates a Service, as a user does.
func (e *engine) addService(service *corev1.Service) {
	e.cluster.put(service)
	e.watcher.changed(e.queue, nil, service)
}

// edit changes a Service as a user or another controller does, and delivers the watch event.
func (e *engine) edit(key types.NamespacedName, change func(*corev1.Service)) {
	e.cluster.mu.Lock()
	before := e.cluster.services[key]
	after := before.DeepCopy()
	change(after)
	e.cluster.version++
	after.ResourceVersion = strconv.Itoa(e.cluster.version)
	e.cluster.services[key] = after
	e.cluster.mu.Unlock()
	e.watcher.changed(e.queue, before, after)
}

// service returns a Service as it is now, nil if it is gone.
func (e *engine) service(key types.NamespacedName) *corev1.Service {
	e.cluster.mu.Lock()
	defer e.cluster.mu.Unlock()
	if service, found := e.cluster.services[key]; found {
		return service.DeepCopy()
	}
	return nil
}

// recorded returns the events so far of some reasons, and forgets all.
func (e *engine) recorded(reasons ...string) []string {
	var found []string
	for range len(e.events.Events) {
		event := <-e.events.Events
		if slices.ContainsFunc(reasons, func(reason string) bool { return strings.Contains(event, " "+reason+" ") }) {
			found = append(found, event)
		}
	}
	return found
}

// changeNode changes, creates or, with nil, deletes a node.
func (e *engine) changeNode(name string, node *corev1.Node) {
	e.cluster.mu.Lock()
	before := e.cluster.nodes[name]
	if node == nil {
		delete(e.cluster.nodes, name)
	} else {
		e.cluster.nodes[name] = node
	}
	e.cluster.mu.Unlock()
	if before == nil || node == nil {
		e.core.targets.note(node == nil)
	} else {
		e.core.targets.updated(before, node)
	}
}

// expected is the dumb model: who must be a target, and who may be one besides.
func (e *engine) expected() (must map[string]string, may []string) {
	e.cluster.mu.Lock()
	defer e.cluster.mu.Unlock()
	must = map[string]string{}
	for name, node := range e.cluster.nodes {
		hasTaint := func(key string) bool {
			return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
		}
		_, excluded := node.Labels["node.kubernetes.io/exclude-from-external-load-balancers"]
		if excluded || node.Annotations["mooring.dev/ignore"] == "true" {
			continue
		}
		// A node that has the taint for its initialization again stays a target if it was one.
		if node.DeletionTimestamp != nil || hasTaint("ToBeDeletedByClusterAutoscaler") || hasTaint(cloudproviderapi.TaintExternalCloudProvider) {
			may = append(may, name)
			continue
		}
		must[name] = identityOf(node)
	}
	return must, may
}

// mismatch compares the load balancers in the cloud with the model.
func (e *engine) mismatch() error {
	must, may := e.expected()
	e.cluster.mu.Lock()
	defer e.cluster.mu.Unlock()
	e.cloud.mu.Lock()
	defer e.cloud.mu.Unlock()
	for key, service := range e.cluster.services {
		has, exists := e.cloud.balancer[service.UID]
		if !exists {
			return fmt.Errorf("%s has no load balancer", key)
		}
		rest := maps.Clone(has)
		for name, identity := range must {
			if has[name] != identity {
				return fmt.Errorf("%s misses %s as %q, has %v", key, name, identity, has)
			}
			delete(rest, name)
		}
		for name := range rest {
			if !slices.Contains(may, name) {
				return fmt.Errorf("%s has %s, which may not be a target", key, name)
			}
		}
	}
	return nil
}
