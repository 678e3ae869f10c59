package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"

	"github.com/mooring-ccm/mooring/dev/simulation/apiserver"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
)

// Script is a case that can be played.
type Script struct {
	// Controller is the one that the case is about, and the only one that runs; empty for all. Flags are further flags of both managers.
	Controller string
	Flags      []string
	Cloud      *fake.Cloud
	// WithoutRoutes and Status say what the fake cloud cannot: that no route is made, and what status a load balancer has.
	WithoutRoutes bool
	Status        *corev1.LoadBalancerStatus
	// Nodes and Services are there before the manager starts.
	Nodes    []*corev1.Node
	Services []*corev1.Service
	// Steps happen one after the other, each when the manager has had the time to settle.
	Steps []Step
	// Lasts is how long the manager has after the last step.
	Lasts time.Duration
	// Intercept answers requests of the manager in place of the API server, during the first minute.
	Intercept func(*http.Request, apiserver.Attributes) (*http.Response, error)
	// beside is a node that is there whatever the fake cloud says.
	beside string
	// anyOrder says that Services may change their places, because the reference serves them in the order of a map.
	anyOrder bool
}

// Step is what happens to the cluster or its cloud.
type Step func(context.Context, *World) error

// Unplayable is why a case cannot be played.
type Unplayable string

// Error implements error.
func (u Unplayable) Error() string { return string(u) }

// settle is how long a manager has before the next step, and faulty how long Intercept answers.
const (
	settle = 2 * time.Minute
	faulty = time.Minute
	// longAgo is the age of a time of a case.
	longAgo = 24 * time.Hour
)

// World is the cluster and the cloud of a case.
type World struct {
	Cloud  *fake.Cloud
	client kubernetes.Interface
	server server
}

// Outcome is what a case has come to under one manager.
type Outcome struct {
	// Ended says that the manager ended by itself.
	Ended bool
	// Objects are the nodes and Services at the end, each as its properties. Routes are those of the cloud.
	Objects map[string]map[string]string
	Routes  []string
	// Events are the kinds and reasons of events of each object.
	Events []string
	// Calls are the calls of the plugin.
	Calls    []call
	anyOrder bool
}

// Play plays a script under a manager, with an API server in memory and in virtual time.
func Play(t *testing.T, script *Script, manager *managers.Manager) (outcome Outcome, err error) {
	synctest.Test(t, func(t *testing.T) { outcome, err = play(t.Context(), script, manager, inMemory(manager)) })
	return outcome, err
}

func play(ctx context.Context, script *Script, manager *managers.Manager, server server) (Outcome, error) {
	between := &interceptor{script: script, began: time.Now()}
	users, transport, err := server.connect(between.answer)
	if err != nil {
		return Outcome{}, err
	}
	users.QPS = -1
	client, err := kubernetes.NewForConfig(users)
	if err != nil {
		return Outcome{}, fmt.Errorf("client of the users: %w", err)
	}
	world := &World{Cloud: script.Cloud, client: client, server: server}
	for _, node := range script.Nodes {
		if err := world.Node(ctx, node); err != nil {
			return Outcome{}, err
		}
	}
	for _, service := range script.Services {
		if err := world.Service(ctx, service); err != nil {
			return Outcome{}, err
		}
	}
	cloud := &plugin{Cloud: script.Cloud, withoutRoutes: script.WithoutRoutes, status: script.Status, beside: script.beside, spec: server.spec}
	process, err := managers.Start(ctx, manager, managers.Settings{
		Flags:     script.flags(),
		Transport: transport,
		Plugin:    func(*managers.Incarnation) cloudprovider.Interface { return cloud },
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("start %s: %w", manager.Name, err)
	}
	defer server.end(process)
	for _, step := range script.Steps {
		time.Sleep(settle)
		if err := step(ctx, world); err != nil {
			return Outcome{}, err
		}
	}
	time.Sleep(script.Lasts)
	outcome, err := world.look(ctx)
	outcome.anyOrder = script.anyOrder
	outcome.Ended, outcome.Calls, outcome.Routes, outcome.Events = process.Err() != nil, cloud.made(), cloud.routes(), between.events.sorted()
	return outcome, err
}

// refused turns what the API server says about an object into why its case cannot be played.
func refused(err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		var status apierrors.APIStatus
		message := err.Error()
		if errors.As(err, &status) && status.Status().Details != nil {
			var causes []string
			for _, cause := range status.Status().Details.Causes {
				causes = append(causes, cause.Field+": "+cause.Message)
			}
			slices.Sort(causes)
			message = strings.Join(slices.Compact(causes), "; ")
		}
		return Unplayable("The API server refuses " + message)
	}
	return err
}

