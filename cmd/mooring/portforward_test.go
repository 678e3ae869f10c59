package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
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

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/election"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// portForwarder is that part of a kubelet which has ports of pods reached: the API server upgrades a connection, and of each pair of streams
// the one carries the bytes and the other errors. Here ports are those of this machine, as they are for a pod in its node's network.
type portForwarder struct {
	// address is where all ports lead; empty: to those of this machine.
	address string
	mu      sync.Mutex
	paths   []string
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
				pipe(stream, cmp.Or(p.address, net.JoinHostPort("127.0.0.1", stream.Headers().Get("port"))))
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
func pipe(stream httpstream.Stream, address string) {
	defer func() { _ = stream.Reset() }()
	port, err := net.Dial("tcp", address)
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
	stranger, err := w.cluster.UserKubeconfig("stranger")
	must.NoError(t, err)
	if code, _, stderr := programtest.Call(t, newRoot(), "status", "--port-forward", "--kubeconfig="+stranger); code != cli.ExitFailed ||
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
	account(t, w.admin)
	node, err := w.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "control-plane"}}, metav1.CreateOptions{})
	must.NoError(t, err)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.Hostname()}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	_, err = w.admin.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	must.NoError(t, err)
	pod, err := w.admin.CoreV1().Pods("kube-system").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "mooring-x"},
		Spec: corev1.PodSpec{
			NodeName: "control-plane", HostNetwork: true, ServiceAccountName: "mooring", Volumes: tokenVolumes,
			Containers: []corev1.Container{{
				Name: "m", Image: "example/cloud-controller-manager", Args: []string{"--dry-run", "--secure-port=" + manager.Port()},
			}},
		},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	pod.Status.Phase = corev1.PodRunning
	_, err = w.admin.CoreV1().Pods("kube-system").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	must.NoError(t, err)
	connection, err := tls.Dial("tcp", manager.Host, &tls.Config{InsecureSkipVerify: true})
	must.NoError(t, err)
	served := connection.ConnectionState().PeerCertificates[0]
	must.NoError(t, connection.Close())
	leads(t, w.admin, pod, election.ServingKey(served))
}

// leads has a pod hold the lease of leader election, and say by which key it serves.
func leads(t *testing.T, admin *kubernetes.Clientset, pod *corev1.Pod, key string) {
	t.Helper()
	now, leases := metav1.NowMicro(), admin.CoordinationV1().Leases(pod.Namespace)
	holder := pod.Spec.NodeName + "_1"
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud-controller-manager", Annotations: map[string]string{
			election.HolderPodAnnotation: fmt.Sprintf(`{"holder":%q,"namespace":%q,"name":%q,"uid":%q,"servingKey":%q}`, holder, pod.Namespace, pod.Name, pod.UID, key),
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: &now, AcquireTime: &now},
	}
	if err := leases.Delete(t.Context(), lease.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		must.NoError(t, err)
	}
	_, err := leases.Create(t.Context(), lease, metav1.CreateOptions{})
	must.NoError(t, err)
}

// tokenVolumes are what the API server's admission adds to Pods, with its plugin ServiceAccount.
var tokenVolumes = []corev1.Volume{{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
	Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
}}}}

// account makes the account of a manager, which may read what its secure port serves.
func account(t *testing.T, admin *kubernetes.Clientset) {
	t.Helper()
	_, err := admin.CoreV1().ServiceAccounts("kube-system").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "mooring"}}, metav1.CreateOptions{})
	must.NoError(t, err)
	_, err = admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics", "/plan"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "kube-system", Name: "mooring"}},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
}

// stealing is a kubelet that leads every port of every pod to a server of its own, and what that server was sent.
type stealing struct {
	mu      sync.Mutex
	headers []string
	certs   int
	// key is the one that its server has.
	key string
}

// sent returns what the server was sent since the last call.
func (s *stealing) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.headers
	s.headers = nil
	return sent
}

// start registers the kubelet's node with its own credential, which it returns.
func (s *stealing) start(t *testing.T, cluster *localcluster.Cluster, admin *kubernetes.Clientset, name string) (*kubernetes.Clientset, *corev1.Node) {
	t.Helper()
	collector := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.headers = append(s.headers, r.Header.Get("Authorization"))
		s.certs += len(r.TLS.PeerCertificates)
	}))
	collector.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	collector.StartTLS()
	t.Cleanup(collector.Close)
	s.key = election.ServingKey(collector.Certificate())
	kubelet := httptest.NewTLSServer(&portForwarder{address: collector.Listener.Addr().String()})
	t.Cleanup(kubelet.Close)
	at, err := url.Parse(kubelet.URL)
	must.NoError(t, err)
	port, err := strconv.ParseInt(at.Port(), 10, 32)
	must.NoError(t, err)
	credential, err := cluster.UserConfig("system:node:"+name, "system:nodes")
	must.NoError(t, err)
	evil, err := kubernetes.NewForConfig(credential)
	must.NoError(t, err)
	node, err := evil.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must.NoError(t, err)
	poll.Within(t, programtest.Patience, "the status of the node is written", func(ctx context.Context) error {
		fresh, err := evil.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		fresh.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: at.Hostname()}}
		fresh.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
		_, err = evil.CoreV1().Nodes().UpdateStatus(ctx, fresh, metav1.UpdateOptions{})
		return err
	})
	return evil, node
}

