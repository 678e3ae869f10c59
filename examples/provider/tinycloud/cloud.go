// Package tinycloud is a cloud in memory, with an HTTP API that has servers and load balancers. A provider author has a real one.
package tinycloud

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// Server is a machine.
type Server struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	Zone    string `json:"zone"`
	Address string `json:"address"`
	Running bool   `json:"running"`
}

// Port is a port on which a load balancer listens.
type Port struct {
	Protocol string `json:"protocol"`
	Port     int32  `json:"port"`
	NodePort int32  `json:"nodePort"`
}

// Balancer is a load balancer. Tags are its owner's.
type Balancer struct {
	Name         string            `json:"name"`
	Tags         map[string]string `json:"tags"`
	Ports        []Port            `json:"ports"`
	SourceRanges []string          `json:"sourceRanges"`
	HealthPort   int32             `json:"healthPort"`
	Targets      []string          `json:"targets"`
	// Address is given by the cloud.
	Address string `json:"address"`
}

// Error is how the API refuses a call. A 404 without Code is not of this API.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Cloud is the cloud.
type Cloud struct {
	mux http.ServeMux

	mu        sync.Mutex
	last      int
	servers   map[string]Server
	balancers map[string]Balancer
	refuse    int
	hang      chan struct{}
}

// New returns a cloud with nothing in it.
func New() *Cloud {
	c := &Cloud{servers: map[string]Server{}, balancers: map[string]Balancer{}}
	c.mux.HandleFunc("GET /servers", c.listServers)
	c.mux.HandleFunc("GET /servers/{id}", c.getServer)
	c.mux.HandleFunc("GET /balancers", c.listBalancers)
	c.mux.HandleFunc("GET /balancers/{name}", c.getBalancer)
	c.mux.HandleFunc("PUT /balancers/{name}", c.putBalancer)
	c.mux.HandleFunc("DELETE /balancers/{name}", c.deleteBalancer)
	return c
}

// Create creates a server that runs.
func (c *Cloud) Create(name string) Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	server := Server{
		ID: fmt.Sprintf("s%d", c.last), Name: name, Type: "tiny.1", Zone: "here-1",
		Address: fmt.Sprintf("10.0.0.%d", c.last%250+1), Running: true,
	}
	c.servers[server.ID] = server
	return server
}

// Stop shuts a server down.
func (c *Cloud) Stop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if server, ok := c.servers[id]; ok {
		server.Running = false
		c.servers[id] = server
	}
}

// Delete deletes a server.
func (c *Cloud) Delete(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.servers, id)
}

// Balancer returns a load balancer.
func (c *Cloud) Balancer(name string) (Balancer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	balancer, ok := c.balancers[name]
	return balancer, ok
}

// Server returns a server.
func (c *Cloud) Server(id string) (Server, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	server, ok := c.servers[id]
	return server, ok
}

// Refuse answers every call with a status until it is called with 0.
func (c *Cloud) Refuse(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = status
}

// Hang answers no call until the returned function is called.
func (c *Cloud) Hang() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hang = make(chan struct{})
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(c.hang)
		c.hang = nil
	}
}

// ServeHTTP serves the API.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	refuse, hang := c.refuse, c.hang
	c.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
		refuse = http.StatusServiceUnavailable
	}
	if refuse != 0 {
		answer(w, refuse, Error{"refused", "the cloud refuses"})
		return
	}
	c.mux.ServeHTTP(w, r)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func notFound(w http.ResponseWriter, what string) {
	answer(w, http.StatusNotFound, Error{"not_found", "there is no " + what})
}
