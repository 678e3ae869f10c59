package kubelet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/e2e/worker"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// pauseVariable holds, for the inside of the sandbox, where the program is that keeps the namespaces of a Pod.
const pauseVariable = "MOORING_TEST_PAUSE"

// TestKubeletReportsThatTheLeaderHasCrashed runs replicas of Mooring in Pods of a real kubelet. The lease does not expire while the test runs.
func TestKubeletReportsThatTheLeaderHasCrashed(t *testing.T) {
	if !sandbox.Inside() {
		outsideWithPods(t)
		return
	}
	rig := newCrashRig(t)
	passed := t.Run("the process of the leader is killed", rig.killed) &&
		t.Run("what watches over its container is killed", rig.shimKilled)
	if !passed {
		for _, program := range rig.programs {
			t.Logf("the end of the log of %s:\n%s", program.Name, program.Tail())
		}
	}
}

// outsideWithPods builds what the Pods run, and runs the sandbox.
func outsideWithPods(t *testing.T) {
	sandbox.Require(t, "containerd", "ctr", "runc", "ip", "nsenter")
	localclustertest.Build(t, localcluster.Parts()...)
	dir := t.TempDir()
	programs := map[string]string{
		managerVariable: "github.com/mooring-ccm/mooring/cmd/cloud-controller-manager",
		pauseVariable:   "./testdata/pause",
	}
	var environment []string
	for variable, source := range programs {
		output := filepath.Join(dir, filepath.Base(source))
		if err := gobuild.Build(t.Context(), gobuild.Options{Dir: ".", Package: source, Output: output, Display: progress.New(os.Stderr)}); err != nil {
			t.Fatal(err)
		}
		environment = append(environment, variable+"="+output)
	}
	sandbox.Run(t, sandbox.Options{Env: environment, Sysctls: worker.Sysctls, Dirs: worker.Dirs, Cgroups: worker.Cgroups, Alone: []string{worker.PodCgroup}, Timeout: 4 * time.Minute})
}

// crashRig is a node with two Pods of Mooring.
type crashRig struct {
	dir      string
	client   kubernetes.Interface
	programs []*worker.Program
}

func newCrashRig(t *testing.T) *crashRig {
	t.Helper()
	own := netip.MustParsePrefix("10.77.0.1/24")
	l := &crashRig{dir: sandbox.Furnish(t)}
	segment := sandbox.NewSegment(t, own)
	cluster := localclustertest.Start(t, localclustertest.WithControllerManager, func(options *localcluster.Options) {
		options.Dir, options.BindAddress = filepath.Join(l.dir, "controlplane"), own.Addr()
	})
	l.client = kubernetes.NewForConfigOrDie(cluster.AdminConfig())
	cloud := simtest.Start(t, cloudsim.Options{})
	t.Cleanup(func() { removeCgroups(t) })
	containerd, socket := worker.StartContainerd(t, l.dir)
	for program, reference := range map[string]string{os.Getenv(managerVariable): "localhost/ccm:test", os.Getenv(pauseVariable): worker.PauseImage} {
		file := filepath.Join(l.dir, "image.tar")
		worker.Image{Reference: reference, Entrypoint: []string{"/program"}, Files: map[string]string{"program": program}}.Write(t, file)
		sandbox.Command(t, "ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", file)
	}
	host := segment.NewHost(t, "node", netip.MustParsePrefix("10.77.0.11/24"))
	l.programs = []*worker.Program{containerd, worker.StartKubelet(t, cluster, host, worker.Kubelet{Name: "node"}, filepath.Join(l.dir, "node"), socket)}
	if err := cluster.Apply(t.Context(), deploy.RBAC); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", "cloud-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	for _, replica := range []string{"ccm-0", "ccm-1"} {
		l.create(t, replica, kubeconfig, cloud.ConfigFile)
	}
	return l
}

// create creates a Pod of Mooring on the node.
func (l *crashRig) create(t *testing.T, name, kubeconfig, cloudConfig string) {
	t.Helper()
	fromPod := func(name, field string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: field}}}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system"},
		Spec: corev1.PodSpec{
			NodeName: "node", HostNetwork: true, AutomountServiceAccountToken: ptr.To(false),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "ccm", Image: "localhost/ccm:test", ImagePullPolicy: corev1.PullNever,
				Args: []string{"--cloud-provider=sim", "--cloud-config=" + cloudConfig, "--kubeconfig=" + kubeconfig, "--secure-port=0", "--v=4",
					"--leader-elect-lease-duration=1h", "--leader-elect-renew-deadline=50m", "--leader-elect-retry-period=1s"},
				Env: []corev1.EnvVar{
					fromPod("POD_NAME", "metadata.name"), fromPod("POD_NAMESPACE", "metadata.namespace"), fromPod("POD_UID", "metadata.uid"),
				},
			}},
		},
	}
	for i, dir := range []string{filepath.Dir(kubeconfig), filepath.Dir(cloudConfig)} {
		volume := corev1.Volume{Name: fmt.Sprintf("files-%d", i), VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}
		pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: volume.Name, MountPath: dir, ReadOnly: true})
	}
	if _, err := l.client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.remove(t, name) })
}

