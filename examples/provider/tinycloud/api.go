package tinycloud

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// listServers answers with all servers, or those of a name.
func (c *Cloud) listServers(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, found := r.URL.Query().Get("name"), []Server{}
	for _, server := range c.servers {
		if name == "" || server.Name == name {
			found = append(found, server)
		}
	}
	answer(w, http.StatusOK, found)
}

func (c *Cloud) getServer(w http.ResponseWriter, r *http.Request) {
	server, ok := c.Server(r.PathValue("id"))
	if !ok {
		notFound(w, "server "+r.PathValue("id"))
		return
	}
	answer(w, http.StatusOK, server)
}

func (c *Cloud) listBalancers(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := []Balancer{}
	for _, balancer := range c.balancers {
		found = append(found, balancer)
	}
	answer(w, http.StatusOK, found)
}

func (c *Cloud) getBalancer(w http.ResponseWriter, r *http.Request) {
	balancer, ok := c.Balancer(r.PathValue("name"))
	if !ok {
		notFound(w, "load balancer "+r.PathValue("name"))
		return
	}
	answer(w, http.StatusOK, balancer)
}

// putBalancer creates a load balancer or changes it; its address stays.
func (c *Cloud) putBalancer(w http.ResponseWriter, r *http.Request) {
	var wanted Balancer
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
		answer(w, http.StatusBadRequest, Error{"invalid", err.Error()})
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted.Name = r.PathValue("name")
	existing, ok := c.balancers[wanted.Name]
	if wanted.Address = existing.Address; !ok {
		c.last++
		wanted.Address = fmt.Sprintf("198.51.100.%d", c.last%250+1)
	}
	c.balancers[wanted.Name] = wanted
	answer(w, http.StatusOK, wanted)
}

func (c *Cloud) deleteBalancer(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.balancers[r.PathValue("name")]; !ok {
		notFound(w, "load balancer "+r.PathValue("name"))
		return
	}
	delete(c.balancers, r.PathValue("name"))
	answer(w, http.StatusOK, struct{}{})
}
