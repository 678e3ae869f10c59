package fakecloud

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
)

// updatePort changes attributes of a port.
func (c *Cloud) updatePort(w http.ResponseWriter, r *http.Request) {
	found := matching(c.Ports, "id", []string{r.PathValue("id")})
	if len(found) == 0 {
		neutronError(w, 404, "PortNotFound", "Port "+r.PathValue("id")+" could not be found.")
		return
	}
	if match := r.Header.Get("If-Match"); match != "" && match != fmt.Sprintf("revision_number=%v", found[0]["revision_number"]) {
		neutronError(w, 412, "RevisionNumberConstraintFailed", "Constrained to another revision")
		return
	}
	if revision, ok := found[0]["revision_number"].(int); ok {
		found[0]["revision_number"] = revision + 1
	}
	var asked struct{ Port Object }
	_ = json.NewDecoder(r.Body).Decode(&asked)
	for key, value := range asked.Port {
		found[0][key] = value
	}
	write(w, 200, Object{"port": found[0]})
}

func (c *Cloud) router(w http.ResponseWriter, r *http.Request) bool {
	if c.Router == nil || c.Router["id"] != r.PathValue("id") {
		neutronError(w, 404, "RouterNotFound", "Router "+r.PathValue("id")+" could not be found")
		return false
	}
	return true
}

func (c *Cloud) getRouter(w http.ResponseWriter, r *http.Request) {
	if c.router(w, r) {
		write(w, 200, Object{"router": c.Router})
	}
}

// updateRouter replaces the routes, unless another client has changed the router meanwhile.
func (c *Cloud) updateRouter(w http.ResponseWriter, r *http.Request) {
	if !c.router(w, r) {
		return
	}
	if match := r.Header.Get("If-Match"); match != "" && match != fmt.Sprintf("revision_number=%v", c.Router["revision_number"]) {
		neutronError(w, 412, "RevisionNumberConstraintFailed", "Constrained to another revision")
		return
	}
	var asked struct{ Router struct{ Routes []any } }
	_ = json.NewDecoder(r.Body).Decode(&asked)
	c.setRoutes(asked.Router.Routes)
	write(w, 200, Object{"router": c.Router})
}

// changeRoutes adds or removes routes. To add what is there, and to remove what is not, is no error.
func (c *Cloud) changeRoutes(w http.ResponseWriter, r *http.Request) {
	if c.NoExtraRoutes {
		neutronError(w, 404, "HTTPNotFound", "The resource could not be found.")
		return
	}
	if !c.router(w, r) {
		return
	}
	var asked struct{ Router struct{ Routes []any } }
	_ = json.NewDecoder(r.Body).Decode(&asked)
	routes, _ := c.Router["routes"].([]any)
	routes = slices.Clone(routes)
	for _, route := range asked.Router.Routes {
		routes = slices.DeleteFunc(routes, func(other any) bool { return reflect.DeepEqual(other, route) })
		if r.PathValue("change") == "add_extraroutes" {
			routes = append(routes, route)
		}
	}
	c.setRoutes(routes)
	write(w, 200, Object{"router": c.Router})
}

func (c *Cloud) setRoutes(routes []any) {
	c.Router["routes"] = routes
	revision, _ := c.Router["revision_number"].(int)
	c.Router["revision_number"] = revision + 1
}

func neutronError(w http.ResponseWriter, status int, kind, text string) {
	write(w, status, Object{"NeutronError": Object{"type": kind, "message": text, "detail": ""}})
}
