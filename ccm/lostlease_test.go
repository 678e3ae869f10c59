package ccm_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
)

// callingProvider is the announcing plugin with routes, whose calls it writes down.
const callingProvider = "calling"

func init() {
	cloudprovider.RegisterCloudProvider(callingProvider, func(config io.Reader) (cloudprovider.Interface, error) {
		plugin, err := newCallLogCloud(config)
		if err != nil {
			return nil, err
		}
		return &callingCloud{&announcingCloud{plugin.(*callLogCloud), callingProvider}}, nil
	})
}

type callingCloud struct{ *announcingCloud }

func (c *callingCloud) Routes() (cloudprovider.Routes, bool) {
	return callingRoutes{callLog: c.callLog}, true
}

type callingRoutes struct {
	cloudprovider.Routes
	callLog callLog
}

// calls is what the plugin writes for each call that reads.
const calls = "the cloud is called"

func (r callingRoutes) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	r.callLog.write(calls)
	return nil, nil
}

// CreateRoute ignores its context and never returns.
func (r callingRoutes) CreateRoute(context.Context, string, string, *cloudprovider.Route) error {
	for range time.Tick(2 * time.Millisecond) {
		r.callLog.write(beat)
	}
	return nil
}

// givenUp is what the stuck controller writes when it no longer waits for its call.
const givenUp = "given up"

// writeForEver makes a call of the cloud that never returns, and waits for it until its deadline.
func writeForEver(ctx context.Context, written callLog, environment ccm.Environment) error {
	routes, _ := environment.Cloud.Routes()
	_ = routes.CreateRoute(ctx, "cluster", "hint", &cloudprovider.Route{})
	written.write(givenUp)
	<-ctx.Done()
	return nil
}

const (
	// writer is the annotation of a node that says which process wrote it last, and acted is that node.
	writer = "test.mooring.dev/writer"
	acted  = "acted"
	// pauses is what the acting controller writes when it begins to do nothing.
	pauses = "pauses"
)

// pauseFile is a file that makes the acting controller of a process do nothing.
func (j callLog) pauseFile(pid int) string { return fmt.Sprintf("%s.pause-%d", j, pid) }

// actUntilDone calls the cloud and writes to a node every few milliseconds, whatever comes of it.
func actUntilDone(ctx context.Context, written callLog, environment ccm.Environment) error {
	routes, _ := environment.Cloud.Routes()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: acted}}
	paused := false
	for count := 0; ctx.Err() == nil; count++ {
		time.Sleep(2 * time.Millisecond)
		if _, err := os.Stat(written.pauseFile(os.Getpid())); err == nil {
			if !paused {
				written.write(pauses)
			}
			paused = true
			continue
		}
		_, _ = routes.ListRoutes(ctx, "cluster")
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d %d"}}}`, writer, os.Getpid(), count)
		_ = environment.Client.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	return nil
}

