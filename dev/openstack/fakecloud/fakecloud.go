// Package fakecloud answers as the services of OpenStack do, as far as this provider asks them: the shapes are those of the API
// references, and what was recorded of Keystone 22, Nova 26 and Neutron 21. It is for the tests of the packages around it; what it
// leaves out is tried on the services themselves.
package fakecloud

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

	"github.com/mooring-ccm/mooring/providers/openstack/config"
)

// balancersPath is where Octavia is.
const balancersPath = "/load-balancer"

// Project is the ID of the project that tokens are for.
const Project = "1d1ec7"

// Object is a resource as the API shows it.
type Object = map[string]any

// Cloud is the services. What is exported may be changed while Lock is held.
type Cloud struct {
	sync.Mutex
	// URL is where Keystone is, without a version.
	URL string
	// Secret is the secret of the application credential "1234", and Tokens are the valid tokens.
	Secret string
	Tokens map[string]bool
	// Microversion is the newest of Nova.
	Microversion string
	// Servers and Ports are in the order of lists; PageSize is how many a page has at most.
	Servers, Ports, Networks []Object
	PageSize                 int
	// Limits is what Nova says of the quotas of the project.
	Limits Object
	// Router is the only router; NoExtraRoutes leaves its atomic changes out.
	Router        Object
	NoExtraRoutes bool
	// Balancers answers for Octavia, and for what of Neutron load balancers need besides ports, see package octaviatest. Nil: there are none.
	Balancers http.Handler
	// Elsewhere are endpoints of services that are not answered for here, by their types in the catalog.
	Elsewhere map[string]string
	// Fault answers in place of a service, if it returns true.
	Fault func(w http.ResponseWriter, r *http.Request) bool
	// Calls are the calls that were made, as METHOD PATH?QUERY without those of Keystone and of versions.
	Calls []string
	// Logins counts the tokens that were asked for.
	Logins int
}

// New starts a cloud that ends with the test.
func New(t testing.TB) *Cloud {
	t.Helper()
	c := &Cloud{Secret: "s3cr3t", Tokens: map[string]bool{}, Microversion: "2.93", PageSize: 1000}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v3/auth/tokens", c.login)
	mux.HandleFunc("GET /compute/v2.1/{$}", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, Object{"version": Object{"id": "v2.1", "status": "CURRENT", "version": c.Microversion, "min_version": "2.1"}})
	})
	mux.HandleFunc("GET /network/{$}", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, Object{"versions": []Object{{"id": "v2.0", "status": "CURRENT"}}})
	})
	mux.HandleFunc("GET /compute/v2.1/limits", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, Object{"limits": Object{"rate": []Object{}, "absolute": c.Limits}})
	})
	mux.HandleFunc("GET /compute/v2.1/servers/detail", c.listServers)
	mux.HandleFunc("GET /compute/v2.1/servers/{id}", c.getServer)
	mux.HandleFunc("GET /network/v2.0/ports", c.listPorts)
	mux.HandleFunc("PUT /network/v2.0/ports/{id}", c.updatePort)
	mux.HandleFunc("GET /network/v2.0/networks", func(w http.ResponseWriter, r *http.Request) {
		write(w, 200, Object{"networks": matching(c.Networks, "id", r.URL.Query()["id"])})
	})
	mux.HandleFunc("GET /network/v2.0/routers/{id}", c.getRouter)
	mux.HandleFunc("PUT /network/v2.0/routers/{id}", c.updateRouter)
	mux.HandleFunc("PUT /network/v2.0/routers/{id}/{change}", c.changeRoutes)
	mux.HandleFunc("/network/v2.0/", c.balance("/network"))
	mux.HandleFunc(balancersPath+"/", c.balance(balancersPath))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serve(mux, w, r) }))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Config is a cloud.conf for this cloud, followed by what a test adds.
func (c *Cloud) Config(more string) string {
	return fmt.Sprintf("[Global]\nauth-url=%s/v3\nregion=RegionOne\napplication-credential-id=1234\napplication-credential-secret=s3cr3t\n%s", c.URL, more)
}

