package migration_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/localcluster"
	"github.com/mooring-ccm/mooring/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/localcluster/nodeagent"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
	"github.com/mooring-ccm/mooring/test/integration/harness"
)

const (
	podCIDR   = "10.244.0.0/16"
	namespace = "default"
	// instances is how many machines the cloud has. The first nodesBefore are nodes before the first handover, and the last one is that
	// of inTree.
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
	cluster *localcluster.Cluster
	client  *kubernetes.Clientset
	cloud   *simtest.Cloud
	// kubeconfigs and users are those of the managers, by kind.
	kubeconfigs, users map[string]string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{kubeconfigs: map[string]string{}, users: map[string]string{}}
	s.cluster = localclustertest.Start(t, localclustertest.WithControllerManager, func(o *localcluster.Options) {
		o.Audit = auditv1.LevelMetadata
		o.ControllerManagerArgs = []string{"--allocate-node-cidrs=true", "--cluster-cidr=" + podCIDR}
	})
	var err error
	s.client, err = kubernetes.NewForConfig(s.cluster.AdminConfig())
	harness.Must(t, err)
	referenceRights, err := os.ReadFile("../../harness/rbac-reference.yaml")
	harness.Must(t, err)
	for kind, rights := range map[string]struct {
		objects []byte
		account string
	}{reference: {referenceRights, "reference-ccm"}, mooring: {deploy.RBAC, harness.Account}} {
		harness.Must(t, s.cluster.Apply(t.Context(), rights.objects))
		s.kubeconfigs[kind], err = s.cluster.ServiceAccountKubeconfig(t.Context(), metav1.NamespaceSystem, rights.account)
		harness.Must(t, err)
		s.users[kind] = "system:serviceaccount:kube-system:" + rights.account
	}
	s.cloud = simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(instances)})
	s.register(t, nodeagent.Options{Name: inTree}, nodeagent.Options{Name: foreign, ProviderID: foreignID})
	s.untaint(t, inTree, foreign)
	return s
}

// untaint has nodes not wait for their initialization.
func (s *scene) untaint(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		harness.Eventually(t, name+" has no taint of the cloud's", func(ctx context.Context) error {
			node, err := s.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
				return taint.Key == cloudproviderapi.TaintExternalCloudProvider
			})
			_, err = s.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
			return err
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
	harness.Must(t, err)
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
	harness.Must(t, err)
}

// awaitWhole waits until every node is ready and has its route, and every Service its load balancer with all nodes behind it.
func (s *scene) awaitWhole(t *testing.T, nodes, services int) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%d nodes and %d Services are done", nodes, services), func(ctx context.Context) error {
		now, err := s.look(ctx)
		if err != nil {
			return err
		}
		return now.unfinished(nodes, services)
	})
}

// leader returns who holds the lease by which both managers find their leader.
func (s *scene) leader(ctx context.Context) (string, error) {
	lease, err := s.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, "cloud-controller-manager", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return ptr.Deref(lease.Spec.HolderIdentity, ""), nil
}

// awaitLeader waits until somebody other than those named leads, and returns who.
func (s *scene) awaitLeader(t *testing.T, but ...string) (who string) {
	t.Helper()
	harness.Eventually(t, "another manager leads", func(ctx context.Context) (err error) {
		if who, err = s.leader(ctx); err == nil && (who == "" || slices.Contains(but, who)) {
			err = fmt.Errorf("the lease is held by %q", who)
		}
		return err
	})
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
func (s *scene) writes(t *testing.T, kind string, since int) map[string]int {
	t.Helper()
	events, err := s.cluster.AuditEvents(t.Context())
	harness.Must(t, err)
	counts := map[string]int{}
	for _, event := range events[since:] {
		if event.User.Username != s.users[kind] || event.Stage != auditv1.StageResponseComplete || event.ObjectRef == nil ||
			!localcluster.IsWrite(event) {
			continue
		}
		// A SelfSubjectAccessReview or a TokenReview asks a question by a POST.
		if object := event.ObjectRef; object.Resource == "nodes" || object.Resource == "services" {
			counts[strings.TrimSuffix(event.Verb+" "+object.Resource+"/"+object.Subresource, "/")+" "+object.Name]++
		}
	}
	return counts
}

// audited returns how long the audit log is.
func (s *scene) audited(t *testing.T) int {
	t.Helper()
	events, err := s.cluster.AuditEvents(t.Context())
	harness.Must(t, err)
	return len(events)
}
