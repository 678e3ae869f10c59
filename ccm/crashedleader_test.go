package ccm_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/poll"
	processes "github.com/mooring-ccm/mooring/dev/program"
	"github.com/mooring-ccm/mooring/internal/election"
)

// inPods is the timing of a lease that does not expire while a test runs.
var inPods = []string{
	"--leader-elect-lease-duration=1h", "--leader-elect-renew-deadline=50m", "--leader-elect-retry-period=1s", "--v=4",
}

// pods are those in which the test has replicas run, as far as the API server knows. There is neither kubelet nor container: the test
// writes what a kubelet would.
type pods struct {
	*replicas
	t *testing.T
}

func newPods(t *testing.T, args ...string) *pods {
	t.Helper()
	cluster, kubeconfig := controlPlane(t)
	return &pods{newReplicas(t, cluster, kubeconfig, append(slices.Clone(inPods), args...)...), t}
}

// replica is a process, and the Pod in which it says that it runs.
type replica struct {
	program
	pod *corev1.Pod
	// log is the file of the termination message.
	log string
}

// create creates the Pod of a replica, bound to a node that does not exist.
func (p *pods) create(change func(*corev1.Pod)) *corev1.Pod {
	p.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "ccm-", Namespace: "kube-system"},
		Spec: corev1.PodSpec{
			NodeName: "absent", Containers: []corev1.Container{{Name: "ccm", Image: "ccm"}}, TerminationGracePeriodSeconds: ptr.To[int64](30),
		},
	}
	if change != nil {
		change(pod)
	}
	client := p.client.CoreV1().Pods("kube-system")
	created, err := client.Create(p.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		err := client.Delete(cleanUp(p.t), created.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		if err != nil && !apierrors.IsNotFound(err) {
			p.t.Error(err)
		}
	})
	return created
}

// start starts a replica in a Pod.
func (p *pods) start(pod *corev1.Pod) replica {
	p.t.Helper()
	log := filepath.Join(p.t.TempDir(), "termination-log")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	process := localclustertest.StartProgram(p.t, processes.Options{Name: "program", Path: self, Args: p.args, Env: []string{
		processes.SelfEnv + "=1", "POD_NAME=" + pod.Name, "POD_NAMESPACE=" + pod.Namespace, "POD_UID=" + string(pod.UID), "TERMINATION_MESSAGE_PATH=" + log,
	}})
	return replica{program{process}, pod, log}
}

// lead starts a replica that leads, and whose container runs.
func (p *pods) lead(change func(*corev1.Pod)) replica {
	p.t.Helper()
	r := p.start(p.create(change))
	p.callLog.awaitEntry(p.t, r.PID(), beating+" started")
	p.report(r, corev1.ContainerStatus{ContainerID: "containerd://1", State: isRunning()})
	return r
}

// stand starts a replica that has looked at the leader's Pod as it is.
func (p *pods) stand(leader replica) replica {
	p.t.Helper()
	r := p.start(p.create(nil))
	p.awaitLook(r, leader)
	return r
}

// report writes what a kubelet says of the container of a replica.
func (p *pods) report(of replica, status corev1.ContainerStatus) {
	p.t.Helper()
	status.Name = "ccm"
	p.write(of, func(was *corev1.PodStatus) {
		was.Phase, was.ContainerStatuses = corev1.PodRunning, []corev1.ContainerStatus{status}
	})
}