// Source is a config of this cloud, as a session takes it.
func (c *Cloud) Source(t testing.TB, more string) *config.Source {
	t.Helper()
	source, err := config.Open(strings.NewReader(c.Config(more)))
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func (c *Cloud) serve(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	c.Lock()
	fault := c.Fault
	c.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	c.Lock()
	defer c.Unlock()
	if r.URL.Path != "/v3/auth/tokens" {
		if !c.Tokens[r.Header.Get("X-Auth-Token")] {
			write(w, 401, Object{"error": Object{"code": 401, "message": "The request you have made requires authentication."}})
			return
		}
		if !strings.HasSuffix(r.URL.Path, "/") {
			c.Calls = append(c.Calls, strings.TrimSuffix(r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery, "?"))
		}
	}
	mux.ServeHTTP(w, r)
}

// balance hands a call to Balancers, without a prefix of its path.
func (c *Cloud) balance(prefix string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if c.Balancers == nil {
			http.NotFound(w, r)
			return
		}
		http.StripPrefix(prefix, c.Balancers).ServeHTTP(w, r)
	}
}

func (c *Cloud) login(w http.ResponseWriter, r *http.Request) {
	c.Logins++
	var asked struct {
		Auth struct {
			Identity struct {
				Credential struct{ ID, Secret string } `json:"application_credential"`
			}
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&asked)
	if asked.Auth.Identity.Credential.ID != "1234" || asked.Auth.Identity.Credential.Secret != c.Secret {
		write(w, 401, Object{"error": Object{"code": 401, "message": "The request you have made requires authentication.", "title": "Unauthorized"}})
		return
	}
	token := "token-" + strconv.Itoa(c.Logins)
	c.Tokens[token] = true
	w.Header().Set("X-Subject-Token", token)
	endpoint := func(kind, url string) Object {
		return Object{"type": kind, "name": kind, "endpoints": []Object{
			{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": url},
		}}
	}
	paths := map[string]string{"compute": c.URL + "/compute/v2.1", "network": c.URL + "/network"}
	if c.Balancers != nil {
		paths["load-balancer"] = c.URL + balancersPath
	}
	maps.Copy(paths, c.Elsewhere)
	var catalog []Object
	for _, kind := range slices.Sorted(maps.Keys(paths)) {
		catalog = append(catalog, endpoint(kind, paths[kind]))
	}
	write(w, 201, Object{"token": Object{"expires_at": "2999-01-01T00:00:00.000000Z", "catalog": catalog, "project": Object{"id": Project}}})
}

func (c *Cloud) listServers(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	found := c.Servers
	if name := strings.ReplaceAll(strings.Trim(query.Get("name"), "^$"), `\`, ""); name != "" {
		found = nil
		for _, one := range c.Servers {
			if strings.EqualFold(one["name"].(string), name) {
				found = append(found, one)
			}
		}
	}
	page, links := c.page(found, query.Get("marker"))
	write(w, 200, Object{"servers": page, "servers_links": links})
}

// page returns what comes behind a marker. The link names a host that does not exist, like the links of a badly configured Nova.
func (c *Cloud) page(all []Object, marker string) (page []Object, links []Object) {
	rest := all[slices.IndexFunc(all, func(o Object) bool { return o["id"] == marker })+1:]
	if len(rest) > c.PageSize {
		return rest[:c.PageSize], []Object{{"rel": "next", "href": "http://nowhere.invalid/"}}
	}
	return append([]Object{}, rest...), nil
}

func (c *Cloud) getServer(w http.ResponseWriter, r *http.Request) {
	found := matching(c.Servers, "id", []string{r.PathValue("id")})
	if len(found) == 0 {
		write(w, 404, Object{"itemNotFound": Object{"code": 404, "message": "Instance " + r.PathValue("id") + " could not be found."}})
		return
	}
	write(w, 200, Object{"server": found[0]})
}

func (c *Cloud) listPorts(w http.ResponseWriter, r *http.Request) {
	found := c.Ports
	for _, key := range []string{"id", "device_id", "network_id", "device_owner"} {
		found = matching(found, key, r.URL.Query()[key])
	}
	if addresses := r.URL.Query()["fixed_ips"]; len(addresses) > 0 {
		found = slices.DeleteFunc(slices.Clone(found), func(port Object) bool {
			return !slices.ContainsFunc(port["fixed_ips"].([]Object), func(fixed Object) bool {
				return slices.Contains(addresses, "ip_address="+fixed["ip_address"].(string))
			})
		})
	}
	page, links := c.page(found, r.URL.Query().Get("marker"))
	write(w, 200, Object{"ports": page, "ports_links": links})
}

// matching returns the objects with one of some values, or all objects if there are no values.
func matching(all []Object, key string, values []string) []Object {
	if len(values) == 0 {
		return all
	}
	found := []Object{}
	for _, one := range all {
		if value, _ := one[key].(string); slices.Contains(values, value) {
			found = append(found, one)
		}
	}
	return found
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
