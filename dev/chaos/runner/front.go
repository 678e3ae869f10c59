package runner

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mooring-ccm/mooring/dev/chaos/checker"
	"github.com/mooring-ccm/mooring/dev/chaos/misbehavior"
	"github.com/mooring-ccm/mooring/dev/chaos/model"
	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
	"github.com/mooring-ccm/mooring/dev/faults/httpfault"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/fault"
)

// clusterName marks what is the cluster's in the cloud.
const clusterName = "chaos"

// record passes on what writers send to the cloud, and has the checker know what came of it, in that order.
type record struct {
	cloud   http.Handler
	service *cloudsim.Service
	checker *checker.Checker
	now     func() time.Duration
	mu      sync.Mutex
}

// serve has the cloud do a call. Writes come one after the other, so the checker sees their effects in their order.
func (c *record) serve(by string, r *http.Request, asked call) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	r.Body = io.NopCloser(bytes.NewReader(asked.body))
	if !asked.writes() {
		c.cloud.ServeHTTP(answer, r)
		return answer
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Context().Err() != nil { // the client has given up, and serving its call would only delay others
		answer.WriteHeader(http.StatusServiceUnavailable)
		return answer
	}
	if asked.operation == api.OpDeleteInstance {
		c.checker.InstanceDeleted(asked.object) // a watch reports it before the answer is there
	}
	c.cloud.ServeHTTP(answer, r)
	if answer.Code < http.StatusMultipleChoices {
		c.note(by, asked, answer.Body.Bytes())
	}
	return answer
}

// note has the checker know of a write that took effect.
func (c *record) note(by string, asked call, body []byte) {
	switch asked.operation {
	case api.OpCreateInstance, api.OpUpdateInstance:
		var instance api.Instance
		if json.Unmarshal(body, &instance) == nil {
			c.checker.InstanceSeen(instanceOf(instance))
		}
	case api.OpCreateLoadBalancer, api.OpUpdateLoadBalancer, api.OpChangeTargets:
		var balancer api.LoadBalancer
		if json.Unmarshal(body, &balancer) == nil {
			c.checker.BalancerSeen(c.now(), by, balancerOf(balancer))
		}
	case api.OpDeleteLoadBalancer:
		c.checker.BalancerDeleted(c.now(), by, asked.object)
	case api.OpCreateRoute, api.OpReplaceRoute:
		var route api.Route
		if json.Unmarshal(body, &route) == nil {
			c.checker.RouteSeen(c.now(), by, routeOf(route))
		}
	case api.OpDeleteRoute:
		c.checker.RouteDeleted(c.now(), by, asked.object)
	}
}

func instanceOf(instance api.Instance) model.Instance {
	seen := model.Instance{ID: instance.ID, Name: instance.Name, MachineType: instance.MachineType, Stopped: instance.Power == api.PowerOff}
	for _, address := range instance.Addresses {
		if address.Type == api.AddressInternalIP || address.Type == api.AddressExternalIP {
			seen.IPs = append(seen.IPs, address.Address)
		}
	}
	slices.Sort(seen.IPs)
	return seen
}

func balancerOf(balancer api.LoadBalancer) model.Balancer {
	seen := model.Balancer{
		Name: balancer.Name, Addresses: slices.Sorted(slices.Values(balancer.Addresses)), Targets: slices.Sorted(slices.Values(balancer.Targets)),
		Failed: balancer.State == api.LoadBalancerFailed,
	}
	if balancer.Tags[sim.TagCluster] == clusterName {
		seen.ServiceUID = balancer.Tags[sim.TagServiceUID]
	}
	if len(balancer.Listeners) > 0 {
		seen.Port = balancer.Listeners[0].Port
	}
	return seen
}

func routeOf(route api.Route) model.Route {
	return model.Route{ID: route.ID, CIDR: route.DestinationCIDR, InstanceID: route.TargetInstance, Ours: route.Cluster == clusterName}
}

