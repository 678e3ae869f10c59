package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/pages"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// callsInterval is over what time calls to the cloud are counted.
const callsInterval = time.Second

// look reads what a status is made of.
type look struct {
	client kubernetes.Interface
	// namespace and lease are those of the election.
	namespace, lease string
	schemes          []string
	// everyEvent reads all events of nodes and Services, not only the events that say why an object waits.
	everyEvent bool
	// objects are read alone, with all their events; empty: all objects.
	objects []objectName
	// access and manager are nil if no manager is asked.
	access  *access
	manager *http.Client
}

// look returns what reads the cluster, and a function that ends a port-forward.
func (f *statusFlags) look(ctx context.Context, namespace, lease string) (l *look, stop func(), err error) {
	config, err := f.access.cluster()
	if err != nil {
		return nil, nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	l, stop = &look{client: client, namespace: namespace, lease: lease, schemes: f.schemes, everyEvent: f.html != "", objects: f.objects}, func() {}
	if f.access.forwarding {
		pod, key, err := leaderPod(ctx, client, namespace, lease)
		if err != nil {
			return nil, nil, err
		}
		if stop, err = f.access.forward(ctx, config, client, pod, key); err != nil {
			return nil, nil, err
		}
	}
	if f.access.server != "" {
		l.access = &f.access
		if l.manager, err = f.access.manager(config); err != nil {
			stop()
			return nil, nil, err
		}
	}
	return l, stop, nil
}

// all reads everything. It fails if the API server does not answer, or if it was wished to ask a manager and that cannot be; what
// may not be read is left out and said so.
func (l *look) all(ctx context.Context, progress io.Writer) (view.Seen, error) {
	seen := view.Seen{Schemes: l.schemes}
	for _, step := range []struct {
		what string
		read func(context.Context, *view.Seen) error
	}{
		{"the lease " + l.namespace + "/" + l.lease, l.readLease},
		{"the nodes", l.readNodes},
		{"the Services", l.readServices},
		{"the events of what waits", l.readEvents},
		{"the events about the cloud config", l.readConfigEvents},
	} {
		done := cli.Progress(progress, "Reading "+step.what)
		err := step.read(ctx, &seen)
		done()
		if apierrors.IsForbidden(err) {
			seen.Unknown = append(seen.Unknown, step.what+", which you may not read: "+err.Error())
		} else if err != nil {
			return seen, fmt.Errorf("reading %s: %w", step.what, err)
		}
	}
	if l.manager != nil {
		defer cli.Progress(progress, "Asking the manager for its metrics")()
		if err := l.readMetrics(ctx, &seen); err != nil {
			return seen, err
		}
	}
	seen.Now = time.Now()
	return seen, nil
}

func (l *look) readLease(ctx context.Context, seen *view.Seen) error {
	lease, err := l.client.CoordinationV1().Leases(l.namespace).Get(ctx, l.lease, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		seen.NoLease = true
		return nil
	case err != nil:
		return err
	}
	seen.Lease = lease
	return nil
}

func (l *look) readNodes(ctx context.Context, seen *view.Seen) error {
	if len(l.objects) > 0 {
		seen.Nodes = []corev1.Node{}
		return l.each(false, func(object objectName) error {
			node, err := l.client.CoreV1().Nodes().Get(ctx, object.name, metav1.GetOptions{})
			if err == nil {
				seen.Nodes = append(seen.Nodes, *node)
			}
			return err
		})
	}
	nodes, err := pages.All[corev1.Node](ctx, l.client.CoreV1().Nodes().List, metav1.ListOptions{})
	if err == nil {
		seen.Nodes = nodes
	}
	return err
}

func (l *look) readServices(ctx context.Context, seen *view.Seen) error {
	if len(l.objects) > 0 {
		seen.Services = []corev1.Service{}
		return l.each(true, func(object objectName) error {
			service, err := l.client.CoreV1().Services(object.namespace).Get(ctx, object.name, metav1.GetOptions{})
			switch {
			case err != nil:
				return err
			case service.Spec.Type != corev1.ServiceTypeLoadBalancer && !servicehelper.HasLBFinalizer(service):
				return fmt.Errorf("the Service %s/%s is of type %s, and has no load balancer", object.namespace, object.name, service.Spec.Type)
			}
			seen.Services = append(seen.Services, *service)
			return nil
		})
	}
	services, err := pages.All[corev1.Service](ctx, l.client.CoreV1().Services(metav1.NamespaceAll).List, metav1.ListOptions{})
	if err == nil {
		seen.Services = services
	}
	return err
}

// each calls read for the nodes or Services that were asked for, each once.
func (l *look) each(services bool, read func(objectName) error) error {
	done := map[objectName]bool{}
	for _, object := range l.objects {
		if done[object] || (object.namespace != "") != services {
			continue
		}
		done[object] = true
		if err := read(object); err != nil {
			return err
		}
	}
	return nil
}

// readEvents reads the events about nodes and Services, if there are some of which only events say why they wait.
func (l *look) readEvents(ctx context.Context, seen *view.Seen) error {
	var kinds []string
	if len(l.objects) > 0 {
		var selectors []string
		for _, object := range l.objects {
			kind := "Node"
			if object.namespace != "" {
				kind = "Service"
			}
			selectors = append(selectors, "involvedObject.kind="+kind+",involvedObject.name="+object.name)
		}
		return l.selectEvents(ctx, seen, selectors...)
	}
	if l.everyEvent {
		return l.listEvents(ctx, seen, "Node", "Service")
	}
	for i := range seen.Nodes {
		if ownership.Uninitialized(&seen.Nodes[i]) {
			kinds = append(kinds, "Node")
			break
		}
	}
	for i := range seen.Services {
		if of := &seen.Services[i]; servicehelper.HasLBFinalizer(of) &&
			(of.DeletionTimestamp != nil || of.Spec.Type != corev1.ServiceTypeLoadBalancer) {
			kinds = append(kinds, "Service")
			break
		}
	}
	return l.listEvents(ctx, seen, kinds...)
}

// readConfigEvents reads whether replicas have taken the cloud config.
func (l *look) readConfigEvents(ctx context.Context, seen *view.Seen) error {
	return l.selectEvents(ctx, seen, "reason="+names.ReasonCloudConfigRefused, "reason="+names.ReasonCloudConfigTaken)
}

// listEvents reads the events about objects of some kinds.
func (l *look) listEvents(ctx context.Context, seen *view.Seen, kinds ...string) error {
	var selectors []string
	for _, kind := range kinds {
		selectors = append(selectors, "involvedObject.kind="+kind)
	}
	return l.selectEvents(ctx, seen, selectors...)
}

// selectEvents reads the events that one of the field selectors selects.
func (l *look) selectEvents(ctx context.Context, seen *view.Seen, selectors ...string) error {
	for _, selector := range selectors {
		events, err := pages.All[corev1.Event](ctx, l.client.CoreV1().Events(metav1.NamespaceAll).List, metav1.ListOptions{FieldSelector: selector})
		seen.Events = append(seen.Events, events...)
		if err != nil {
			return err
		}
	}
	return nil
}

// readMetrics reads the manager's metrics twice, to count the calls in between.
func (l *look) readMetrics(ctx context.Context, seen *view.Seen) (err error) {
	began := time.Now()
	if seen.Before, err = l.metrics(ctx); err != nil {
		return err
	}
	select {
	case <-time.After(callsInterval):
	case <-ctx.Done():
		return ctx.Err()
	}
	seen.Interval = time.Since(began)
	seen.Metrics, err = l.metrics(ctx)
	return err
}

func (l *look) metrics(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	const path = "/metrics"
	body, err := l.access.ask(ctx, l.manager, path)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("reading %s of the manager at %s: %w", path, l.access.server, err)
	}
	return families, nil
}
