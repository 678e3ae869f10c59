package ccm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// longLease are flags of a lease that does not expire while a test waits: who leads after the holder has had it released.
var longLease = []string{"--leader-elect-lease-duration=30m", "--leader-elect-renew-deadline=20m", "--leader-elect-retry-period=1s"}

// witnesses returns the process IDs of the children of a process that are witnesses.
func witnesses(t *testing.T, of int) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), "leader-election-witness") {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if parent := state(pid); len(parent) > 1 && parent[1] == strconv.Itoa(of) {
			found = append(found, pid)
		}
	}
	return found
}

// state returns what the kernel says of a process from its state on (proc_pid_stat(5)), nothing if it is gone.
func state(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

// awaitWitness waits until a process has a witness, other than one that it had before, and that is deaf to SIGTERM.
func awaitWitness(t *testing.T, of program, before ...int) (pid int) {
	t.Helper()
	poll.Until(t, "the leader has a witness", func(context.Context) error {
		for _, pid = range witnesses(t, of.PID()) {
			if !slices.Contains(before, pid) && ignores(pid, syscall.SIGTERM) {
				return nil
			}
		}
		return fmt.Errorf("%d has not", of.PID())
	})
	return pid
}

// ignores reports whether a process ignores a signal.
func ignores(pid int, signal syscall.Signal) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(text), "\nSigIgn:")
	line, _, _ := strings.Cut(after, "\n")
	mask, _ := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return mask&(1<<(signal-1)) != 0
}

// gone reports whether a process has ended. Nobody may have waited for it: it may be an orphan.
func gone(pid int) bool {
	now := state(pid)
	return len(now) == 0 || now[0] == "Z" || now[0] == "X"
}

func awaitGone(t *testing.T, pid int) {
	t.Helper()
	poll.Until(t, "the witness has ended", func(context.Context) error { return poll.Holds(gone(pid)) })
}

// TestWitnessReleasesTheLeaseOfADeadLeader after each way to die without releasing it. Before that the leader is stopped, which takes no lease
// away: in the meantime another leader dies, whose witness was started later and does its part.
func TestWitnessReleasesTheLeaseOfADeadLeader(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV} {
		t.Run(signal.String(), func(t *testing.T) {
			r := newReplicas(t, cluster, kubeconfig, longLease...)
			leader := r.lead(t)
			standby, watching := r.stand(t), awaitWitness(t, leader)
			held := r.holder(t)
			leader.signal(t, syscall.SIGSTOP)
			for range 2 {
				r.requireRelease(t)
			}
			if holder := r.holder(t); holder != held {
				t.Errorf("a leader that was only stopped had its lease taken: %q holds it", holder)
			}
			if !ignores(watching, syscall.SIGHUP) {
				t.Error("the witness does not ignore SIGHUP")
			}
			for _, deaf := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
				if err := syscall.Kill(watching, deaf); err != nil {
					t.Fatal(err)
				}
			}
			before := r.lease(t)
			began := time.Now()
			leader.signal(t, signal)
			leader.signal(t, syscall.SIGCONT)
			leader.wait(t)
			r.callLog.awaitEntry(t, standby.PID(), beating+" started")
			t.Logf("from %s to the next leader's controller: %s, with a lease of 30 min", signal, time.Since(began))
			r.requireNoOverlap(t)
			if was, is := ptr.Deref(before.Spec.LeaseTransitions, 0), ptr.Deref(r.lease(t).Spec.LeaseTransitions, 0); is != was+1 {
				t.Errorf("%d transitions after %d, want one more", is, was)
			}
			awaitGone(t, watching)
			if said := strings.Count(leader.Output(), "The manager's process is gone: its lease is released"); said != 1 {
				t.Errorf("the witness said %d times that it has released the lease, want once", said)
			}
		})
	}
}

// requireRelease has a leader by another lease die, and waits until its witness has released that.
func (r *replicas) requireRelease(t *testing.T) {
	t.Helper()
	leases, name := r.client.CoordinationV1().Leases("kube-system"), "cloud-provider-extraction-migration"
	if err := r.cluster.Apply(t.Context(), []byte(migrationRBAC)); err != nil {
		t.Fatal(err)
	}
	free := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := leases.Create(t.Context(), free, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	other := start(t, append(slices.Clone(r.args), "--leader-elect-resource-name="+name, "--controllers=-beating", "--leader-elect-witness")...)
	r.callLog.awaitEntry(t, other.PID(), "Initialize")
	awaitWitness(t, other)
	other.signal(t, syscall.SIGKILL)
	poll.Until(t, "the other lease is released", func(ctx context.Context) error {
		lease, err := leases.Get(ctx, name, metav1.GetOptions{})
		if err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
			err = errors.New("it is held")
		}
		return err
	})
	if err := leases.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestWitnessOfALeaderThatEnds in order is gone when its leader is, and has said nothing.
func TestWitnessOfALeaderThatEnds(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig, longLease...)
	leader := r.lead(t)
	watching := awaitWitness(t, leader)
	if err := syscall.Kill(-leader.PID(), syscall.SIGTERM); err != nil { // as a terminal and systemd do
		t.Fatal(err)
	}
	if code := leader.wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if now := state(watching); len(now) > 0 {
		t.Errorf("its witness is still there: %s", now)
	}
	if r.holder(t) != "" {
		t.Error("the lease was not released")
	}
	if strings.Contains(leader.Output(), "witness") || strings.Contains(leader.Output(), "is gone") {
		t.Errorf("an orderly end is no matter of the witness:\n%s", leader.Output())
	}
}

