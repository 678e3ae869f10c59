package service_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/controller/service"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// plant makes a load balancer for a Service that does not exist.
func plant(t *testing.T, plugin *sim.Cloud, name string, clusterUID types.UID) {
	t.Helper()
	ctx := t.Context()
	if clusterUID != "" {
		ctx = provider.WithClusterUID(ctx, clusterUID)
	}
	lb, _ := plugin.LoadBalancer()
	serviceUIDs[name] = uuid.NewUUID()
	_, err := lb.EnsureLoadBalancer(ctx, "", &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: serviceUIDs[name]},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
	}, nil)
	must.NoError(t, err)
}

// clusterUID is the UID by which load balancers of the cluster are known. A new cluster has it after a moment.
func clusterUID(t *testing.T, client *kubernetes.Clientset) (uid types.UID) {
	t.Helper()
	poll.Until(t, "the cluster has a UID", func(ctx context.Context) error {
		found, err := client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		if err == nil {
			uid = found.UID
		}
		return err
	})
	return uid
}

// What belongs to no Service is reported, and deleted only if that is wished and the cluster's UID proves whose it is.
func TestOrphans(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	plant(t, plugin, "left", clusterUID(t, admin))
	plant(t, plugin, "whose", "")
	plant(t, plugin, "theirs", "another cluster")
	m := startManager(t, cluster, plugin, checked)
	createService(t, "live")
	waitReady(t, "live", "True Provided")
	count := func(owner string, want float64) {
		t.Helper()
		poll.Until(t, "orphans are counted", func(context.Context) error {
			if got := m.Metric(t, "mooring_service_orphans", "owner", owner); got != want {
				return fmt.Errorf("%v of %s", got, owner)
			}
			return nil
		})
	}
	count("this_cluster", 1)
	count("unknown", 1)
	waitEvents(t, "left", "Warning OrphanLoadBalancer")
	waitEvents(t, "whose", "Warning OrphanLoadBalancer")
	waitAudits(t, m, 3)
	if n := running.Service.Counts().Received(api.OpDeleteLoadBalancer); n != 0 || len(balancers(t, running)) != 4 {
		t.Errorf("%d deletions although none are wished", n)
	}
	m.Stop()

	m = startManager(t, cluster, plugin, checked, func(o *service.Options) { o.CollectOrphans = true })
	poll.Until(t, "what is ours is deleted", func(context.Context) error {
		if left := balancers(t, running); len(left) != 3 {
			return fmt.Errorf("%d load balancers", len(left))
		}
		return nil
	})
	waitAudits(t, m, 4)
	left := balancers(t, running)
	for _, name := range []string{"live", "whose", "theirs"} {
		if _, found := left[name]; !found {
			t.Errorf("%s is gone", name)
		}
	}
	if n := running.Service.Counts().Received(api.OpDeleteLoadBalancer); n != 1 {
		t.Errorf("%d deletions, want 1", n)
	}
	waitEvents(t, "left", "Warning OrphanLoadBalancer", "Normal DeletedOrphanLoadBalancer")
	waitEvents(t, "theirs")
	count("this_cluster", 0)
}

// Lists that say too little delete nothing: neither an empty one nor a Kubernetes that hides its Services.
func TestNothingIsCollectedOnTheFirstSight(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	plant(t, plugin, "seen-once", clusterUID(t, admin))
	// A busy machine has to look at the cloud before the second comparison.
	m := startManager(t, cluster, plugin, func(o *service.Options) { o.DriftCheckPeriod, o.CollectOrphans = 10*time.Second, true })
	waitAudits(t, m, 1)
	if n := running.Service.Counts().Received(api.OpDeleteLoadBalancer); n != 0 {
		t.Errorf("%d deletions after one comparison", n)
	}
	poll.Until(t, "it is deleted after the second", func(context.Context) error {
		if n := running.Service.Counts().Received(api.OpDeleteLoadBalancer); n != 1 {
			return fmt.Errorf("%d deletions", n)
		}
		return nil
	})
	if got := driftChecks(t, m); got < 2 {
		t.Errorf("it was deleted after %v drift checks", got)
	}
}

// balancersByUID returns the load balancers in the cloud by the UID of their Service.
func balancersByUID(t *testing.T, running *simtest.Cloud) map[string]api.LoadBalancer {
	t.Helper()
	found := map[string]api.LoadBalancer{}
	must.NoError(t, running.Client.ListLoadBalancers(t.Context(), nil, func(page []api.LoadBalancer) error {
		for _, balancer := range page {
			found[balancer.Tags[sim.TagServiceUID]] = balancer
		}
		return nil
	}))
	return found
}

// Two clusters of one name share an account. Each has a Service of the same name; neither touches what is the other's, though
// both delete orphans, and one of them ends up with no Service at all.
func TestTwoClustersOfOneName(t *testing.T) {
	running, plugin := simulate(t, 2, api.Knobs{})
	joinNodes(t, 1)
	second := localclustertest.Start(t, func(o *localcluster.Options) { o.Audit = auditv1.LevelMetadata })
	must.NoError(t, second.Apply(t.Context(), deploy.RBAC))
	other, err := kubernetes.NewForConfig(second.AdminConfig())
	must.NoError(t, err)
	if clusterUID(t, admin) == clusterUID(t, other) {
		t.Fatal("the clusters have one UID")
	}
	deleting := func(o *service.Options) { o.CollectOrphans = true }
	first := startManager(t, cluster, plugin, checked, deleting)
	away := startManager(t, second, harness.Provider(t, running.ConfigFile), checked, deleting)

	createService(t, "shared-name")
	waitReady(t, "shared-name", "True Provided")
	theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shared-name"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 443}},
	}}
	_, err = other.CoreV1().Services(namespace).Create(t.Context(), theirs, metav1.CreateOptions{})
	must.NoError(t, err)
	byUID := func() map[string]api.LoadBalancer { return balancersByUID(t, running) }
	poll.Until(t, "each has its load balancer", func(context.Context) error {
		if found := byUID(); len(found) != 2 {
			return fmt.Errorf("%d load balancers", len(found))
		}
		return nil
	})
	writes := running.Service.Counts().Received(writeOps...)
	waitAudits(t, first, 3)
	waitAudits(t, away, 3)
	if now := running.Service.Counts().Received(writeOps...); now != writes {
		t.Errorf("%d writes by clusters that have nothing to do", now-writes)
	}
	must.NoError(t, other.CoreV1().Services(namespace).Delete(t.Context(), "shared-name", metav1.DeleteOptions{}))
	mine := string(getService(t, "shared-name").UID)
	poll.Until(t, "the other's is gone", func(context.Context) error {
		if found := byUID(); len(found) != 1 {
			return fmt.Errorf("%d load balancers", len(found))
		}
		return nil
	})
	waitAudits(t, first, 3)
	waitAudits(t, away, 3)
	if found := byUID(); len(found) != 1 || found[mine].Name == "" || len(found[mine].Targets) != 1 {
		t.Errorf("left in the cloud: %v, want the load balancer of %s", found, mine)
	}
	for name, m := range map[string]manager{"first": first, "second": away} {
		if got := m.Metric(t, "mooring_service_orphans"); got != 0 {
			t.Errorf("the %s cluster sees %v orphans", name, got)
		}
	}
}