// front is the cloud as one replica sees it.
type front struct {
	replica *replica
	record  *record
	faults  *faults
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the replica is gone
	}
	asked := read(r, body)
	if asked.writes() {
		f.record.checker.Wrote(f.record.now(), f.replica.name, string(asked.operation), asked.object)
	}
	if f.replica.dies(string(asked.operation), schedule.Before) {
		panic(http.ErrAbortHandler)
	}
	hit := f.faults.of(asked)
	if hit != nil && f.refuses(w, r, hit) {
		return
	}
	if asked.operation == api.OpWatchInstances {
		r.Body = http.NoBody
		f.watch(w, r)
		return
	}
	answer := f.record.serve(f.replica.name, r, asked)
	if f.replica.dies(string(asked.operation), schedule.After) {
		panic(http.ErrAbortHandler)
	}
	if hit != nil {
		f.spoil(answer, r, hit)
	}
	maps.Copy(w.Header(), answer.Header())
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// refuses answers a call that a fault keeps from the cloud.
func (f *front) refuses(w http.ResponseWriter, r *http.Request, hit *disturbance) bool {
	refuse := func(status int) bool {
		answer(w, status)
		return true
	}
	switch hit.Verb {
	case schedule.CloudStatus:
		return refuse(hit.Number(schedule.ArgCode))
	case schedule.CloudQuota:
		return !hit.quota.Allow() && refuse(http.StatusTooManyRequests)
	case schedule.CloudPanic:
		return refuse(misbehavior.StatusPanic)
	case schedule.CloudGoexit:
		return refuse(misbehavior.StatusGoexit)
	case schedule.CloudHang:
		_ = fault.Hang(r.Context(), hit.over) // the call is refused in any case
		return refuse(http.StatusServiceUnavailable)
	case schedule.CloudSlow:
		_ = fault.Delay(r.Context(), time.Second, nil) // the cloud does not serve a client that gave up
	}
	return false
}

func answer(w http.ResponseWriter, status int) {
	refusal := httpfault.Answer{Status: status, Body: `{"error":{"code":"","message":"as the schedule says"}}`}
	if status == http.StatusTooManyRequests {
		refusal.RetryAfter = 2 * time.Second
	}
	refusal.Write(w)
}

// watch passes a stream on, until a fault of streams begins.
func (f *front) watch(w http.ResponseWriter, r *http.Request) { f.record.cloud.ServeHTTP(w, r) }

// spoil changes the answer to a call whose effect is there.
func (f *front) spoil(answer *httptest.ResponseRecorder, r *http.Request, hit *disturbance) {
	replace := func(status int, body []byte) {
		answer.Code = status
		answer.Body.Reset()
		answer.Body.Write(body)
	}
	if answer.Code >= http.StatusMultipleChoices {
		return
	}
	switch hit.Verb {
	case schedule.CloudHalf:
		replace(http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"as the schedule says"}}`))
	case schedule.CloudMalformed:
		replace(http.StatusOK, []byte("<html>as the schedule says</html>"))
	case schedule.CloudStale:
		replace(http.StatusOK, hit.first(f.replica.name+r.URL.String(), bytes.Clone(answer.Body.Bytes())))
	case schedule.CloudEmpty, schedule.CloudPartial, schedule.CloudDuplicate:
		replace(http.StatusOK, relist(hit.Verb, answer.Body.Bytes()))
	}
}

// relist returns the page of a list with other elements, and a total that fits them.
func relist(verb string, body []byte) []byte {
	var page api.Page[json.RawMessage]
	if json.Unmarshal(body, &page) != nil {
		return body
	}
	items := []json.RawMessage{}
	for i, item := range page.Items {
		switch {
		case verb == schedule.CloudDuplicate:
			items = append(items, item, item)
		case verb == schedule.CloudPartial && i%3 != 0:
			items = append(items, item)
		}
	}
	total := len(items)
	page.Items, page.TotalCount = items, &total
	changed, err := json.Marshal(page)
	if err != nil {
		return body
	}
	return changed
}

// fixtureFront is the cloud as the fixture sees it.
type fixtureFront struct{ record *record }

func (f *fixtureFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	answer := f.record.serve(checker.Fixture, r, read(r, body))
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}