// TestWitnessLeavesOthersAlone looks at a lease that somebody else holds when the leader dies.
func TestWitnessLeavesOthersAlone(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig, longLease...)
	leader := r.lead(t)
	watching := awaitWitness(t, leader)
	leader.signal(t, syscall.SIGSTOP) // it must not notice
	r.usurp(t, "cloud-controller-manager")
	before := r.lease(t)
	leader.signal(t, syscall.SIGKILL)
	leader.wait(t)
	awaitGone(t, watching)
	if after := r.lease(t); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the lease of somebody else was written: %v", after.Spec)
	}
}

// TestWitnessOfAWriteUnderWay leaves the lease to expire: the cloud may work on the write.
func TestWitnessOfAWriteUnderWay(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	for name, test := range map[string]struct{ timeout, awaited string }{
		"waited for": {"10m", beat},
		"given up":   {"1s", givenUp},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplicas(t, cluster, kubeconfig, append(slices.Clone(longLease),
				"--cloud-provider="+callingProvider, "--controllers="+stuck, "--cloud-api-write-timeout="+test.timeout)...)
			leader := start(t, r.args...)
			r.callLog.awaitAny(t, test.awaited)
			watching, held := awaitWitness(t, leader), r.holder(t)
			leader.signal(t, syscall.SIGKILL)
			leader.wait(t)
			awaitGone(t, watching)
			if holder := r.holder(t); holder != held {
				t.Errorf("%q holds the lease, want %q", holder, held)
			}
			if !strings.Contains(leader.Output(), "while the cloud worked on its writes") {
				t.Error("the witness did not say why the lease has to expire")
			}
		})
	}
}

// TestWitnessReleasesBothLeases of --enable-leader-migration.
func TestWitnessReleasesBothLeases(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	if err := cluster.Apply(t.Context(), []byte(migrationRBAC)); err != nil {
		t.Fatal(err)
	}
	r := newReplicas(t, cluster, kubeconfig, append(slices.Clone(longLease),
		"--enable-leader-migration", "--leader-elect", "--leader-migration-config="+migrationConfig(t))...)
	leases := r.client.CoordinationV1().Leases("kube-system")
	second := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "cloud-provider-extraction-migration"}}
	if _, err := leases.Create(t.Context(), second, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	leader := r.lead(t)
	standby := r.stand(t)
	awaitWitness(t, leader)
	leader.signal(t, syscall.SIGKILL)
	leader.wait(t)
	r.callLog.awaitEntry(t, standby.PID(), beating+" started")
	r.requireNoOverlap(t)
}

// TestWitnessThatDies does not disturb the leader, which starts another one.
func TestWitnessThatDies(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig, longLease...)
	leader := r.lead(t)
	standby, first := r.stand(t), awaitWitness(t, leader)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	leader.awaitOutput(t, `The witness of this process has ended; another one is started soon" reason="signal: killed"`)
	awaitWitness(t, leader, first)
	leader.signal(t, syscall.SIGKILL)
	leader.wait(t)
	r.callLog.awaitEntry(t, standby.PID(), beating+" started")
}

// TestWitnessHoldsNothing of its leader's: no connection and no port, which the next process takes as soon as the leader is dead.
func TestWitnessHoldsNothing(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	port := localclustertest.FreePort(t)
	r := newReplicas(t, cluster, kubeconfig, append(slices.Clone(longLease), "--secure-port="+port, "--bind-address=127.0.0.1",
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)...)
	leader := r.lead(t)
	watching := awaitWitness(t, leader)
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", watching))
	if err != nil || len(files) == 0 {
		t.Fatalf("the files of the witness: %q, %v", files, err)
	}
	for _, file := range files {
		if target, _ := os.Readlink(file); strings.HasPrefix(target, "socket:") {
			t.Errorf("the witness holds %s", target)
		}
	}
	if err := syscall.Kill(watching, syscall.SIGSTOP); err != nil { // whatever it held, it would hold
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(watching, syscall.SIGKILL) })
	leader.signal(t, syscall.SIGKILL)
	leader.wait(t)
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		t.Fatalf("the port of the dead leader is taken: %v", err)
	}
	_ = listener.Close()
}

// TestNoWitness has a leader die that was told to have none. Another leader dies after it, and when that one's lease is released the first one
// is still held.
func TestNoWitness(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig, append(slices.Clone(longLease), "--leader-elect-witness=false")...)
	leader := r.lead(t)
	held := r.holder(t)
	leader.signal(t, syscall.SIGKILL)
	leader.wait(t)
	r.requireRelease(t)
	if holder := r.holder(t); holder != held {
		t.Errorf("%q holds the lease, want %q", holder, held)
	}
}
