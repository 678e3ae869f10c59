package double

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/simulation/apiserver"
	"github.com/mooring-ccm/mooring/dev/simulation/draw"
)

// apiFault answers the next requests of the manager about an object.
type apiFault struct {
	// object is empty for lists and watches.
	object string
	// code is the answer as text, zero for a conflict of a write.
	code int
	// slow says that the answer is a timeout, of a request that was carried out or not.
	slow, carriedOut bool
	// skip is how many requests pass first, left how many are answered then.
	skip, left int
}

// over reports whether a fault answers no more requests. Faults end with the disturbances.
func (f *apiFault) over(now time.Duration) bool { return f.left == 0 || now >= draw.Disturbed }

// Transport returns the manager's way to the API server.
func (w *World) Transport() http.RoundTripper { return w.api.Client(manager) }

// deliver holds events of watches in the queue, and before that until the next delivery if the manager's watches are slow.
func (w *World) deliver(about apiserver.Attributes) {
	w.mu.Lock()
	slow := about.Identity == manager && w.now() < w.slow
	w.mu.Unlock()
	if late := w.now() % slowDelivery; slow && late > 0 {
		time.Sleep(slowDelivery - late)
	}
	w.gate.wait("event " + ticketOf(about))
}

// slowDelivery is the time between the deliveries of a slow watch, and slowAnswer how late the answer of a request that times out is.
const (
	slowDelivery = 7 * time.Second
	slowAnswer   = 35 * time.Second
)

// answered replaces the answer of a request that was carried out by a timeout, if a fault says so.
func (w *World) answered(request *http.Request, about apiserver.Attributes, answer *http.Response) (*http.Response, error) {
	if about.Identity != manager || about.Verb == "watch" || about.Verb == "list" || !w.timesOut(about, true) {
		return nil, nil
	}
	defer w.refuse(about.Name)
	return timeout(request)
}

// timesOut takes a fault that has a request time out.
func (w *World) timesOut(about apiserver.Attributes, carriedOut bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fault := range w.faults {
		switch {
		case fault.over(w.now()) || !fault.slow || fault.carriedOut != carriedOut || fault.object != about.Name:
		case fault.skip > 0:
			fault.skip--
		default:
			fault.left--
			return true
		}
	}
	return false
}

// timeout answers late that the server has not answered in time, or not at all if the client has given up.
func timeout(request *http.Request) (*http.Response, error) {
	timer := time.NewTimer(slowAnswer)
	defer timer.Stop()
	select {
	case <-timer.C:
		return apiserver.StatusOf(request, apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)), nil
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
}

// ticketOf names a request in the queue. A user agent begins with the name of this program and ends with the name of the client.
func ticketOf(about apiserver.Attributes) string {
	client := about.UserAgent[strings.LastIndexByte(about.UserAgent, '/')+1:]
	return about.Identity + " " + client + " " + about.Verb + " " + about.Path
}

// watchLists is in which share of the draws reflectors get their first objects by a watch, as from API servers today: one of eight. What they watch
// goes through a map, whose order is another in each run: 87 % of objects have the same traces then when a draw is repeated, and 96 % with lists.
const watchLists = 8

// withoutWatchList is what an API server answers whose feature gate WatchList is off. Reflectors then list, which keeps the order of objects.
func withoutWatchList() error {
	forbidden := field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", field.ErrorList{forbidden})
}

