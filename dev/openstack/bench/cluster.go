package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/program"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

const (
	// managerName is what the manager's log is called.
	managerName = "manager"
	// look is how often the cluster is looked at.
	look = 250 * time.Millisecond
	// writers is how many requests the bench itself has under way at once.
	writers = 16
)

// upstreamRights lets upstream's manager do whatever it wants: who counts calls of the cloud is not to stumble over a right of the cluster.
const upstreamRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: bench}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: reference-ccm, namespace: kube-system}]
`

// cluster is the control plane of one manager.
type cluster struct {
	*harness.Cluster
	bench   *bench
	dir     string
	manager *program.Program
	// joined is how many nodes there are.
	joined int
}

func (b *bench) openCluster(ctx context.Context, dir string) (*cluster, error) {
	opened, err := harness.Open(ctx, localcluster.Options{Binaries: b.options.Binaries, Dir: filepath.Join(dir, "control-plane")},
		harness.Mooring, harness.Reference.With([]byte(upstreamRights)))
	if err != nil {
		return nil, err
	}
	return &cluster{Cluster: opened, bench: b, dir: dir}, nil
}

func (c *cluster) close(ctx context.Context) error {
	var err error
	if c.manager != nil {
		err = c.manager.Stop(ctx, harness.StopGrace)
	}
	return errors.Join(err, c.Stop(ctx))
}

func (c *cluster) startManager(ctx context.Context, wanted Program, config string) (err error) {
	identity := harness.Mooring
	if wanted.Upstream {
		identity = harness.Reference
	}
	c.manager, err = harness.Manager{
		Name: managerName, Dir: c.dir, Path: wanted.Path, Identity: identity, CloudConfig: config, Flags: []string{"--cloud-provider=openstack"},
	}.Start(ctx, c.Cluster)
	return err
}

// await looks until nothing is missing or the manager has ended.
func (c *cluster) await(ctx context.Context, missing func(context.Context) error) error {
	var last, ended error
	err := wait.PollUntilContextCancel(ctx, look, true, func(ctx context.Context) (bool, error) {
		if last = missing(ctx); last != nil && c.manager.State() != nil {
			ended = fmt.Errorf("the manager has ended (%s): %s", c.manager.State(), c.manager.Tail())
		}
		return last == nil, ended
	})
	if err != nil && ended == nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), last)
	}
	return err
}

func (c *cluster) awaitLeader(ctx context.Context) error {
	return c.await(ctx, func(ctx context.Context) error { return c.Led(ctx) })
}

// join has so many more servers register as nodes, all at once.
func (c *cluster) join(ctx context.Context, count int) error {
	first := c.joined
	c.joined += count
	return each(ctx, count, func(ctx context.Context, i int) error {
		node := nodeagent.Node(nodeagent.Options{Name: c.bench.servers[first+i].Name})
		_, err := c.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
}

// each does something so many times, some at once.
func each(ctx context.Context, count int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range count {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func (c *cluster) awaitInitialized(ctx context.Context) error {
	return c.await(ctx, func(ctx context.Context) error {
		nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		done := 0
		for _, node := range nodes.Items {
			if node.Spec.ProviderID != "" && !ownership.Uninitialized(&node) {
				done++
			}
		}
		return complete("nodes", done, c.joined)
	})
}

func complete(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("%d %s, want %d", got, what, want)
	}
	return nil
}

func serviceName(i int) string { return fmt.Sprintf("web-%02d", i+1) }

func (c *cluster) services() kubernetesServices {
	return c.Client.CoreV1().Services(metav1.NamespaceDefault)
}

func (c *cluster) createServices(ctx context.Context) error {
	return each(ctx, c.bench.options.Services, func(ctx context.Context, i int) error {
		_, err := c.services().Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: serviceName(i)},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
		}, metav1.CreateOptions{})
		return err
	})
}

// awaitAddresses waits until every Service has an address, and its load balancer all members.
func (c *cluster) awaitAddresses(ctx context.Context) error {
	err := c.await(ctx, func(ctx context.Context) error {
		list, err := c.services().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		done := 0
		for _, service := range list.Items {
			if len(service.Status.LoadBalancer.Ingress) > 0 {
				done++
			}
		}
		return complete("Services with an address", done, c.bench.options.Services)
	})
	if err != nil {
		return err
	}
	return c.awaitMembers(ctx)
}

// awaitMembers waits until every load balancer has every node as a member.
func (c *cluster) awaitMembers(ctx context.Context) error {
	return c.await(ctx, func(ctx context.Context) error { return c.bench.membersComplete(ctx, c.joined) })
}

func (c *cluster) deleteServices(ctx context.Context) error {
	return each(ctx, c.bench.options.Services, func(ctx context.Context, i int) error {
		return c.services().Delete(ctx, serviceName(i), metav1.DeleteOptions{})
	})
}

func (c *cluster) awaitNoServices(ctx context.Context) error {
	return c.await(ctx, func(ctx context.Context) error {
		list, err := c.services().List(ctx, metav1.ListOptions{LabelSelector: "!component"}) // which the API server's own Service has
		if err != nil {
			return err
		}
		return errors.Join(complete("Services", len(list.Items), 0), c.bench.balancersGone(ctx))
	})
}
