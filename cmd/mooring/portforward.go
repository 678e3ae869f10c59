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

// leaderPod returns the pod that holds a lease, from wherever its chart comes.
func leaderPod(ctx context.Context, client kubernetes.Interface, namespace, lease string) (*corev1.Pod, error) {
	held, err := client.CoordinationV1().Leases(namespace).Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("--port-forward: looking for the leader: %w", err)
	}
	holder := ptr.Deref(held.Spec.HolderIdentity, "")
	if holder == "" {
		return nil, fmt.Errorf("--port-forward: no replica holds the lease %s/%s", namespace, lease)
	}
	named := held.Annotations[election.HolderPodAnnotation]
	pod, err := managerPod(ctx, client, namespace, func(pods []corev1.Pod) *corev1.Pod {
		return managers.Leader(holder, election.HolderPodUID(named, holder, namespace), pods)
	})
	if pod != nil || err != nil {
		return pod, err
	}
	return nil, fmt.Errorf("--port-forward: no pod of a manager in namespace %s is %q, which holds the lease %s: if it runs outside of the cluster "+
		"or as a static pod, which any kubelet can make, name its secure port by --server", namespace, holder, lease)
}

// dryRunPod returns a pod that runs a manager under --dry-run.
func dryRunPod(ctx context.Context, client kubernetes.Interface, namespace string) (*corev1.Pod, error) {
	pod, err := managerPod(ctx, client, namespace, func(pods []corev1.Pod) *corev1.Pod {
		for i := range pods {
			if managers.FlagsOf(managers.Container(&pods[i].Spec)).Is("dry-run") && pods[i].Status.Phase == corev1.PodRunning {
				return &pods[i]
			}
		}
		return nil
	})
	if pod != nil || err != nil {
		return pod, err
	}
	return nil, fmt.Errorf("--port-forward: no pod that runs in namespace %s is a manager under --dry-run; static pods, which any kubelet can make, "+
		"do not count: name its secure port by --server", namespace)
}

// managerPod returns the pod that is looked for among those of cloud controller managers in a namespace, nil if it is not there. It
// looks at those with the label of the chart first: kube-system of a large cluster has thousands of pods. Mirrors of static pods do not
// count: a kubelet may make one in any namespace, with any name and labels.
func managerPod(ctx context.Context, client kubernetes.Interface, namespace string, find func([]corev1.Pod) *corev1.Pod) (*corev1.Pod, error) {
	for _, selector := range []string{managers.ComponentLabel + "=" + managers.DefaultLease, ""} {
		var found []corev1.Pod
		err := pages.Each(ctx, client.CoreV1().Pods(namespace).List, metav1.ListOptions{LabelSelector: selector}, func(pod *corev1.Pod) {
			if managers.Container(&pod.Spec) != nil && pod.DeletionTimestamp == nil && !managers.OfKubelet(pod) {
				found = append(found, *pod)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("--port-forward: looking for pods of a manager: %w", err)
		}
		if pod := find(found); pod != nil {
			return pod, nil
		}
	}
	return nil, nil
}

// forward has a port of this machine lead to the manager's secure port in a pod, through the API server and the pod's kubelet, and makes
// it the server. Nothing says whether that kubelet leads to the pod, so the user's credentials are not sent there: what is asked, is
// asked with a token of the pod's own account.
func (a *access) forward(ctx context.Context, config *rest.Config, client kubernetes.Interface, pod *corev1.Pod) (stop func(), err error) {
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
