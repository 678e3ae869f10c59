// Package octaviatest is octavia and what of neutron load balancers need, inside a test: load balancers are pending after a change and
// refuse others meanwhile, deletions cascade, lists filter by attributes and tags, and drivers refuse what they cannot do. It knows what was
// observed on the real services, and no more; it moves no traffic.
package octaviatest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
)

// Object is an object of the API, as JSON has it.
type Object map[string]any

func (o Object) text(key string) string {
	text, _ := o[key].(string)
	return text
}

// Kinds of objects, by their names in URLs.
const (
	LoadBalancers = "loadbalancers"
	Listeners     = "listeners"
	Pools         = "pools"
	Members       = "members"
	Monitors      = "healthmonitors"
	FloatingIPs   = "floatingips"
	Networks      = "networks"
	Subnets       = "subnets"
	Ports         = "ports"
	Groups        = "security-groups"
	Rules         = "security-group-rules"
)

// Cloud is the simulated services.
type Cloud struct {
	server  *httptest.Server
	handler http.Handler

	lock    sync.Mutex
	objects map[string]map[string]Object
	order   []string // IDs as they were made
	calls   []string
	pending int
	failing map[string]*fault
	held    map[string]chan struct{}
	brief   []string
	last    int
	lastVIP int
}

type fault struct {
	status int
	text   string
	times  int
}

// New starts the services for a test. After a change the next pending reads of a load balancer show it PENDING; zero is a driver that is done
// when it answers.
func New(t testing.TB, pending int) *Cloud {
	t.Helper()
	c := &Cloud{objects: map[string]map[string]Object{}, pending: pending, failing: map[string]*fault{}, held: map[string]chan struct{}{}}
	c.handler = c.routes()
	c.server = httptest.NewServer(c.handler)
	t.Cleanup(c.server.Close)
	c.Put(Networks, Object{"id": "public", "name": "public", "router:external": true})
	c.Put(Subnets, Object{"id": "public-subnet", "name": "public-subnet", "network_id": "public", "cidr": "203.0.113.0/24", "ip_version": 4})
	c.Put(Subnets, Object{"id": "nodes", "name": "nodes", "network_id": "private", "cidr": "10.0.0.0/24", "ip_version": 4})
	c.Put(Subnets, Object{"id": "nodes6", "name": "nodes6", "network_id": "private", "cidr": "fd00::/64", "ip_version": 6})
	return c
}

// Clients returns clients of octavia and neutron.
func (c *Cloud) Clients() (octavia, neutron *gophercloud.ServiceClient) {
	service := func(name string) *gophercloud.ServiceClient {
		return &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{HTTPClient: *c.server.Client()},
			Endpoint: c.server.URL + "/" + name + "/", ResourceBase: c.server.URL + "/v2.0/"}
	}
	return service("octavia"), service("neutron")
}

// URL is the endpoint of both services.
func (c *Cloud) URL() string { return c.server.URL }

// ServeHTTP answers as both services do, for a cloud of which they are a part.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Put makes an object, or replaces the one with its ID, and returns the ID.
func (c *Cloud) Put(kind string, object Object) string {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.put(kind, object)
}

func (c *Cloud) put(kind string, object Object) string {
	if object.text("id") == "" {
		c.last++
		object["id"] = fmt.Sprintf("%s-%d", kind, c.last)
	}
	if c.objects[kind] == nil {
		c.objects[kind] = map[string]Object{}
	}
	if c.objects[kind][object.text("id")] == nil {
		c.order = append(c.order, object.text("id"))
	}
	c.objects[kind][object.text("id")] = object
	return object.text("id")
}

// All returns copies of the objects of a kind in the order in which they were made.
func (c *Cloud) All(kind string) []Object {
	c.lock.Lock()
	defer c.lock.Unlock()
	var all []Object
	for _, object := range c.all(kind) {
		all = append(all, maps.Clone(object))
	}
	return all
}

func (c *Cloud) all(kind string) []Object {
	var all []Object
	for _, id := range c.order {
		if object := c.objects[kind][id]; object != nil {
			all = append(all, object)
		}
	}
	return all
}

// Set changes attributes of an object.
func (c *Cloud) Set(kind, id string, attributes Object) {
	c.lock.Lock()
	defer c.lock.Unlock()
	maps.Copy(c.objects[kind][id], attributes)
}

