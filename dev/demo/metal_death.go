package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/dev/netlab"
)

// death ends a machine without a word, and shows what that costs with each policy.
func (r *rack) death() section {
	return section{name: "death", title: "A machine dies", steps: []step{
		{
			name: "out", title: "a machine loses its power, and the router stops sending to it", deadline: stepDeadline,
			run: r.die,
		},
		{
			name: "local", title: "policy Local: all requests are answered again", deadline: stepDeadline,
			run: func(ctx context.Context, _ *environment) (string, error) { return r.countLosses(ctx, r.local) },
		},
		{
			name: "endpoints", title: "the node is not ready, and its pods leave the EndpointSlices", deadline: stepDeadline,
			run: r.retireEndpoints,
		},
		{
			name: "cluster", title: "policy Cluster: all requests are answered again, as no node sends any to the dead one's pods", deadline: stepDeadline,
			run: func(ctx context.Context, _ *environment) (string, error) { return r.countLosses(ctx, r.cluster) },
		},
		{
			name: "taint", title: "its management controller says that it is off: the node has the shutdown taint", deadline: stepDeadline,
			run: r.awaitTaint,
		},
	}}
}

func (r *rack) die(ctx context.Context, s *environment) (string, error) {
	dead := r.dead()
	agent, err := s.agent(dead.name)
	if err != nil {
		return "", err
	}
	r.died = time.Now()
	r.bmc.SetPower(dead.id, redfishsim.Off)
	agent.Silence()
	if err := errors.Join(r.segment.Cut(ctx, dead.host), dead.proxy.kill()); err != nil {
		return "", err
	}
	if err := r.awaitTable(ctx, func(table netlab.Table) error { return r.spread(table, r.living()) }); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is out of the router's table after %s, by probes alone", dead.name, seconds(time.Since(r.died))), nil
}

func (r *rack) countLosses(ctx context.Context, e *exposed) (string, error) {
	if _, err := e.sent.awaitAnswers(ctx); err != nil {
		return "", err
	}
	lost, all := e.sent.lost(r.died)
	return fmt.Sprintf("%d of %d were lost, within %s", len(lost), all, seconds(window(lost))), nil
}

// retireEndpoints waits until kube-controller-manager has seen that the node is silent. With pods it would then take their endpoints
// out; the demo's are none, and it does that in its place.
func (r *rack) retireEndpoints(ctx context.Context, s *environment) (string, error) {
	dead := r.dead()
	if err := s.awaitNode(ctx, dead.name, wantsSilent); err != nil {
		return "", err
	}
	all := s.kubernetes.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	list, err := all.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range list.Items {
		slice := &list.Items[i]
		slice.Endpoints = slices.DeleteFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return e.NodeName != nil && *e.NodeName == dead.name })
		if _, err := all.Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
			return "", fmt.Errorf("take the pods of %s out of %s: %w", dead.name, slice.Name, err)
		}
	}
	return fmt.Sprintf("after %s; a node's kubelet has to be silent for %s, 40 s by default", seconds(time.Since(r.died)), silence), nil
}

// wantsSilent returns an error unless kube-controller-manager has given up on the node's kubelet.
func wantsSilent(node *corev1.Node) error {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionUnknown {
			return nil
		}
	}
	return errors.New("its kubelet is not known to be silent")
}

func (r *rack) awaitTaint(ctx context.Context, s *environment) (string, error) {
	if err := s.awaitNode(ctx, r.dead().name, func(node *corev1.Node) error { return wantsShutDown(node, true) }); err != nil {
		return "", err
	}
	return fmt.Sprintf("after %s", seconds(time.Since(r.died))), nil
}
