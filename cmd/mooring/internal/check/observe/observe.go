package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/check"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/pages"
	"github.com/mooring-ccm/mooring/internal/version"
)

// partTimeout is how long a part of the observation may take, all pages together.
const partTimeout = time.Minute

// Observer reads a cluster.
type Observer struct {
	Client kubernetes.Interface
	// Namespace and Lease name the Lease by which Mooring elects its leader.
	Namespace, Lease string
	// Schemes are those of the provider IDs that are Mooring's own; empty if they are not known.
	Schemes []string
}

// Observe reads everything. What cannot be read is said so in the part; an error is returned only if the API server does not answer at
// all, or ctx ends.
func (o *Observer) Observe(ctx context.Context) (*check.Observation, error) {
	seen := &check.Observation{
		Namespace: o.Namespace, Lease: o.Lease, Schemes: o.Schemes, Tested: version.TestedKubernetes(),
	}
	var unreachable *url.Error
	seen.Server = part(ctx, "the version of the API server", func(ctx context.Context) (string, error) {
		version, err := o.version(ctx)
		errors.As(err, &unreachable) // a refusal is an answer
		return version, err
	})
	if unreachable != nil {
		return nil, fmt.Errorf("asking the API server for its version: %w", unreachable)
	}
	var parts sync.WaitGroup
	for _, read := range []func(context.Context){
		func(ctx context.Context) { seen.Nodes = part(ctx, "nodes", o.nodes) },
		func(ctx context.Context) { seen.Services = part(ctx, "Services", o.services) },
		func(ctx context.Context) { seen.Leases = part(ctx, "leases of "+o.Namespace, o.leases) },
		func(ctx context.Context) {
			seen.KubeProxy = part(ctx, "the ConfigMap kube-system/kube-proxy", o.kubeProxy)
		},
		func(ctx context.Context) { seen.Events = part(ctx, "events of nodes and Services", o.events) },
		func(ctx context.Context) {
			seen.ControllerManagers = part(ctx, "pods of kube-controller-manager", o.controllerManagers)
		},
		func(ctx context.Context) {
			seen.Workloads = part(ctx, "Deployments, DaemonSets and pods that run a cloud controller manager", o.workloads)
			seen.Pods = part(ctx, "pods of the manager", func(ctx context.Context) ([]corev1.Pod, error) { return o.pods(ctx, seen) })
			seen.Rights = part(ctx, "rights of the manager's ServiceAccount", func(ctx context.Context) ([]check.Right, error) { return o.rights(ctx, seen) })
		},
	} {
		parts.Go(func() { read(ctx) })
	}
	parts.Wait()
	seen.Now = time.Now()
	return seen, ctx.Err()
}

func (o *Observer) version(ctx context.Context) (string, error) {
	answer, err := o.Client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	var info apiversion.Info
	if err := json.Unmarshal(answer, &info); err != nil {
		return "", fmt.Errorf("reading /version: %w", err)
	}
	return info.GitVersion, nil
}

// part reads a part of the observation within its time.
func part[T any](ctx context.Context, what string, read func(context.Context) (T, error)) check.Part[T] {
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	value, err := read(ctx)
	if err != nil {
		return check.Part[T]{Unread: unread(what, err)}
	}
	return check.Part[T]{Value: value}
}

// unread says what was not read, and why.
func unread(what string, err error) string {
	if apierrors.IsForbidden(err) {
		return what + ", which you may not read: " + err.Error()
	}
	return what + ": " + err.Error()
}

func (o *Observer) nodes(ctx context.Context) ([]corev1.Node, error) {
	return pages.All[corev1.Node](ctx, o.Client.CoreV1().Nodes().List, metav1.ListOptions{})
}

func (o *Observer) services(ctx context.Context) ([]corev1.Service, error) {
	return pages.All[corev1.Service](ctx, o.Client.CoreV1().Services(metav1.NamespaceAll).List, metav1.ListOptions{})
}

func (o *Observer) leases(ctx context.Context) ([]coordinationv1.Lease, error) {
	return pages.All[coordinationv1.Lease](ctx, o.Client.CoordinationV1().Leases(o.Namespace).List, metav1.ListOptions{})
}

// kubeProxy reads the ConfigMap that kubeadm and others configure kube-proxy by, or nil if it does not exist.
func (o *Observer) kubeProxy(ctx context.Context) (*corev1.ConfigMap, error) {
	config, err := o.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "kube-proxy", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return config, err
}

// events reads the warnings about nodes and Services.
func (o *Observer) events(ctx context.Context) (events []corev1.Event, err error) {
	for _, kind := range []string{"Node", "Service"} {
		found, failure := pages.All[corev1.Event](ctx, o.Client.CoreV1().Events(metav1.NamespaceAll).List, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=" + kind,
		})
		events, err = append(events, found...), errors.Join(err, failure)
	}
	return events, err
}
