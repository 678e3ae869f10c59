package ccm_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// replicas starts programs that share a cloud, a call log and the Lease, which no earlier test holds.
type replicas struct {
	cluster *localcluster.Cluster
	client  kubernetes.Interface
	callLog callLog
	args    []string
}

func newReplicas(t *testing.T, cluster *localcluster.Cluster, kubeconfig string, args ...string) *replicas {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	r := &replicas{cluster: cluster, client: client}
	var config string
	config, r.callLog = cloudConfig(t, nil)
	r.args = append([]string{"--cloud-provider=callLog", "--cloud-config=" + config, "--kubeconfig=" + kubeconfig, "--controllers=beating",
		"--secure-port=0", "--callLog=" + string(r.callLog)}, args...)
	err = client.CoordinationV1().Leases("kube-system").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lead starts a replica and waits until it leads.
func (r *replicas) lead(t *testing.T) program {
	t.Helper()
	p := start(t, r.args...)
	r.callLog.awaitEntry(t, p.PID(), beating+" started")
	return p
}

// stand starts a replica and waits until it stands by.
func (r *replicas) stand(t *testing.T) program {
	t.Helper()
	p := start(t, r.args...)
	p.awaitOutput(t, `"Attempting to acquire leader lease..."`)
	return p
}

// awaitLeader waits until one of the programs leads, and returns it.
func (r *replicas) awaitLeader(t *testing.T, candidates ...program) program {
	t.Helper()
	var leader program
	poll.Until(t, "one of the standbys leads", func(context.Context) error {
		for _, candidate := range candidates {
			if slices.Contains(r.callLog.of(t, candidate.PID()), beating+" started") {
				leader = candidate
				return nil
			}
		}
		return errors.New("none does")
	})
	return leader
}

func (r *replicas) lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	lease, err := r.client.CoordinationV1().Leases("kube-system").Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// holder returns who holds the Lease.
func (r *replicas) holder(t *testing.T) string {
	t.Helper()
	return ptr.Deref(r.lease(t).Spec.HolderIdentity, "")
}

// usurp gives a Lease to another holder for an hour.
func (r *replicas) usurp(t *testing.T, name string) {
	t.Helper()
	leases := r.client.CoordinationV1().Leases("kube-system")
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := leases.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To("another"), ptr.To[int32](3600)
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// requireNoOverlap fails if a controller of one process did anything between the start and the stop of another's. The order
// is the order of lines in one file, so no clock is involved. It waits for a first beat: a leader may have been killed before it.
func (r *replicas) requireNoOverlap(t *testing.T) {
	t.Helper()
	r.callLog.awaitAny(t, beat)
	acting := 0
	for _, one := range r.callLog.read(t) {
		switch one.what {
		case beating + " started":
			acting = one.pid
		case beat:
			if one.pid != acting {
				t.Fatalf("process %d acts although process %d has begun", one.pid, acting)
			}
		}
	}
}

func TestOrderOfOneLife(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	for name, test := range map[string]struct{ flag, lease string }{
		"with leader election":    {"--leader-elect", "held"},
		"without leader election": {"--leader-elect=false", `leases.coordination.k8s.io "cloud-controller-manager" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			config, written := cloudConfig(t, func(settings *callLogConfig) { settings.Linger = true })
			r := newReplicas(t, cluster, kubeconfig, test.flag, "--cloud-config="+config, "--callLog="+string(written))
			r.callLog = written
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "seen"}}
			if _, err := r.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.client.CoreV1().Nodes().Delete(cleanUp(t), "seen", metav1.DeleteOptions{}) })

			p := r.lead(t)
			written.awaitEntry(t, p.PID(), lingers)
			p.signal(t, syscall.SIGTERM)
			if code := p.wait(t); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			want := []string{
				"new", beating + " built", "HasClusterID", "Initialize", "SetInformers", beating + " started",
				beating + " stopped", "stop channel closed, lease " + test.lease,
			}
			got := slices.DeleteFunc(written.of(t, p.PID()), func(what string) bool { return what == lingers })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("life of the plugin (-want +got):\n%s", diff)
			}
			if alarm := regexp.MustCompile(`(?m)^E\d{4} .*`).FindString(p.Output()); alarm != "" {
				t.Errorf("an orderly life is logged as an error: %s", alarm)
			}
			if test.lease == "held" && r.holder(t) != "" {
				t.Error("the lease was not released")
			}
		})
	}
}

// TestUntaggedCloud shows that --allow-untagged-cloud is heeded, and said.
func TestUntaggedCloud(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig)
	config, written := cloudConfig(t, func(settings *callLogConfig) { settings.NoClusterID = true })
	p := start(t, append(r.args, "--cloud-config="+config, "--allow-untagged-cloud")...)
	r.callLog.awaitEntry(t, p.PID(), beating+" started")
	written.awaitEntry(t, p.PID(), "Initialize")
	p.awaitOutput(t, "The cloud provider found no cluster ID; continuing because of --allow-untagged-cloud")
}

func TestStandbyLeavesThePluginAloneAndTakesOverAtOnce(t *testing.T) {
	// With a retry period this long, a standby that polled could not take over before it ends.
	const retry = 30 * time.Second
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig, "--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=50s",
		"--leader-elect-retry-period="+retry.String())
	leader, standby := r.lead(t), r.stand(t)
	if diff := cmp.Diff([]string{"new", beating + " built"}, r.callLog.of(t, standby.PID())); diff != "" {
		t.Errorf("on the standby (-want +got):\n%s", diff)
	}
	began := time.Now()
	leader.signal(t, syscall.SIGTERM)
	r.callLog.awaitEntry(t, standby.PID(), beating+" started")
	elapsed := time.Since(began)
	t.Logf("from SIGTERM to the next leader's controller, of which about 100 ms are the controller's own stop: %s", elapsed)
	if elapsed >= retry {
		t.Errorf("the standby asked for the lease after the retry period instead of hearing of its release")
	}
	if code := leader.wait(t); code != 0 {
		t.Errorf("exit code of the old leader: %d, want 0", code)
	}
	r.requireNoOverlap(t)
	lease := r.lease(t)
	if renewed := lease.Spec.RenewTime.Time; renewed.Before(began) {
		t.Errorf("the new leader's lease says that it was renewed at %s, before it was taken at %s", renewed, began)
	}
	if acquired := lease.Spec.AcquireTime.Time; acquired.Before(began) {
		t.Errorf("the new leader's lease says that it was acquired at %s, before it was taken at %s", acquired, began)
	}
}

func TestOfSeveralStandbysOneWins(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig)
	leader := r.lead(t)
	standbys := []program{r.stand(t), r.stand(t)}
	for len(standbys) > 0 {
		leader.signal(t, syscall.SIGTERM)
		if code := leader.wait(t); code != 0 {
			t.Errorf("exit code of the old leader: %d, want 0", code)
		}
		leader = r.awaitLeader(t, standbys...)
		standbys = slices.DeleteFunc(standbys, func(p program) bool { return p == leader })
	}
	r.requireNoOverlap(t)
}

// TestKilledLeader shows that a lease that is not released is taken after its duration, not after twice that.
func TestKilledLeader(t *testing.T) {
	const duration = 8 * time.Second
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig, "--leader-elect-lease-duration="+duration.String(), "--leader-elect-renew-deadline=4s",
		"--leader-elect-retry-period=1s")
	leader, standby := r.lead(t), r.stand(t)
	began := time.Now()
	leader.signal(t, syscall.SIGKILL)
	leader.wait(t)
	r.callLog.awaitEntry(t, standby.PID(), beating+" started")
	elapsed := time.Since(began)
	t.Logf("from SIGKILL to the next leader's controller: %s, with a lease of %s", elapsed, duration)
	if elapsed >= 2*duration-time.Second {
		t.Errorf("the standby waited %s, which is the lease's duration twice", elapsed)
	}
	r.requireNoOverlap(t)
}

// TestDeletedLease is free to take. The leader notices at its next renewal and ends, or takes it again itself.
func TestDeletedLease(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig)
	leader := r.lead(t)
	leader.signal(t, syscall.SIGSTOP) // it must not be quicker than the standby
	standby := r.stand(t)
	if err := r.client.CoordinationV1().Leases("kube-system").Delete(t.Context(), "cloud-controller-manager", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.callLog.awaitEntry(t, standby.PID(), beating+" started")
}

func TestLostLeaseEndsTheProcess(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig, "--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=2s",
		"--leader-elect-retry-period=500ms")
	leader := r.lead(t)
	r.usurp(t, "cloud-controller-manager")
	if code := leader.wait(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if got := leader.errorLine(); got != "stopped: leader election lost" {
		t.Errorf("error %q", got)
	}
	if holder := r.holder(t); holder != "another" {
		t.Errorf("the process that lost the lease gave it to %q", holder)
	}
}

// TestControllerThatDoesNotStop keeps its replica's lease: what it is at may go on until the process is gone.
func TestControllerThatDoesNotStop(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig, "--graceful-shutdown-timeout=10ms")
	leader := r.lead(t)
	leader.signal(t, syscall.SIGTERM)
	if code := leader.wait(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if got := leader.errorLines(); !strings.Contains(got, "within grace period of 10ms") {
		t.Errorf("error %q", got)
	}
	if r.holder(t) == "" {
		t.Error("the lease was released while a controller ran")
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	// The first signal alone ends nothing within this test: the controller never stops, and the manager waits for it.
	r := newReplicas(t, cluster, kubeconfig, "--controllers="+endless, "--graceful-shutdown-timeout=10m")
	leader := start(t, r.args...)
	r.callLog.awaitEntry(t, leader.PID(), endless+" started")
	leader.signal(t, syscall.SIGINT)
	leader.awaitOutput(t, "Stopping and waiting for leader election runnables")
	leader.signal(t, syscall.SIGTERM)
	if code := leader.wait(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if slices.Contains(r.callLog.of(t, leader.PID()), endless+" stopped") {
		t.Error("the second signal waited for the controller")
	}
}

// TestLeaseThatMayNotBeWatched is asked for instead, and the log says so once.
func TestLeaseThatMayNotBeWatched(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	roles := client.RbacV1().Roles("kube-system")
	role, err := roles.Get(t.Context(), "mooring:cloud-controller-manager", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	shipped := role.DeepCopy()
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Verbs, "watch") })
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "update"}})
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		shipped.ResourceVersion = ""
		if _, err := roles.Update(t.Context(), shipped, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	}()
	r := newReplicas(t, cluster, kubeconfig)
	poll.Until(t, "the role is in force", func(context.Context) error {
		probe := r.lead(t)
		probe.signal(t, syscall.SIGTERM)
		probe.wait(t)
		if !strings.Contains(probe.Output(), `may not watch leases.coordination.k8s.io \"cloud-controller-manager\"`) {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	leader, standby := r.lead(t), r.stand(t)
	standby.awaitOutput(t, "The lease cannot be watched: asking for it once per retry period")
	leader.signal(t, syscall.SIGTERM)
	r.callLog.awaitEntry(t, standby.PID(), beating+" started")
	if said := strings.Count(standby.Output(), "The lease cannot be watched"); said != 1 {
		t.Errorf("the log says %d times that the lease cannot be watched, want once", said)
	}
	r.requireNoOverlap(t)
}

// TestLeasesInAnotherCluster elects the leader where a hosted control plane runs, and leaves the cluster itself without a Lease.
func TestLeasesInAnotherCluster(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	hosting := localclustertest.Start(t)
	r := newReplicas(t, cluster, kubeconfig, "--leader-elect-kubeconfig="+hosting.AdminKubeconfig())
	leader := r.lead(t)
	there, err := kubernetes.NewForConfig(hosting.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	lease, err := there.CoordinationV1().Leases("kube-system").Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{})
	if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		t.Errorf("the Lease of the hosting cluster is %v, %v", lease, err)
	}
	if _, err := r.client.CoordinationV1().Leases("kube-system").Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("reading the Lease of the cluster itself returned %v, want that there is none", err)
	}
	second := r.stand(t)
	leader.signal(t, syscall.SIGTERM)
	leader.wait(t)
	r.callLog.awaitEntry(t, second.PID(), beating+" started")
}
