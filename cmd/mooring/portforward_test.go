package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/cli"
)

// portForwarder is that part of a kubelet which has ports of pods reached: the API server upgrades a connection, and of each pair of streams
// the one carries the bytes and the other errors. Here ports are those of this machine, as they are for a pod in its node's network.
type portForwarder struct {
	mu    sync.Mutex
	paths []string
}

// ServeHTTP serves a port-forward.
func (p *portForwarder) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	p.mu.Lock()
	p.paths = append(p.paths, request.URL.Path)
	p.mu.Unlock()
	if _, err := httpstream.Handshake(request, response, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	connection := spdy.NewResponseUpgrader().UpgradeResponse(response, request, func(stream httpstream.Stream, replied <-chan struct{}) error {
		go func() {
			<-replied
			if stream.Headers().Get("streamType") == "data" {
				pipe(stream)
			} else {
				_ = stream.Close() // there are no errors
			}
		}()
		return nil
	})
	if connection == nil {
		return
	}
	<-connection.CloseChan()
}

// pipe connects a stream with its port.
func pipe(stream httpstream.Stream) {
	defer func() { _ = stream.Reset() }()
	port, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", stream.Headers().Get("port")))
	if err != nil {
		return
	}
	defer func() { _ = port.Close() }()
	go func() { _, _ = io.Copy(port, stream) }()
	_, _ = io.Copy(stream, port)
}

// portForward reaches the manager through the API server and a kubelet. The manager is the fixture's, for which a pod and a lease stand.
func (w *fixture) portForward(t *testing.T) {
	kubelet := &portForwarder{}
	server := httptest.NewTLSServer(kubelet)
	t.Cleanup(server.Close)
	w.podOf(t, server.URL)
	admin := "--kubeconfig=" + w.cluster.AdminKubeconfig()
	code, stdout, stderr := programtest.Call(t, newRoot(), "status", "--port-forward", admin)
	if code != cli.ExitOK || !strings.Contains(stdout, "Cloud: 3 instances by listing, ") {
		t.Errorf("status: exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = programtest.Call(t, newRoot(), "plan", "--port-forward", admin)
	if code != cli.ExitOK || !strings.Contains(stdout, `Plan for cluster "test", provider "sim"`) {
		t.Errorf("plan: exit code %d\n%s%s", code, stdout, stderr)
	}
	kubelet.mu.Lock()
	paths := strings.Join(kubelet.paths, " ")
	kubelet.mu.Unlock()
	if !strings.HasPrefix(paths, "/portForward/kube-system/mooring-x") {
		t.Errorf("the kubelet was asked for %q", paths)
	}
	nobody, err := w.cluster.UserKubeconfig("nobody")
	must.NoError(t, err)
	if code, _, stderr := programtest.Call(t, newRoot(), "status", "--port-forward", "--kubeconfig="+nobody); code != cli.ExitFailed ||
		!strings.Contains(stderr, "--port-forward: looking for the leader: ") {
		t.Errorf("without rights: exit code %d: %s", code, stderr)
	}
	w.watch(t)
	server.Close()
	if code, _, stderr := programtest.Call(t, newRoot(), "status", "--port-forward", admin); code != cli.ExitFailed ||
		!strings.Contains(stderr, "--port-forward to pod kube-system/mooring-x: ") {
		t.Errorf("without a kubelet: exit code %d: %s", code, stderr)
	}
}

// podOf creates the pod of the fixture's manager, on a node with that kubelet, and has it hold the lease.
func (w *fixture) podOf(t *testing.T, kubelet string) {
	t.Helper()
	address, err := url.Parse(kubelet)
	must.NoError(t, err)
	port, err := strconv.ParseInt(address.Port(), 10, 32)
	must.NoError(t, err)
	manager, err := url.Parse(w.server)
	must.NoError(t, err)
	node, err := w.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "control-plane"}}, metav1.CreateOptions{})
	must.NoError(t, err)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.Hostname()}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	_, err = w.admin.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	must.NoError(t, err)
	pod, err := w.admin.CoreV1().Pods("kube-system").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "mooring-x"},
		Spec: corev1.PodSpec{
			NodeName: "control-plane", HostNetwork: true, AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{
				Name: "m", Image: "example/cloud-controller-manager", Args: []string{"--dry-run", "--secure-port=" + manager.Port()},
			}},
		},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	pod.Status.Phase = corev1.PodRunning
	_, err = w.admin.CoreV1().Pods("kube-system").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	must.NoError(t, err)
	now := metav1.NowMicro()
	_, err = w.admin.CoordinationV1().Leases("kube-system").Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud-controller-manager"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("control-plane_1"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: &now, AcquireTime: &now},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
}

// watch follows the status through a port-forward until it is interrupted, and sees a change meanwhile.
func (w *fixture) watch(t *testing.T) {
	t.Helper()
	p := programtest.Start(t, "status", "--port-forward", "--kubeconfig="+w.cluster.AdminKubeconfig(), "--watch", "--interval=1s")
	p.Await("Cloud: 3 instances")
	_, err := w.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "joins-later"}}, metav1.CreateOptions{})
	must.NoError(t, err)
	p.Await("joins-later")
	p.Signal(syscall.SIGINT)
	if code := p.Exit(); code != cli.ExitOK {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
}

// A port-forward excludes the other ways to a manager.
func TestPortForwardFlags(t *testing.T) {
	for _, args := range [][]string{
		{"status", "--port-forward", "--server=https://127.0.0.1:1"}, {"plan", "--port-forward", "--server=https://127.0.0.1:1"},
		{"status", "--port-forward", "--insecure-skip-tls-verify"},
	} {
		code, _, stderr := programtest.Call(t, newRoot(), args...)
		if code != cli.ExitUsage || !strings.Contains(stderr, "--port-forward: not with --server") {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
	if code, _, stderr := programtest.Call(t, newRoot(), "status", "--watch", "--interval=1ms"); code != cli.ExitUsage || !strings.Contains(stderr, "--interval: 1ms: must be at least 1s") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
