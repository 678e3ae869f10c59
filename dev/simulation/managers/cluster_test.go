package managers_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/simulation/apiserver"
)

// cluster is an API server with its users.
type cluster struct {
	server *apiserver.Server
	users  *kubernetes.Clientset
	// away says that the API server refuses the connections of managers.
	away atomic.Bool

	mu sync.Mutex
	// most is the largest number of requests of a client at one instant, by its user agent. instants are the last ones.
	most     map[string]int
	instants map[string]instant
}

// instant is how many requests of a client came at one time.
type instant struct {
	time  time.Time
	count int
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{most: map[string]int{}, instants: map[string]instant{}}
	c.server = apiserver.New(apiserver.Options{})
	config := c.server.Config("user")
	config.QPS = -1
	c.users = must.Value(kubernetes.NewForConfig(config))(t)
	return c
}

// RoundTrip implements http.RoundTripper for a manager.
func (c *cluster) RoundTrip(request *http.Request) (*http.Response, error) {
	c.count(request.UserAgent())
	if c.away.Load() {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, syscall.ECONNREFUSED
	}
	return c.server.Client("manager").RoundTrip(request)
}

// count counts a request of a client. The user agent ends with the name of the client, if it has one.
func (c *cluster) count(userAgent string) {
	client := userAgent[strings.LastIndexByte(userAgent, '/')+1:]
	c.mu.Lock()
	defer c.mu.Unlock()
	now := instant{time: time.Now(), count: 1}
	if last := c.instants[client]; last.time.Equal(now.time) {
		now.count += last.count
	}
	c.instants[client] = now
	c.most[client] = max(c.most[client], now.count)
}

// populate has kubelets register nodes and a user make a Service.
func (c *cluster) populate(t *testing.T, nodes int) {
	t.Helper()
	for i := range nodes {
		network := fmt.Sprintf("10.0.%d.0/24", i)
		must.Value(c.users.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)},
			Spec: corev1.NodeSpec{PodCIDR: network, PodCIDRs: []string{network}, Taints: []corev1.Taint{
				{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
			}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}, metav1.CreateOptions{}))(t)
	}
	must.Value(c.users.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))(t)
}

// expectSettled fails the test unless all nodes are initialized and the Service has its load balancer.
func (c *cluster) expectSettled(t *testing.T, nodes int) {
	t.Helper()
	list := must.Value(c.users.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t)
	if len(list.Items) != nodes {
		t.Errorf("%d nodes", len(list.Items))
	}
	for _, node := range list.Items {
		uninitialized := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == cloudproviderapi.TaintExternalCloudProvider
		})
		if node.Spec.ProviderID != "memory://"+node.Name || uninitialized {
			t.Errorf("%s has provider ID %q and taints %v", node.Name, node.Spec.ProviderID, node.Spec.Taints)
		}
	}
	service := must.Value(c.users.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "web", metav1.GetOptions{}))(t)
	if len(service.Status.LoadBalancer.Ingress) != 1 {
		t.Errorf("the Service has status %+v", service.Status)
	}
}

// takeLease has another process take the lease of the manager.
func (c *cluster) takeLease(t *testing.T) {
	t.Helper()
	leases := c.users.CoordinationV1().Leases(metav1.NamespaceSystem)
	must.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease, err := leases.Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{})
		if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
			return fmt.Errorf("the manager does not hold its lease: %w", err)
		}
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To("another"), ptr.To(metav1.NewMicroTime(time.Now()))
		_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
		return err
	}))
}
