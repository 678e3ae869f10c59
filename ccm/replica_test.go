package ccm_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/provider"
)

// announcingProvider is the call log plugin with a part that runs on every replica. announcingNeedsProvider needs rights that no test grants
// otherwise.
const (
	announcingProvider      = "announcing"
	announcingNeedsProvider = "announcing-needs"
)

func init() {
	for _, name := range []string{announcingProvider, announcingNeedsProvider} {
		cloudprovider.RegisterCloudProvider(name, func(config io.Reader) (cloudprovider.Interface, error) {
			plugin, err := newCallLogCloud(config)
			if err != nil {
				return nil, err
			}
			return &announcingCloud{plugin.(*callLogCloud), name}, nil
		})
	}
}

// announcingCloud writes when its part begins and ends.
type announcingCloud struct {
	*callLogCloud
	name string
}

func (c *announcingCloud) ProviderName() string { return c.name }

func (c *announcingCloud) Capabilities() provider.Capabilities {
	capabilities := provider.Capabilities{RunOnEveryReplica: c.announce, ReplicaReady: c.ready}
	if c.name == announcingNeedsProvider {
		capabilities.Rules = []rbacv1.PolicyRule{
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}},
		}
	}
	return capabilities
}

const (
	announces = "announces"
	withdraws = "withdraws"
)

func (c *announcingCloud) announce(ctx context.Context, replica provider.Replica) error {
	replica.Informers.Core().V1().Nodes().Informer()
	replica.Informers.Start(ctx.Done())
	defer replica.Informers.Shutdown()
	replica.Informers.WaitForCacheSync(ctx.Done())
	c.callLog.write("pods within %v", replica.ClusterCIDRs)
	c.callLog.write(announces)
	<-ctx.Done()
	c.callLog.write(withdraws)
	return nil
}

// notReadyFile is a file that keeps replicas from being ready.
func (j callLog) notReadyFile() string { return string(j) + ".not-ready" }

func (c *announcingCloud) ready() error {
	if _, err := os.Stat(c.callLog.notReadyFile()); err == nil {
		return errors.New("no router knows of this replica")
	}
	return nil
}

// announcing makes the replicas run the announcing plugin.
func (r *replicas) announcing() *replicas {
	r.args[0] = "--cloud-provider=" + announcingProvider
	return r
}

func TestEveryReplicaRunsItsPartToTheEnd(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig, "--cluster-cidr=10.200.0.0/16,fd00:200::/48").announcing()
	leader, standby := r.lead(t), r.stand(t)
	for _, pid := range []int{leader.PID(), standby.PID()} {
		r.callLog.awaitEntry(t, pid, announces)
		if life := r.callLog.of(t, pid); !slices.Contains(life, "pods within [10.200.0.0/16 fd00:200::/48]") {
			t.Errorf("what runs on every replica is not given --cluster-cidr: %q", life)
		}
	}

	leader.signal(t, syscall.SIGTERM)
	if code := leader.wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	// The plugin's own goroutine writes this entry, and the manager does not wait for it.
	life := slices.DeleteFunc(r.callLog.of(t, leader.PID()), func(what string) bool { return what == "stop channel closed" })
	if last := life[len(life)-1]; last != withdraws {
		t.Errorf("the leader's life ends with %q: %q", last, life)
	}
	r.callLog.awaitEntry(t, standby.PID(), beating+" started")
	if slices.Contains(r.callLog.of(t, standby.PID()), withdraws) {
		t.Error("the standby stopped announcing when it took over")
	}
}

// TestReadyAsTheProviderSays starts replicas that are well in every other way.
func TestReadyAsTheProviderSays(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig).announcing()
	if err := os.WriteFile(r.callLog.notReadyFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	may, _ := tokens(t, r.client)
	var ports []endpoint
	for _, what := range []string{"leader", "standby"} {
		port := localclustertest.FreePort(t)
		p := start(t, append(r.args, "--secure-port="+port)...)
		r.callLog.awaitEntry(t, p.PID(), announces)
		at := newEndpoint(t, port)
		at.await(t, "/readyz", http.StatusInternalServerError)
		at.await(t, "/readyz?exclude=every-replica", http.StatusOK)
		if _, body, _ := at.get(t, "/readyz/every-replica", may); !strings.Contains(body, "no router knows of this replica") {
			t.Errorf("the check of the %s does not say why: %s", what, body)
		}
		at.await(t, "/livez", http.StatusOK)
		ports = append(ports, at)
	}
	if err := os.Remove(r.callLog.notReadyFile()); err != nil {
		t.Fatal(err)
	}
	for _, at := range ports {
		at.await(t, "/readyz", http.StatusOK)
	}
}

func TestRightsOfTheProviderItself(t *testing.T) {
	_, kubeconfig := controlPlane(t)
	config, _ := cloudConfig(t, nil)
	p := start(t, "--cloud-provider="+announcingNeedsProvider, "--cloud-config="+config, "--kubeconfig="+kubeconfig, "--secure-port=0",
		"--controllers=failing-controller")
	if code := p.wait(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{"may not list endpointslices.discovery.k8s.io", "may not list secrets"} {
		if got := p.errorLines(); !strings.Contains(got, want) {
			t.Errorf("the error does not say %q:\n%s", want, got)
		}
	}
}

// TestPartRunsWithoutTheLease cuts the leader off. It may no longer lead, and announces all the same.
func TestPartRunsWithoutTheLease(t *testing.T) {
	cluster := localclustertest.Start(t)
	ctx := context.WithoutCancel(t.Context())
	r := newReplicas(t, cluster, shippedIdentity(t, cluster), "--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=4s",
		"--leader-elect-retry-period=1s").announcing() // which leaves the controllers 2.5 s to stop, on a machine that is busy
	leader := r.lead(t)
	if err := cluster.StopAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	leader.awaitOutput(t, "Lost the lease and stopped the controllers")
	r.callLog.awaitEntry(t, leader.PID(), "stop channel closed") // The manager does not wait for the plugin's goroutine.
	life := r.callLog.of(t, leader.PID())
	for _, want := range []string{beating + " stopped", "stop channel closed"} {
		if !slices.Contains(life, want) {
			t.Errorf("the replica goes on without %q: %q", want, life)
		}
	}
	if slices.Contains(life, withdraws) {
		t.Errorf("the part ended with the lease: %q", life)
	}
	if err := cluster.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if code := leader.wait(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if got := leader.errorLine(); got != "stopped: leader election lost" {
		t.Errorf("error %q", got)
	}
	if life := r.callLog.of(t, leader.PID()); !slices.Contains(life, withdraws) {
		t.Errorf("the part did not end in order: %q", life)
	}
}