// intercept holds requests in the queue, and answers those of the manager that a fault concerns.
func (w *World) intercept(request *http.Request, about apiserver.Attributes) (*http.Response, error) {
	w.gate.wait(ticketOf(about))
	if w.draw.Seed%watchLists != 0 && request.URL.Query().Get("sendInitialEvents") == "true" {
		return apiserver.StatusOf(request, withoutWatchList()), nil
	}
	if about.Identity != manager {
		return nil, nil
	}
	if about.Resource != "nodes" && about.Resource != "services" {
		return nil, nil
	}
	if about.Verb != "watch" && about.Verb != "list" && w.timesOut(about, false) {
		return timeout(request)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fault := range w.faults {
		if fault.over(w.now()) || fault.slow || fault.object != about.Name || (about.Name == "" && about.Verb == "create") {
			continue
		}
		if fault.skip > 0 {
			fault.skip--
			continue
		}
		if fault.code != 0 {
			fault.left--
			return apiserver.Text(fault.code, "text/html", "<html><body>"+http.StatusText(fault.code)+"</body></html>"), nil
		}
		if about.Verb == "update" || about.Verb == "patch" {
			fault.left--
			conflict := apierrors.NewConflict(schema.GroupResource{Resource: about.Resource}, about.Name, errors.New("the object has been modified"))
			return apiserver.StatusOf(request, conflict), nil
		}
	}
	return nil, nil
}

// audit follows the nodes and Services, and records the manager's writes. The lock of the API server is held.
func (w *World) audit(record apiserver.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keep(record)
	if !record.Changed || (record.Resource != "nodes" && record.Resource != "services") {
		return
	}
	ours := record.Identity == manager
	if ours && !byPlugin(record) {
		w.record.Writes = append(w.record.Writes, Write{
			At: w.now(), Resource: record.Resource, Object: record.Name, Verb: record.Verb, Client: record.UserAgent,
		})
	}
	if record.Resource == "services" {
		before, _ := record.Before.(*corev1.Service)
		after, _ := record.After.(*corev1.Service)
		w.auditService(record.Name, before, after, ours)
		return
	}
	before, _ := record.Before.(*corev1.Node)
	after, _ := record.After.(*corev1.Node)
	w.auditNode(record.Name, before, after, ours)
}

// auditService follows a Service. The lock is held.
func (w *World) auditService(name string, before, after *corev1.Service, ours bool) {
	if after == nil {
		delete(w.services, name)
		return
	}
	w.services[name] = after
	if !ours || before == nil || !live(after) || len(before.Status.LoadBalancer.Ingress) == 0 {
		return
	}
	was := before.Status.LoadBalancer.Ingress[0].IP
	now := ""
	if ingress := after.Status.LoadBalancer.Ingress; len(ingress) > 0 {
		now = ingress[0].IP
	}
	if now != was {
		w.fault("5-address", name, "the manager changed the address %s of the Service to %q", was, now)
	}
}

// auditNode follows a node, and judges the manager's writes to it. The lock is held.
func (w *World) auditNode(name string, before, after *corev1.Node, ours bool) {
	now := w.now()
	state := w.nodes[name]
	if state == nil {
		state = &nodeState{eligible: -1}
		w.nodes[name] = state
	}
	if after == nil {
		w.nodeRemoved(name, ours)
		return
	}
	if ours && before != nil {
		w.judge(name, before, after)
	}
	if !uninitialized(after) {
		if _, known := w.record.Initialized[name]; !known && ours {
			w.record.Initialized[name] = now
		}
		state.initialized = true
	}
	state.networked = state.networked || network(after, corev1.ConditionFalse)
	switch eligible := state.initialized && state.networked && target(after); {
	case !eligible:
		state.eligible = -1
	case state.eligible < 0:
		state.eligible = now
	}
	state.node = after
}

// nodeRemoved judges the deletion of a node. The lock is held.
func (w *World) nodeRemoved(name string, ours bool) {
	state := w.nodes[name]
	delete(w.nodes, name)
	if !ours {
		return
	}
	w.record.Removed[name] = w.now()
	machine := w.instances[name]
	if exists := machine != nil && !machine.deleted && (state == nil || state.node == nil || generation(state.node.Spec.ProviderID) == machine.generation); exists && !machine.silent {
		w.fault("2a-deleted", name, "the manager deleted a node whose instance exists and whose kubelet reports")
	}
}

// judge judges a write of the manager to a node. The lock is held.
func (w *World) judge(name string, before, after *corev1.Node) {
	if ready(before) && !hasTaint(before, cloudproviderapi.TaintNodeShutdown) && hasTaint(after, cloudproviderapi.TaintNodeShutdown) {
		w.fault("2a-tainted", name, "the manager set the shutdown taint of a node that is Ready")
	}
	route := w.routeOf(name, 0)
	if known := route != nil && (route.shown || network(before, corev1.ConditionFalse)); known && !unroutable(before) && unroutable(after) {
		w.fault("12", name, "the manager told a node that has a route that it has none")
	}
}

func unroutable(node *corev1.Node) bool { return network(node, corev1.ConditionTrue) }

// network reports whether a node says this about its network being unavailable.
func network(node *corev1.Node, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeNetworkUnavailable && condition.Status == status
	})
}

// routeOf returns the route of a node that is at least so old. The lock is held.
func (w *World) routeOf(node string, age time.Duration) *route {
	if one := w.routes[node]; one != nil && one.deleted == 0 && one.made+age <= w.now() {
		return one
	}
	return nil
}
