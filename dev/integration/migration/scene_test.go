package migration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/harness/harnesstest"
	controllers "github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

const (
	podCIDR   = "10.244.0.0/16"
	namespace = "default"
	// instances is how many machines the cloud has. The first nodesBefore are nodes before the first handover. The last one is the instance of
	// inTree.
	instances   = 6
	nodesBefore = 3
)

// Nodes that are there from the start, and that neither manager has initialized.
const (
	// inTree was initialized by a cloud provider in the kubelet, as of clusters that are older than cloud controller managers: it has
	// an instance, and neither a provider ID nor a taint.
	inTree = "node-006"
	// foreign is a node of another cloud.
	foreign   = "elsewhere"
	foreignID = "other:///zone-1/i-1"
)

// scene is a cluster and the cloud under it.
type scene struct {
	cluster *harness.Cluster
	client  *kubernetes.Clientset
	cloud   *simtest.Cloud
}

// identities are those of the managers, by kind.
var identities = map[string]harness.Identity{reference: harness.Reference, mooring: harness.Mooring}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{}
	s.cluster = harnesstest.Of(t, localclustertest.Start(t, localclustertest.WithControllerManager, func(o *localcluster.Options) {
		o.Audit = auditv1.LevelMetadata
		o.ControllerManagerArgs = []string{"--allocate-node-cidrs=true", "--cluster-cidr=" + podCIDR}
	}), harness.Reference, harness.Mooring)
	s.client = s.cluster.Client
	s.cloud = simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(instances)})
	s.register(t, nodeagent.Options{Name: inTree}, nodeagent.Options{Name: foreign, ProviderID: foreignID})
	s.untaint(t, inTree, foreign)
	return s
}

// untaint has nodes not wait for their initialization.
func (s *scene) untaint(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		controllers.ChangeNode(t, s.client, name, func(node *corev1.Node) {
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
				return taint.Key == cloudproviderapi.TaintExternalCloudProvider
			})
		})
	}
}

// join registers nodes and keeps them alive until the test ends.
func (s *scene) join(t *testing.T, names ...string) {
	t.Helper()
	var specs []nodeagent.Options
	for _, name := range names {
		specs = append(specs, nodeagent.Options{Name: name})
	}
	s.register(t, specs...)
}

func (s *scene) register(t *testing.T, specs ...nodeagent.Options) {
	t.Helper()
	agents, err := nodeagent.RegisterMany(t.Context(), s.cluster.AdminConfig(), specs, len(specs))
	must.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- nodeagent.RunAll(ctx, agents) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// serve creates a Service of type LoadBalancer.
func (s *scene) serve(t *testing.T, name string, edit func(*corev1.Service)) {
	t.Helper()
	wanted := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}
	if edit != nil {
		edit(wanted)
	}
	_, err := s.client.CoreV1().Services(namespace).Create(t.Context(), wanted, metav1.CreateOptions{})
	must.NoError(t, err)
}

// awaitWhole waits until every node is ready and has its route, and every Service its load balancer with all nodes behind it.
func (s *scene) awaitWhole(t *testing.T, nodes, services int) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("%d nodes and %d Services are done", nodes, services), func(ctx context.Context) error {
		now, err := s.look(ctx)
		if err != nil {
			return err
		}
		return now.unfinished(nodes, services)
	})
}

// awaitLeader waits until a manager other than the named ones leads, and returns its identity.
func (s *scene) awaitLeader(t *testing.T, but ...string) string {
	t.Helper()
	poll.Until(t, "another manager leads", func(ctx context.Context) error { return s.cluster.Led(ctx, but...) })
	who, err := s.cluster.Leader(t.Context())
	must.NoError(t, err)
	return who
}

// calls returns how often each operation of the cloud was called since a reading.
func (s *scene) calls(since map[api.Operation]int64) map[api.Operation]int64 {
	counts := map[api.Operation]int64{}
	for op, n := range s.cloud.Service.Counts().Operations {
		if more := n.Received - since[op]; more > 0 {
			counts[op] = more
		}
	}
	return counts
}

// changes returns those of the calls that change something, however they ended.
func changes(calls map[api.Operation]int64) map[api.Operation]int64 {
	changing := map[api.Operation]int64{}
	for op, n := range calls {
		if !strings.HasPrefix(string(op), "Get") && !strings.HasPrefix(string(op), "List") && op != api.OpWatchInstances {
			changing[op] = n
		}
	}
	return changing
}

// writes counts what a manager has written to nodes, Services and other objects of the API server, from a place of the audit log.
// Leases and events are left out: both say something about the manager, not about the cluster.
func (s *scene) writes(t *testing.T, kind string, since harness.Mark) map[string]int {
	t.Helper()
	requests, err := s.cluster.Requests(t.Context(), identities[kind].User(), since)
	must.NoError(t, err)
	counts := map[string]int{}
	for _, request := range requests {
		// A SelfSubjectAccessReview or a TokenReview asks a question by a POST.
		object := request.ObjectRef
		if localcluster.IsWrite(request) && object != nil && (object.Resource == "nodes" || object.Resource == "services") {
			counts[harness.What(request)+" "+object.Name]++
		}
	}
	return counts
}

// audited returns how far the audit log is.
func (s *scene) audited(t *testing.T) harness.Mark {
	t.Helper()
	mark, err := s.cluster.Mark(t.Context())
	must.NoError(t, err)
	return mark
}
