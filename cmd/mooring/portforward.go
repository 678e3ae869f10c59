package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/managers"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/pages"
	"github.com/mooring-ccm/mooring/internal/election"
)

// leaderPod returns the pod that holds a lease, and the key by which the leader serves: by what the leader has written into its lease, which no
// kubelet may write.
func leaderPod(ctx context.Context, client kubernetes.Interface, namespace, lease string) (*corev1.Pod, string, error) {
	held, err := client.CoordinationV1().Leases(namespace).Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("--port-forward: looking for the leader: %w", err)
	}
	holder := ptr.Deref(held.Spec.HolderIdentity, "")
	if holder == "" {
		return nil, "", fmt.Errorf("--port-forward: no replica holds the lease %s/%s", namespace, lease)
	}
	name, uid, key := election.HolderPod(held.Annotations[election.HolderPodAnnotation], holder, namespace)
	switch {
	case name == "":
		return nil, "", fmt.Errorf("--port-forward: the leader %s does not say in the lease %s/%s in which pod it runs, so no pod is asked: a manager does "+
			"so in a pod that is not static, with POD_NAME, POD_NAMESPACE and POD_UID; name its secure port by --server", holder, namespace, lease)
	case key == "":
		return nil, "", fmt.Errorf("--port-forward: the leader %s does not say in the lease %s/%s by which key it serves, so no pod is asked: upgrade it, "+
			"or name its secure port by --server", holder, namespace, lease)
	}
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("--port-forward: looking for the pod of the leader: %w", err)
	}
	if pod.UID != uid || !ofManager(pod) {
		return nil, "", fmt.Errorf("--port-forward: pod %s/%s is not the one of the leader %s, with the UID %s: static pods, which any kubelet can make, "+
			"do not count; name its secure port by --server", namespace, name, holder, uid)
	}
	return pod, key, nil
}

// ofManager reports whether a pod is one of a cloud controller manager. Mirrors of static pods do not count: a kubelet may make one in any
// namespace, with any name and labels.
func ofManager(pod *corev1.Pod) bool {
	return managers.Container(&pod.Spec) != nil && !managers.OfKubelet(pod)
}

// dryRunPod returns a pod that runs a manager under --dry-run. It looks at those with the label of the chart first: kube-system of a large cluster
// has thousands of pods.
func dryRunPod(ctx context.Context, client kubernetes.Interface, namespace string) (*corev1.Pod, error) {
	for _, selector := range []string{managers.ComponentLabel + "=" + managers.DefaultLease, ""} {
		var found *corev1.Pod
		err := pages.Each(ctx, client.CoreV1().Pods(namespace).List, metav1.ListOptions{LabelSelector: selector}, func(pod *corev1.Pod) {
			if found == nil && ofManager(pod) && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning &&
				managers.FlagsOf(managers.Container(&pod.Spec)).Is("dry-run") {
				found = pod.DeepCopy()
			}
		})
		if err != nil {
			return nil, fmt.Errorf("--port-forward: looking for pods of a manager: %w", err)
		}
		if found != nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("--port-forward: no pod that runs in namespace %s is a manager under --dry-run; static pods, which any kubelet can make, "+
		"do not count: name its secure port by --server", namespace)
}

// forward has a port of this machine lead to the manager's secure port in a pod, through the API server and the pod's kubelet, and makes
// it the server. Only a key of the manager says that this leads to the pod: another kubelet may answer at that kubelet's address. A manager under
// --dry-run writes none anywhere. The pod's own kubelet may know the key, so the user's credentials are not sent there: what is asked, is asked
// with a token of the pod's own account, which that kubelet may ask for anyway.
func (a *access) forward(ctx context.Context, config *rest.Config, client kubernetes.Interface, pod *corev1.Pod, key string) (stop func(), err error) {
	tokens, err := tokensOf(ctx, client, pod)
	if err != nil {
		return nil, err
	}
	dialer, err := dialerTo(config, client, pod)
	if err != nil {
		return nil, err
	}
	ended, ready, failed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ports := []string{"0:" + managers.FlagsOf(managers.Container(&pod.Spec)).SecurePort()}
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, ports, ended, ready, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("--port-forward: %w", err)
	}
	go func() { failed <- forwarder.ForwardPorts() }()
	stop = sync.OnceFunc(func() { close(ended) })
	context.AfterFunc(ctx, stop)
	select {
	case err := <-failed:
		return nil, fmt.Errorf("--port-forward to pod %s/%s: %w; it takes \"create\" on pods/portforward", pod.Namespace, pod.Name, errors.Join(err, ctx.Err()))
	case <-ready:
	}
	local, err := forwarder.GetPorts()
	if err != nil {
		stop()
		return nil, fmt.Errorf("--port-forward: %w", err)
	}
	a.server, a.tokens = fmt.Sprintf("https://127.0.0.1:%d", local[0].Local), tokens
	a.key = key
	return stop, nil
}

// dialerTo connects to a pod's ports by WebSockets, and by SPDY where an old API server or a proxy does not let those through, as kubectl does.
func dialerTo(config *rest.Config, client kubernetes.Interface, pod *corev1.Pod) (httpstream.Dialer, error) {
	location := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("--port-forward: %w", err)
	}
	sockets, err := portforward.NewSPDYOverWebsocketDialerForStreaming(location, config)
	if err != nil {
		return nil, fmt.Errorf("--port-forward: %w", err)
	}
	return portforward.NewFallbackDialerForStreaming(sockets, spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, location),
		func(err error) bool { return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) }), nil
}