// write writes a status of the Pod of a replica.
func (p *pods) write(of replica, change func(*corev1.PodStatus)) {
	p.t.Helper()
	client := p.client.CoreV1().Pods("kube-system")
	pod, err := client.Get(p.t.Context(), of.pod.Name, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	change(&pod.Status)
	if _, err := client.UpdateStatus(p.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

// awaitLook waits until a standby says that it has seen the Pod of the leader as it is now, and that the leader may run.
func (p *pods) awaitLook(by, leader replica) {
	p.t.Helper()
	pod, err := p.client.CoreV1().Pods("kube-system").Get(p.t.Context(), leader.pod.Name, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	by.awaitOutput(p.t, fmt.Sprintf(`"The holder of the lease may run" logger="leaderelection" pod="kube-system/%s" resourceVersion="%s"`, pod.Name, pod.ResourceVersion))
}

// message is what the kubelet finds in the file of the container.
func (r replica) message(t *testing.T) string {
	t.Helper()
	message, err := os.ReadFile(r.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(message)
}

func isRunning() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
}

// terminated is what a kubelet says of a container of the replica that was killed just now.
func (r replica) terminated(t *testing.T) *corev1.ContainerStateTerminated {
	t.Helper()
	return &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "Error", StartedAt: metav1.NewTime(time.Now().Add(-time.Hour)), FinishedAt: metav1.Now(), ContainerID: "containerd://1",
		Message: r.message(t),
	}
}

// kill kills the process of a replica, as SIGKILL does, and the lease is not released.
func (r replica) kill(t *testing.T) {
	t.Helper()
	r.signal(t, syscall.SIGKILL)
	r.wait(t)
}

// TestStandbyTakesOverWhenTheLeadersContainerHasTerminated kills the leader and has its kubelet report that.
func TestStandbyTakesOverWhenTheLeadersContainerHasTerminated(t *testing.T) {
	for name, report := range map[string]func(*pods, replica) corev1.ContainerStatus{
		"not restarted yet": func(_ *pods, r replica) corev1.ContainerStatus {
			return corev1.ContainerStatus{ContainerID: "containerd://1", State: corev1.ContainerState{Terminated: r.terminated(t)}}
		},
		"restarted": func(_ *pods, r replica) corev1.ContainerStatus {
			return corev1.ContainerStatus{ContainerID: "containerd://2", RestartCount: 1, State: isRunning(),
				LastTerminationState: corev1.ContainerState{Terminated: r.terminated(t)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPods(t)
			leader := p.lead(nil)
			standbys := []replica{p.stand(leader), p.stand(leader)}
			leader.kill(t)
			reported := time.Now()
			p.report(leader, report(p, leader))
			next := p.awaitLeader(t, standbys[0].program, standbys[1].program)
			t.Logf("from the kubelet's report to the next leader's controller: %s", time.Since(reported))
			next.awaitOutput(t, `"The container of the lease's holder has terminated: taking the lease"`)
			p.requireNoOverlap(t)
		})
	}
}

// TestTheLeaseSaysByWhichKeyTheLeaderServes, also after its certificate was replaced.
func TestTheLeaseSaysByWhichKeyTheLeaderServes(t *testing.T) {
	directory := t.TempDir()
	certificate, key := filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key")
	issue := func() string {
		encoded, secret, err := certutil.GenerateSelfSignedCertKey("localhost", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(key, secret, 0o600), os.WriteFile(certificate, encoded, 0o600)); err != nil {
			t.Fatal(err)
		}
		parsed, err := certutil.ParseCertsPEM(encoded)
		if err != nil {
			t.Fatal(err)
		}
		return election.ServingKey(parsed[0])
	}
	issued, port := issue(), localclustertest.FreePort(t)
	cluster, kubeconfig := controlPlane(t)
	p := &pods{newReplicas(t, cluster, kubeconfig, append(slices.Clone(inPods), "--secure-port="+port, "--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig, "--tls-cert-file="+certificate, "--tls-private-key-file="+key)...), t}
	leader := p.lead(nil)
	for range 2 {
		poll.Until(t, "the lease says the key that is served", func(ctx context.Context) error {
			lease, err := p.client.CoordinationV1().Leases("kube-system").Get(ctx, "cloud-controller-manager", metav1.GetOptions{})
			if err != nil {
				return err
			}
			annotation := lease.Annotations[election.HolderPodAnnotation]
			if _, uid, said := election.HolderPod(annotation, ptr.Deref(lease.Spec.HolderIdentity, ""), "kube-system"); uid != leader.pod.UID || said != issued {
				return fmt.Errorf("it says %s, want the key %s", annotation, issued)
			}
			connection, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				return err
			}
			if served := election.ServingKey(connection.ConnectionState().PeerCertificates[0]); served != issued {
				err = fmt.Errorf("it serves by the key %s, want %s", served, issued)
			}
			return errors.Join(err, connection.Close())
		})
		issued = issue()
	}
}

// TestASingleReplicaThatIsRestartedLeads by the state of its own Pod.
func TestASingleReplicaThatIsRestartedLeads(t *testing.T) {
	p := newPods(t)
	leader := p.lead(nil)
	leader.kill(t)
	again := p.start(leader.pod)
	p.awaitLook(again, leader)
	p.report(leader, corev1.ContainerStatus{ContainerID: "containerd://2", RestartCount: 1, State: isRunning(),
		LastTerminationState: corev1.ContainerState{Terminated: leader.terminated(t)}})
	p.callLog.awaitEntry(t, again.PID(), beating+" started")
	p.requireNoOverlap(t)
}

// TestStandbyWaitsForTheLeaseWhateverElseIsReported keeps the leader alive, and paused, and has everybody else report its end. A standby that
// has seen each of it does not act; that it would, shows at the end.
func TestStandbyWaitsForTheLeaseWhateverElseIsReported(t *testing.T) {
	p := newPods(t)
	leader := p.lead(nil)
	standby := p.stand(leader)
	leader.signal(t, syscall.SIGSTOP)
	status := func(change func(*corev1.ContainerStateTerminated)) corev1.ContainerStatus {
		terminated := leader.terminated(t)
		change(terminated)
		return corev1.ContainerStatus{ContainerID: "containerd://1", State: corev1.ContainerState{Terminated: terminated}}
	}
	for name, lie := range map[string]func(){
		"the kubelet has lost the container": func() {
			p.report(leader, corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated"}}})
		},
		"containerd has lost the container": func() {
			p.report(leader, status(func(was *corev1.ContainerStateTerminated) { was.ExitCode, was.Reason = 255, "Unknown" }))
		},
		"CRI-O has lost the container": func() {
			p.report(leader, status(func(was *corev1.ContainerStateTerminated) { was.ExitCode = 255 }))
		},
		"an earlier container": func() {
			p.report(leader, status(func(was *corev1.ContainerStateTerminated) { was.Message = "lease holder another\n" }))
		},
		"the Pod is failed, and not ready": func() {
			p.report(leader, corev1.ContainerStatus{ContainerID: "containerd://1", State: isRunning()})
			p.write(leader, func(was *corev1.PodStatus) {
				was.Phase, was.Reason = corev1.PodFailed, "NodeLost"
				was.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
			})
		},
		"the Pod is being deleted": func() {
			p.report(leader, corev1.ContainerStatus{ContainerID: "containerd://1", State: isRunning()})
			if err := p.client.CoreV1().Pods("kube-system").Delete(t.Context(), leader.pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		lie()
		p.awaitLook(standby, leader)
		if strings.Contains(standby.Output(), `"The container of the lease's holder has terminated`) {
			t.Fatalf("%s: the standby believes that the leader is gone", name)
		}
	}
	p.requireStandby(standby, leader)

	// The same standby, told the truth.
	leader.kill(t)
	p.report(leader, status(func(*corev1.ContainerStateTerminated) {}))
	p.callLog.awaitEntry(t, standby.PID(), beating+" started")
	p.requireNoOverlap(t)
}

// requireStandby fails if a replica leads beside the leader.
func (p *pods) requireStandby(standby, leader replica) {
	p.t.Helper()
	if holder := p.holder(p.t); !strings.Contains(leader.message(p.t), "lease holder "+holder+"\n") {
		p.t.Errorf("%s holds the lease", holder)
	}
	for _, entry := range p.callLog.of(p.t, standby.PID()) {
		if entry == beating+" started" {
			p.t.Error("the standby leads beside the leader")
		}
	}
}

// TestALeaderThatRenewsHasNotTerminated, whatever is reported of its container: another writer was wrong.
func TestALeaderThatRenewsHasNotTerminated(t *testing.T) {
	p := newPods(t)
	leader := p.lead(nil)
	standby := p.stand(leader)
	terminated := leader.terminated(t)
	poll.Until(t, "the lease is renewed after that", func(context.Context) error {
		return poll.Holds(p.lease(t).Spec.RenewTime.After(terminated.FinishedAt.Add(2 * time.Second)))
	})
	p.report(leader, corev1.ContainerStatus{ContainerID: "containerd://1", State: corev1.ContainerState{Terminated: terminated}})
	standby.awaitOutput(t, `"The container of the lease's holder is reported as terminated, but the lease was renewed later: waiting until it expires"`)
	p.requireStandby(standby, leader)
}

// TestAPodThatIsGoneProvesNothing: a force deletion, the collector of Pods and evictions from nodes that are out remove the object while the
// process runs. Another Pod takes the name, and its container ends.
func TestAPodThatIsGoneProvesNothing(t *testing.T) {
	p := newPods(t)
	leader := p.lead(nil)
	standby := p.stand(leader)
	leader.signal(t, syscall.SIGSTOP)
	client := p.client.CoreV1().Pods("kube-system")
	if err := client.Delete(t.Context(), leader.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		t.Fatal(err)
	}
	another := replica{pod: p.create(func(pod *corev1.Pod) { pod.Name, pod.GenerateName = leader.pod.Name, "" })}
	p.report(another, corev1.ContainerStatus{ContainerID: "containerd://1", State: corev1.ContainerState{Terminated: leader.terminated(t)}})
	p.awaitLook(standby, another)
	p.requireStandby(standby, leader)
}

// TestPodsWhoseProcessesMayOutliveTheirContainer share the PID namespace of the host or of the Pod.
func TestPodsWhoseProcessesMayOutliveTheirContainer(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"of the host": func(pod *corev1.Pod) { pod.Spec.HostPID = true },
		"of the Pod":  func(pod *corev1.Pod) { pod.Spec.ShareProcessNamespace = ptr.To(true) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPods(t)
			leader := p.lead(change)
			standby := p.stand(leader)
			leader.signal(t, syscall.SIGSTOP)
			p.report(leader, corev1.ContainerStatus{ContainerID: "containerd://1", State: corev1.ContainerState{Terminated: leader.terminated(t)}})
			p.awaitLook(standby, leader)
			p.requireStandby(standby, leader)
		})
	}
}

// TestReplicasThatDoNotKnowTheirPodSaySo, once, and wait for the lease.
func TestReplicasThatDoNotKnowTheirPodSaySo(t *testing.T) {
	const says = `"The Pod of this replica is not known" reason="%s" consequence="after a crash of the leader the next one waits until the lease has expired"`
	p := newPods(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for reason, environment := range map[string][]string{
		"the environment has no POD_NAME, POD_NAMESPACE, POD_UID": nil,
		"the environment has no POD_UID":                          {"POD_NAME=ccm-0", "POD_NAMESPACE=kube-system"},
		`POD_UID is \"0f0e0d0c0b0a09080706050403020100\", which is not the UID of a Pod in the API: a static Pod has another UID there`: {
			"POD_NAME=ccm-0", "POD_NAMESPACE=kube-system", "POD_UID=0f0e0d0c0b0a09080706050403020100",
		},
	} {
		r := program{localclustertest.StartProgram(t, processes.Options{Name: "program", Path: self, Args: p.args, Env: append(environment, processes.SelfEnv+"=1")})}
		p.callLog.awaitEntry(t, r.PID(), beating+" started")
		if want := fmt.Sprintf(says, reason); strings.Count(r.Output(), want) != 1 {
			t.Errorf("the log does not say %s", want)
		}
		if annotation, ok := p.lease(t).Annotations["mooring.dev/lease-holder-pod"]; ok {
			t.Errorf("the lease says that its holder runs in %s", annotation)
		}
		r.signal(t, syscall.SIGTERM)
		r.wait(t)
	}
}

// TestLeadersPodThatMayNotBeWatched is said at the start and when it is tried.
func TestLeadersPodThatMayNotBeWatched(t *testing.T) {
	p := newPods(t)
	p.withoutPodRights()
	leader := p.lead(nil)
	var standby replica
	poll.Until(t, "the role is in force", func(context.Context) error {
		standby = p.start(p.create(nil))
		standby.awaitOutput(t, `"Attempting to acquire leader lease..."`)
		if strings.Contains(standby.Output(), `may not watch pods in namespace kube-system`) {
			return nil
		}
		return errors.Join(errors.New("not yet"), standby.Kill())
	})
	standby.awaitOutput(t, `"The Pod of the lease's holder cannot be watched: if it crashes, the lease has to expire"`)
	leader.kill(t)
	p.report(leader, corev1.ContainerStatus{ContainerID: "containerd://1", State: corev1.ContainerState{Terminated: leader.terminated(t)}})
	p.requireStandby(standby, leader)
}

// withoutPodRights takes the rights to see Pods from the shipped role until the test ends.
func (p *pods) withoutPodRights() {
	p.t.Helper()
	roles := p.client.RbacV1().Roles("kube-system")
	role, err := roles.Get(p.t.Context(), "mooring:cloud-controller-manager", metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	shipped := role.DeepCopy()
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "pods") })
	if _, err := roles.Update(p.t.Context(), role, metav1.UpdateOptions{}); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		shipped.ResourceVersion = ""
		if _, err := roles.Update(cleanUp(p.t), shipped, metav1.UpdateOptions{}); err != nil {
			p.t.Error(err)
		}
	})
}