// TestPausedLeaderDoesNotActBesideTheNext stops the leader's process until another one leads, as a machine does that is short of
// memory, and lets it go on.
func TestPausedLeaderDoesNotActBesideTheNext(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig, "--cloud-provider="+callingProvider, "--controllers="+acting,
		"--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s")
	nodes := r.client.CoreV1().Nodes()
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: acted}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nodes.Delete(cleanUp(t), acted, metav1.DeleteOptions{}) })
	changes, err := nodes.Watch(t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, acted).String(), ResourceVersion: node.ResourceVersion,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()

	leader := start(t, r.args...)
	r.callLog.awaitEntry(t, leader.PID(), calls)
	// What it was at when it was stopped could reach the cloud later, and nothing could be done about it.
	pause := r.callLog.pauseFile(leader.PID())
	if err := os.WriteFile(pause, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.callLog.awaitEntry(t, leader.PID(), pauses)
	standby := r.stand(t)
	leader.signal(t, syscall.SIGSTOP)
	r.callLog.awaitEntry(t, standby.PID(), calls)
	if err := os.Remove(pause); err != nil {
		t.Fatal(err)
	}
	leader.signal(t, syscall.SIGCONT)
	if code := leader.wait(t); code != 1 || leader.errorLine() != "stopped: leader election lost" {
		t.Errorf("exit code %d, error %q", code, leader.errorLine())
	}

	if count := r.after(t, standby.PID(), calls, leader.PID(), calls); count != 0 {
		t.Errorf("the old leader made %d calls of the cloud beside the new one", count)
	}
	end := fmt.Sprintf(`{"metadata":{"annotations":{%q:"end"}}}`, writer)
	standby.signal(t, syscall.SIGTERM)
	standby.wait(t)
	if _, err := nodes.Patch(t.Context(), acted, types.MergePatchType, []byte(end), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	var writers []string
	for change := range changes.ResultChan() {
		node, ok := change.Object.(*corev1.Node)
		if !ok {
			t.Fatalf("the watch ended: %v", change.Object)
		}
		if node.Annotations[writer] == "end" {
			break
		}
		var pid string
		if _, err := fmt.Sscan(node.Annotations[writer], &pid); err == nil {
			writers = append(writers, pid)
		}
	}
	taken := slices.Index(writers, strconv.Itoa(standby.PID()))
	if taken < 0 {
		t.Fatal("the new leader wrote nothing")
	}
	count := 0
	for _, pid := range writers[taken:] {
		if pid == strconv.Itoa(leader.PID()) {
			count++
		}
	}
	if count > 0 {
		t.Errorf("the old leader wrote %d times beside the new one", count)
	}
}

// after counts what a process wrote after another one had first written something.
func (r *replicas) after(t *testing.T, of int, first string, by int, what string) int {
	t.Helper()
	entries := r.callLog.read(t)
	began := slices.Index(entries, entry{of, first})
	if began < 0 {
		t.Fatalf("process %d did not write %q", of, first)
	}
	count := 0
	for _, one := range entries[began:] {
		if one == (entry{by, what}) {
			count++
		}
	}
	return count
}

// TestUsurpedLeaseEndsTheProcessAtOnce, although the elector would try for longer than this test waits.
func TestUsurpedLeaseEndsTheProcessAtOnce(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	if err := cluster.Apply(t.Context(), []byte(migrationRBAC)); err != nil {
		t.Fatal(err)
	}
	config := migrationConfig(t)
	for lease, want := range map[string]string{
		"cloud-controller-manager":            "stopped: leader election lost",
		"cloud-provider-extraction-migration": "stopped: leader election for migrated controllers lost",
	} {
		t.Run(lease, func(t *testing.T) {
			r := newReplicas(t, cluster, kubeconfig, "--enable-leader-migration", "--leader-migration-config="+config,
				"--leader-elect-lease-duration=300s", "--leader-elect-renew-deadline=200s", "--leader-elect-retry-period=1s")
			leader := r.lead(t)
			r.usurp(t, lease)
			if code := leader.wait(t); code != 1 || leader.errorLine() != want {
				t.Errorf("exit code %d, error %q", code, leader.errorLine())
			}
		})
	}
}

// TestStuckWriteEndsWithTheLease cuts a leader off whose provider ignores the end of a write's context. The part that every
// replica runs would go on, but not beside that write, whether the controller waits for it or has given it up at its deadline.
func TestStuckWriteEndsWithTheLease(t *testing.T) {
	for name, test := range map[string]struct{ timeout, awaited string }{
		"waited for": {"10m", stuck + " started"},
		"given up":   {"1s", givenUp},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, kubeconfig := controlPlane(t)
			r := newReplicas(t, cluster, kubeconfig, "--cloud-provider="+callingProvider, "--controllers="+stuck,
				"--cloud-api-write-timeout="+test.timeout, "--leader-elect-lease-duration=16s", "--leader-elect-renew-deadline=8s",
				"--leader-elect-retry-period=4s")
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			proxy := localclustertest.NewProxy(t, config)
			leader := start(t, append(slices.Clone(r.args), "--master="+proxy.Config.Host)...)
			r.callLog.awaitEntry(t, leader.PID(), announces)
			r.callLog.awaitEntry(t, leader.PID(), test.awaited)
			r.callLog.awaitAny(t, beat)
			standby := r.stand(t)
			proxy.Pause()
			r.callLog.awaitEntry(t, standby.PID(), stuck+" started")
			if code := leader.wait(t); code != 1 || leader.errorLine() != "stopped: leader election lost" {
				t.Errorf("exit code %d, error %q", code, leader.errorLine())
			}
			if count := r.after(t, standby.PID(), stuck+" started", leader.PID(), beat); count != 0 {
				t.Errorf("the old leader's write went on for %d beats beside the new leader", count)
			}
		})
	}
}

// TestLeaseIsKeptBesideAStuckWrite that its controller has given up: it may act until the process is gone.
func TestLeaseIsKeptBesideAStuckWrite(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig, "--cloud-provider="+callingProvider, "--controllers="+stuck, "--cloud-api-write-timeout=1s")
	leader := start(t, r.args...)
	r.callLog.awaitEntry(t, leader.PID(), givenUp)
	leader.signal(t, syscall.SIGTERM)
	leader.wait(t)
	if r.holder(t) == "" {
		t.Error("the lease was released although a write of the old leader had not returned")
	}
}