// remove deletes a Pod, and waits until the kubelet has ended what was of it.
func (l *crashRig) remove(t *testing.T, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	pods := l.client.CoreV1().Pods("kube-system")
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)}); err != nil {
		t.Error(err)
		return
	}
	poll.Until(t, "Pod "+name+" is gone", func(ctx context.Context) error {
		if _, err := pods.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

// removeCgroups removes the empty control groups that containerd leaves, after it and its containers have ended.
func removeCgroups(t *testing.T) {
	for _, pattern := range []string{"/sys/fs/cgroup/k8s.io", "/sys/fs/cgroup/*/k8s.io"} {
		groups, _ := filepath.Glob(pattern)
		for _, group := range groups {
			poll.Until(t, group+" can be removed", func(context.Context) error { return os.Remove(group) })
		}
	}
}

// leading is a replica that leads: who it is to the lease, its Pod, and its process.
type leading struct {
	holder, pod string
	pid         int
}

// leader waits until another replica leads than the holder of before, in a process that runs.
func (l *crashRig) leader(t *testing.T, before string) leading {
	t.Helper()
	var found leading
	worker.Poll(t, "a replica leads", l.programs, func(ctx context.Context) error {
		lease, err := l.client.CoordinationV1().Leases("kube-system").Get(ctx, "cloud-controller-manager", metav1.GetOptions{})
		if err != nil {
			return err
		}
		var where struct{ Holder, Name string }
		if err := json.Unmarshal([]byte(lease.Annotations["mooring.dev/lease-holder-pod"]), &where); err != nil {
			return fmt.Errorf("annotation of the lease: %w", err)
		}
		found = leading{ptr.Deref(lease.Spec.HolderIdentity, ""), where.Name, processOf(where.Name)}
		if found.holder == "" || found.holder == before || found.holder != where.Holder || found.pid == 0 {
			return fmt.Errorf("%+v holds the lease, which says that it is %s", found, where.Holder)
		}
		return nil
	})
	return found
}

// processOf returns the process of Mooring that runs in a Pod, 0 if none does.
func processOf(pod string) int {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environment, _ := os.ReadFile(file)
		program, _ := os.Readlink(filepath.Join(filepath.Dir(file), "exe"))
		if program == "/program" && bytes.Contains(environment, []byte("POD_NAME="+pod+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return pid
		}
	}
	return 0
}

func (l *crashRig) killed(t *testing.T) {
	leader := l.leader(t, "")
	l.awaitStandby(t, leader)
	killedAt := time.Now()
	if err := syscall.Kill(leader.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	next := l.leader(t, leader.holder)
	t.Logf("from SIGKILL of %s to the lease of %s: %s", leader.pod, next.pod, time.Since(killedAt))
}

// shimKilled kills the parent of the leader's process. containerd reports then that the container has ended and that it does not know how: the
// lease has to expire, whatever has become of the process.
func (l *crashRig) shimKilled(t *testing.T) {
	leader := l.leader(t, "")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", leader.pid))
	if err != nil {
		t.Fatal(err)
	}
	shim, err := strconv.Atoi(strings.Fields(string(status[bytes.LastIndexByte(status, ')')+1:]))[1])
	if err == nil {
		err = syscall.Kill(shim, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.awaitLog(t, `how container ccm has terminated is not known: exit code 255`)
	if still := l.leader(t, ""); still.holder != leader.holder {
		t.Errorf("%s has the lease of %s", still.holder, leader.holder)
	}
}

// awaitStandby waits until the other replica has said that it watches for the end of the leader.
func (l *crashRig) awaitStandby(t *testing.T, leader leading) {
	t.Helper()
	l.awaitLog(t, `"The holder of the lease may run" logger="leaderelection" pod="kube-system/`+leader.pod+`"`)
}

// awaitLog waits until one of the replicas has said something.
func (l *crashRig) awaitLog(t *testing.T, what string) {
	t.Helper()
	worker.Poll(t, "a replica says "+what, l.programs, func(context.Context) error {
		logs, err := filepath.Glob(filepath.Join(l.dir, "node", "pod-logs", "kube-system_ccm-*", "ccm", "*.log"))
		for _, log := range logs {
			content, reading := os.ReadFile(log)
			if err = errors.Join(err, reading); bytes.Contains(content, []byte(what)) {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("none of %q says so", logs))
	})
}