// Node makes a node, or changes it to this one. One that is to be deleted has a finalizer, because an API server has no deletion timestamp without one.
func (w *World) Node(ctx context.Context, wanted *corev1.Node) error {
	nodes := w.client.CoreV1().Nodes()
	node := wanted.DeepCopy()
	deleted := node.DeletionTimestamp != nil
	node.ResourceVersion, node.UID, node.DeletionTimestamp = "", "", nil
	if deleted {
		node.Finalizers = []string{"example.com/held"}
	}
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Effect == "" {
			node.Spec.Taints[i].Effect = corev1.TaintEffectNoSchedule
		}
	}
	for i := range node.Status.Conditions { // of 2015, which is long ago for a test of the reference, while the clock of the bubble begins in 2000
		condition := &node.Status.Conditions[i]
		for _, at := range []*metav1.Time{&condition.LastHeartbeatTime, &condition.LastTransitionTime} {
			if at.After(time.Now()) {
				*at = metav1.NewTime(time.Now().Add(-longAgo))
			}
		}
	}
	_, err := nodes.Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = w.changeNode(ctx, node)
	}
	if err == nil && deleted {
		err = nodes.Delete(ctx, node.Name, metav1.DeleteOptions{})
	}
	return refused(err)
}

// changeNode makes a node as wanted. What an API server lets no user change is changed by a new Node of the name.
func (w *World) changeNode(ctx context.Context, wanted *corev1.Node) error {
	nodes := w.client.CoreV1().Nodes()
	node, err := nodes.Get(ctx, wanted.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	before := node.DeepCopy()
	node.Labels, node.Spec, node.Finalizers = wanted.Labels, wanted.Spec, wanted.Finalizers
	if !reflect.DeepEqual(before, node) {
		node, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		if apierrors.IsInvalid(err) {
			if err := nodes.Delete(ctx, wanted.Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			_, err = nodes.Create(ctx, wanted, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
	}
	node.Status.Addresses, node.Status.Conditions, node.Status.Images = wanted.Status.Addresses, wanted.Status.Conditions, wanted.Status.Images
	_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

// Report has the kubelet of each node report.
func (w *World) Report(ctx context.Context) error {
	nodes, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range nodes.Items {
		now := metav1.Now()
		node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(one corev1.NodeCondition) bool { return one.Type == corev1.NodePIDPressure })
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, LastHeartbeatTime: now})
		if _, err := w.client.CoreV1().Nodes().UpdateStatus(ctx, &node, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// DeleteNode deletes a node.
func (w *World) DeleteNode(ctx context.Context, name string) error {
	return w.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
}

// complete fills in what a Service of a test of one function lacks.
func complete(wanted *corev1.Service) *corev1.Service {
	service := wanted.DeepCopy()
	service.ResourceVersion, service.UID, service.DeletionTimestamp = "", "", nil
	if service.Name == "" {
		service.Name = "service"
	}
	if service.Namespace == "" {
		service.Namespace = metav1.NamespaceDefault
	}
	if len(service.Spec.Ports) == 0 {
		service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	}
	if len(service.Spec.Ports) > 1 {
		for i := range service.Spec.Ports {
			service.Spec.Ports[i].Name = fmt.Sprintf("port-%d", i)
		}
	}
	if len(service.Spec.IPFamilies) > 0 {
		policy := corev1.IPFamilyPolicySingleStack
		if len(service.Spec.IPFamilies) > 1 {
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		service.Spec.IPFamilyPolicy = &policy
	}
	return service
}

// Service makes a Service with its status. One with a deletion timestamp is deleted then.
func (w *World) Service(ctx context.Context, wanted *corev1.Service) error {
	service := complete(wanted)
	if err := w.server.namespace(ctx, w.client, service.Namespace); err != nil {
		return err
	}
	services := w.client.CoreV1().Services(service.Namespace)
	kind := service.Spec.Type
	if len(service.Status.LoadBalancer.Ingress) > 0 {
		service.Spec.Type = corev1.ServiceTypeLoadBalancer // no other type may get such a status
	}
	made, err := services.Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return refused(err)
	}
	if len(service.Status.LoadBalancer.Ingress) > 0 {
		made.Status.LoadBalancer = service.Status.LoadBalancer
		if made, err = services.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return refused(err)
		}
	}
	if made.Spec.Type != kind && kind != "" {
		made.Spec.Type = kind
		if _, err = services.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
			return refused(err)
		}
	}
	if wanted.DeletionTimestamp != nil {
		err = services.Delete(ctx, service.Name, metav1.DeleteOptions{})
	}
	return refused(err)
}

// ChangeService changes what two Services differ in. Another UID is another Service of the name.
func (w *World) ChangeService(ctx context.Context, from, to *corev1.Service) error {
	service := complete(to)
	services := w.client.CoreV1().Services(service.Namespace)
	if from.UID != to.UID {
		if err := w.DeleteService(ctx, from); err != nil {
			return err
		}
		time.Sleep(settle) // until the finalizer is gone
		return w.Service(ctx, to)
	}
	current, err := services.Get(ctx, service.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	changed := service.Spec
	changed.ClusterIP, changed.ClusterIPs = current.Spec.ClusterIP, current.Spec.ClusterIPs
	if len(changed.IPFamilies) < len(changed.ClusterIPs) && len(changed.IPFamilies) > 0 {
		changed.ClusterIPs = changed.ClusterIPs[:len(changed.IPFamilies)]
	}
	current.Spec = changed
	_, err = services.Update(ctx, current, metav1.UpdateOptions{})
	return refused(err)
}

// DeleteService deletes a Service.
func (w *World) DeleteService(ctx context.Context, service *corev1.Service) error {
	service = complete(service)
	return w.client.CoreV1().Services(service.Namespace).Delete(ctx, service.Name, metav1.DeleteOptions{})
}

// look returns the objects and events.
func (w *World) look(ctx context.Context) (Outcome, error) {
	outcome := Outcome{Objects: map[string]map[string]string{}}
	nodes, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return outcome, err
	}
	for _, node := range nodes.Items {
		outcome.Objects["Node "+node.Name] = nodeProperties(&node)
	}
	services, err := w.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return outcome, err
	}
	for _, service := range services.Items {
		if ownService(&service) {
			continue
		}
		outcome.Objects["Service "+serviceKey(&service)] = serviceProperties(&service, w.server.spec)
	}
	return outcome, nil
}

// flags are those of both managers.
func (s *Script) flags() []string {
	if s.Controller == "" {
		return s.Flags
	}
	return append([]string{"--controllers=" + s.Controller}, s.Flags...)
}

// eventLog keeps the events that a manager sends. It reads the requests, because two events of one object at the same instant have the same name.
type eventLog struct {
	mu  sync.Mutex
	all map[string]bool
}

func (l *eventLog) keep(request *http.Request) error {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return fmt.Errorf("read an event: %w", err)
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return fmt.Errorf("decode an event: %w", err)
	}
	text := ""
	switch event := object.(type) {
	case *corev1.Event:
		text = fmt.Sprintf("%s %s: %s %s", event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Type, event.Reason)
	case *eventsv1.Event:
		text = fmt.Sprintf("%s %s: %s %s", event.Regarding.Kind, event.Regarding.Name, event.Type, event.Reason)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]bool{}
	}
	l.all[text] = true
	return nil
}