// Delete deletes an object, and nothing else.
func (c *Cloud) Delete(kind, id string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.objects[kind], id)
}

// Fail has the next calls of a method on a kind refused, such as "POST listeners", or "GET listeners?tags" those with that key in their query.
func (c *Cloud) Fail(call string, times, status int, text string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.failing[call] = &fault{status: status, text: text, times: times}
}

// Brief has creations answered without some of what is below the load balancer: "listeners", "pools" or "members".
func (c *Cloud) Brief(without ...string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.brief = without
}

// Hold has calls of a method on a kind answered by nothing until release is called, "GET loadbalancers?tags" only those with that key in their
// query. They are counted when they come.
func (c *Cloud) Hold(call string) (release func()) {
	c.lock.Lock()
	defer c.lock.Unlock()
	held := make(chan struct{})
	c.held[call] = held
	return sync.OnceFunc(func() {
		c.lock.Lock()
		defer c.lock.Unlock()
		delete(c.held, call)
		close(held)
	})
}

// Calls returns the calls since it was last asked: method and path, with IDs left out.
func (c *Cloud) Calls() []string {
	c.lock.Lock()
	defer c.lock.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

func (c *Cloud) routes() http.Handler {
	mux := http.NewServeMux()
	balancers := func(pattern string, handle func(*http.Request, Object) (int, any)) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /v2.0/"+path, func(w http.ResponseWriter, r *http.Request) { c.answer(w, r, path, handle) })
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(Object{"versions": []Object{{"id": "v2.0", "status": "CURRENT"}}})
	})
	balancers("GET lbaas/{kind}", c.list)
	balancers("POST lbaas/{kind}", c.create)
	balancers("GET lbaas/{kind}/{id}", c.get)
	balancers("PUT lbaas/{kind}/{id}", c.update)
	balancers("DELETE lbaas/{kind}/{id}", c.delete)
	balancers("GET lbaas/loadbalancers/{id}/status", c.status)
	balancers("PUT lbaas/loadbalancers/{id}/failover", c.failover)
	balancers("GET lbaas/pools/{id}/members", c.listMembers)
	balancers("PUT lbaas/pools/{id}/members", c.setMembers)
	balancers("GET {kind}", c.list)
	balancers("POST {kind}", c.createPlain)
	balancers("GET {kind}/{id}", c.get)
	balancers("PUT {kind}/{id}", c.updatePlain)
	balancers("DELETE {kind}/{id}", c.deletePlain)
	return mux
}