// mirror makes the mirror of a static pod that runs, as a kubelet may.
func mirror(t *testing.T, evil *kubernetes.Clientset, node *corev1.Node, name string, args ...string) *corev1.Pod {
	t.Helper()
	pod, err := evil.CoreV1().Pods("kube-system").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"app.kubernetes.io/component": "cloud-controller-manager"},
			Annotations:     map[string]string{corev1.MirrorPodAnnotationKey: "x"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "ccm", Image: "x", Args: args}}},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	runs(t, evil, name)
	return pod
}

// runs has a kubelet report that a pod runs, as soon as the node authorizer knows that it is one of its node.
func runs(t *testing.T, kubelet *kubernetes.Clientset, name string) {
	t.Helper()
	poll.Within(t, programtest.Patience, "the pod "+name+" runs", func(ctx context.Context) error {
		pod, err := kubelet.CoreV1().Pods("kube-system").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.Phase = corev1.PodRunning
		_, err = kubelet.CoreV1().Pods("kube-system").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

// TestPortForwardShowsNoCredential lets kubelets stand for the manager's pod: by mirrors of static pods, which any kubelet can make, at the address
// of the pod's kubelet, and as the kubelet of the pod itself. None of them is sent the user's token or certificate, and what answers without the
// leader's key is sent nothing.
func TestPortForwardShowsNoCredential(t *testing.T) {
	cluster := localclustertest.Start(t)
	admin, err := kubernetes.NewForConfig(cluster.AdminConfig())
	must.NoError(t, err)
	account(t, admin)
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", "operator")
	must.NoError(t, err)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operator"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "kube-system", Name: "operator"}},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	credentials := []string{kubeconfig, cluster.AdminKubeconfig()}
	refused := func(why, command, want string) {
		t.Helper()
		for _, credential := range credentials {
			if code, _, stderr := programtest.Call(t, newRoot(), command, "--port-forward", "--kubeconfig="+credential); code != cli.ExitFailed ||
				!strings.Contains(stderr, want) {
				t.Errorf("%s, %s: exit code %d: %s", command, why, code, stderr)
			}
		}
	}

	thief := &stealing{}
	evil, node := thief.start(t, cluster, admin, "worker-7")
	forged := mirror(t, evil, node, "cp-1") // the host of the lease's holder
	mirror(t, evil, node, "a", "--dry-run") // for plan
	leads(t, admin, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cp-1", UID: "gone"}, Spec: corev1.PodSpec{NodeName: "cp-1"}}, thief.key)
	refused("in place of a pod with another UID", "status", "is not the one of the leader cp-1_1, with the UID gone")
	leads(t, admin, forged, thief.key)
	refused("although a static pod leads", "status", "static pods, which any kubelet can make")
	refused("with static pods alone", "plan", "which any kubelet can make")
	if sent := thief.sent(); len(sent) > 0 {
		t.Errorf("a static pod was asked %d times", len(sent))
	}

	own := &stealing{}
	kubelet, _ := own.start(t, cluster, admin, "cp-1")
	pod, err := admin.CoreV1().Pods("kube-system").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "mooring-x"},
		Spec: corev1.PodSpec{NodeName: "cp-1", HostNetwork: true, ServiceAccountName: "mooring", Volumes: tokenVolumes, Containers: []corev1.Container{{
			Name: "cloud-controller-manager", Image: "example/cloud-controller-manager", Args: []string{"--dry-run"},
		}}},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	runs(t, kubelet, "mooring-x")
	leads(t, admin, pod, "")
	refused("of a leader that does not say its key", "status", "does not say in the lease kube-system/cloud-controller-manager by which key it serves")
	leads(t, admin, pod, "sha256:00")
	refused("where another key answers", "status", "no credential was sent: what answers does not have the key that the leader has written into its lease")
	if sent := own.sent(); len(sent) > 0 {
		t.Errorf("what answers without the leader's key was sent %q", sent)
	}

	// The pod's own kubelet may write the lease, with a token of the pod, and for plan there is no lease.
	leads(t, admin, pod, own.key)
	for _, credential := range credentials {
		for _, command := range []string{"status", "plan"} {
			programtest.Call(t, newRoot(), command, "--port-forward", "--kubeconfig="+credential)
		}
	}
	sent := own.sent()
	if len(sent) < 4 || own.certs > 0 {
		t.Errorf("the pod's kubelet was asked %d times, with %d certificates", len(sent), own.certs)
	}
	for _, header := range sent {
		review, err := admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: strings.TrimPrefix(header, "Bearer ")},
		}, metav1.CreateOptions{})
		must.NoError(t, err)
		if review.Status.User.Username != "system:serviceaccount:kube-system:mooring" {
			t.Errorf("it was sent the token of %q", review.Status.User.Username)
		}
	}
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