func (l *eventLog) sorted() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.all))
}

// metaProperties are what both kinds have in their metadata, but what the API server draws.
func metaProperties(meta *metav1.ObjectMeta) map[string]string {
	properties := map[string]string{}
	for key, value := range meta.Labels {
		properties["label "+key] = value
	}
	for key, value := range meta.Annotations {
		properties["annotation "+key] = value
	}
	for _, finalizer := range meta.Finalizers {
		properties["finalizer "+finalizer] = "there"
	}
	if meta.DeletionTimestamp != nil {
		properties["deletion timestamp"] = "there"
	}
	return properties
}

func nodeProperties(node *corev1.Node) map[string]string {
	properties := metaProperties(&node.ObjectMeta)
	properties["provider ID"] = node.Spec.ProviderID
	properties["pod CIDRs"] = strings.Join(node.Spec.PodCIDRs, " ")
	for _, taint := range node.Spec.Taints {
		properties["taint "+taint.Key+" "+string(taint.Effect)] = "there" + taint.Value
	}
	for _, condition := range node.Status.Conditions {
		properties["condition "+string(condition.Type)] = fmt.Sprintf("%s %s", condition.Status, condition.Reason)
	}
	for i, address := range node.Status.Addresses {
		properties[fmt.Sprintf("address %d", i)] = fmt.Sprintf("%s %s", address.Type, address.Address)
	}
	return properties
}

func serviceProperties(service *corev1.Service, known func(corev1.ServiceSpec) corev1.ServiceSpec) map[string]string {
	properties := metaProperties(&service.ObjectMeta)
	spec, _ := json.Marshal(known(service.Spec))           // a struct of strings and numbers
	status, _ := json.Marshal(service.Status.LoadBalancer) // the same
	properties["spec"], properties["status"] = string(spec), string(status)
	for _, condition := range service.Status.Conditions {
		properties["condition "+condition.Type] = fmt.Sprintf("%s %s", condition.Status, condition.Reason)
	}
	return properties
}