// answer counts a call, refuses it if that was asked for, and else has it handled.
func (c *Cloud) answer(w http.ResponseWriter, r *http.Request, path string, handle func(*http.Request, Object) (int, any)) {
	c.lock.Lock()
	defer c.lock.Unlock()
	call := r.Method + " " + strings.NewReplacer("lbaas/", "", "{kind}", r.PathValue("kind"), "/{id}", "").Replace(path)
	c.calls = append(c.calls, call)
	if held := matching(c.held, call, r); held != nil {
		c.lock.Unlock()
		select {
		case <-held:
		case <-r.Context().Done():
		}
		c.lock.Lock()
	}
	var body Object
	_ = json.NewDecoder(r.Body).Decode(&body) // calls without a body have none
	status, answer := 0, any(nil)
	if fault := matching(c.failing, call, r); fault != nil && fault.times > 0 {
		fault.times--
		status, answer = refuse(fault.status, fault.text)
	} else {
		status, answer = handle(r, body)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if answer != nil {
		_ = json.NewEncoder(w).Encode(answer) // a client that is gone does not matter
	}
}

// matching returns what is set for a call with one of the keys in its query, or else for the call.
func matching[T any](set map[string]T, call string, r *http.Request) T {
	for key := range r.URL.Query() {
		if found, ok := set[call+"?"+key]; ok {
			return found
		}
	}
	return set[call]
}

func refuse(status int, text string) (int, any) {
	return status, Object{"faultcode": "Client", "faultstring": text}
}

func notFound(r *http.Request) (int, any) {
	return refuse(http.StatusNotFound, r.PathValue("kind")+" "+r.PathValue("id")+" not found.")
}

// singular is the key of one object of a kind in a body.
func singular(kind string) string {
	return strings.ReplaceAll(strings.TrimSuffix(kind, "s"), "-", "_")
}

func (c *Cloud) list(r *http.Request, _ Object) (int, any) {
	kind := r.PathValue("kind")
	found := []Object{}
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	for _, object := range c.all(kind) {
		if err == nil && len(found) == limit {
			break
		}
		if c.matches(kind, object, r.URL.Query()) {
			found = append(found, c.shown(kind, object))
		}
	}
	return http.StatusOK, Object{strings.ReplaceAll(kind, "-", "_"): found}
}

// matches applies the filters of a query, as far as they are used.
func (c *Cloud) matches(kind string, object Object, query map[string][]string) bool {
	for key, values := range query {
		switch key {
		case "limit", "fields":
		case "tags":
			if slices.ContainsFunc(values, func(tag string) bool { return !slices.Contains(texts(object["tags"]), tag) }) {
				return false
			}
		case "loadbalancer_id", "load_balancer_id":
			if object.text("loadbalancer_id") != values[0] {
				return false
			}
		case "fixed_ips":
			if !strings.Contains(fmt.Sprint(object["fixed_ips"]), strings.TrimPrefix(values[0], "ip_address=")) {
				return false
			}
		case "security_groups":
			if !slices.Contains(texts(object["security_groups"]), values[0]) {
				return false
			}
		default:
			if !slices.Contains(values, fmt.Sprint(object[key])) {
				return false
			}
		}
	}
	return true
}

// texts returns a list of texts, which a test gives as one and JSON as a list of anything.
func texts(list any) []string {
	switch list := list.(type) {
	case []string:
		return list
	case []any:
		var all []string
		for _, text := range list {
			all = append(all, fmt.Sprint(text))
		}
		return all
	default:
		return nil
	}
}

func (c *Cloud) get(r *http.Request, _ Object) (int, any) {
	kind := r.PathValue("kind")
	object := c.objects[kind][r.PathValue("id")]
	if object == nil {
		return notFound(r)
	}
	return http.StatusOK, Object{singular(kind): c.shown(kind, object)}
}

// createPlain, updatePlain and deletePlain are neutron's.
func (c *Cloud) createPlain(r *http.Request, body Object) (int, any) {
	kind := r.PathValue("kind")
	if many, bulk := body[strings.ReplaceAll(kind, "-", "_")].([]any); bulk {
		made := []Object{}
		for _, one := range many {
			made = append(made, c.plain(kind, one.(map[string]any)))
		}
		return http.StatusCreated, Object{strings.ReplaceAll(kind, "-", "_"): made}
	}
	object, _ := body[singular(kind)].(map[string]any)
	if port := Object(object).text("port_id"); kind == FloatingIPs && port != "" && c.hasFloatingIP(port) {
		return http.StatusConflict, Object{"NeutronError": Object{"type": "FloatingIPPortAlreadyAssociated",
			"message": "Cannot associate floating IP with port " + port + ", as that fixed IP already has a floating IP", "detail": ""}}
	}
	return http.StatusCreated, Object{singular(kind): c.plain(kind, object)}
}

func (c *Cloud) hasFloatingIP(port string) bool {
	return slices.ContainsFunc(c.all(FloatingIPs), func(address Object) bool { return address.text("port_id") == port })
}

func (c *Cloud) plain(kind string, object Object) Object {
	if kind == FloatingIPs && object.text("floating_ip_address") == "" {
		object["floating_ip_address"] = fmt.Sprintf("203.0.113.%d", len(c.objects[kind])+10)
	}
	c.put(kind, object)
	return object
}

func (c *Cloud) updatePlain(r *http.Request, body Object) (int, any) {
	kind := r.PathValue("kind")
	object := c.objects[kind][r.PathValue("id")]
	if object == nil {
		return notFound(r)
	}
	changes, _ := body[singular(kind)].(map[string]any)
	maps.Copy(object, changes)
	return http.StatusOK, Object{singular(kind): object}
}

func (c *Cloud) deletePlain(r *http.Request, _ Object) (int, any) {
	kind := r.PathValue("kind")
	if c.objects[kind][r.PathValue("id")] == nil {
		return notFound(r)
	}
	delete(c.objects[kind], r.PathValue("id"))
	return http.StatusNoContent, nil
}
