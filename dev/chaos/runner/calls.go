package runner

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// call is a call of the simulated cloud: what it is and what it is about.
type call struct {
	operation api.Operation
	// object is the name of a load balancer or the ID of another resource; empty for a list.
	object string
	body   []byte
}

// The collections of the cloud's API, by the operations on one of their elements.
var collections = map[string]map[string]api.Operation{
	api.PathInstances: {
		http.MethodGet: api.OpGetInstance, http.MethodPut: api.OpUpdateInstance, http.MethodDelete: api.OpDeleteInstance,
	},
	api.PathInstanceNames: {http.MethodGet: api.OpGetInstanceByName},
	api.PathLoadBalancers: {
		http.MethodGet: api.OpGetLoadBalancer, http.MethodPut: api.OpUpdateLoadBalancer, http.MethodDelete: api.OpDeleteLoadBalancer,
		http.MethodPost: api.OpChangeTargets,
	},
	api.PathRoutes: {http.MethodPut: api.OpReplaceRoute, http.MethodDelete: api.OpDeleteRoute},
}

// wholes are the operations on whole collections.
var wholes = map[string]api.Operation{
	"GET " + api.PathInstances:       api.OpListInstances,
	"POST " + api.PathInstances:      api.OpCreateInstance,
	"GET " + api.PathInstanceChanges: api.OpWatchInstances,
	"GET " + api.PathLoadBalancers:   api.OpListLoadBalancers,
	"POST " + api.PathLoadBalancers:  api.OpCreateLoadBalancer,
	"GET " + api.PathRoutes:          api.OpListRoutes,
	"POST " + api.PathRoutes:         api.OpCreateRoute,
	"POST " + api.PathRouteChanges:   api.OpChangeRoutes,
	"GET " + api.PathZones:           api.OpListZones,
	"GET " + api.PathMachineTypes:    api.OpListMachineTypes,
}

// read says what a request is.
func read(r *http.Request, body []byte) call {
	if operation, is := wholes[r.Method+" "+r.URL.Path]; is {
		c := call{operation: operation, body: body}
		if r.Method == http.MethodPost {
			c.object = nameIn(body)
		}
		return c
	}
	for path, operations := range collections {
		rest, is := strings.CutPrefix(r.URL.Path, path+"/")
		if is {
			object, _, _ := strings.Cut(rest, "/")
			return call{operation: operations[r.Method], object: object, body: body}
		}
	}
	return call{}
}

// writes says whether the call changes something.
func (c call) writes() bool {
	for _, prefix := range []string{"Create", "Update", "Delete", "Change", "Replace"} {
		if strings.HasPrefix(string(c.operation), prefix) {
			return true
		}
	}
	return false
}

// nameIn returns the name in a JSON object, or empty if it has no name.
func nameIn(body []byte) string {
	var named struct{ Name string }
	_ = json.Unmarshal(body, &named) // what is no object has no name
	return named.Name
}
