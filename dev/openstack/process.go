package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/mooring-ccm/mooring/dev/openstack/chroot"
	"github.com/mooring-ccm/mooring/dev/program"
)

// Service is an API, by the name of its type in keystone's catalog.
type Service string

// The APIs of a cloud.
const (
	Identity     Service = "identity"
	Placement    Service = "placement"
	Image        Service = "image"
	Compute      Service = "compute"
	Network      Service = "network"
	LoadBalancer Service = "load-balancer"
)

// api is where a service listens, in the network of its room.
type api struct {
	name string // of the service in the catalog
	port int
	path string // of its address in the catalog
	// probe is a path that answers once the service works.
	probe string
}

var apis = map[Service]api{
	Identity:     {name: "keystone", port: 5000, path: "/v3", probe: "/v3"},
	Placement:    {name: "placement", port: 8778, probe: "/"},
	Image:        {name: "glance", port: 9292, probe: "/"},
	Compute:      {name: "nova", port: 8774, path: "/v2.1", probe: "/"},
	Network:      {name: "neutron", port: 9696, probe: "/"},
	LoadBalancer: {name: "octavia", port: 9876, probe: "/"},
}

// url returns the address of an API in the network of its room.
func (a api) url() *url.URL {
	return &url.URL{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(a.port), Path: a.path}
}

// Process is one of the programs that a cloud consists of.
type Process string

// The processes that a test may stop, kill and start again.
const (
	Keystone      Process = "keystone"
	Glance        Process = "glance"
	Neutron       Process = "neutron"
	NovaAPI       Process = "nova-api"
	NovaConductor Process = "nova-conductor"
	NovaScheduler Process = "nova-scheduler"
	OctaviaAPI    Process = "octavia-api"
	OctaviaAgent  Process = "octavia-agent"
	OctaviaWorker Process = "octavia-worker"
	PlacementAPI  Process = "placement"
)

// NovaCompute returns the process that is the compute host of a zone.
func NovaCompute(zone string) Process { return Process("nova-compute-" + zone) }

const stopSignal = syscall.SIGTERM

// python is the environment of the services.
var python = []string{"PYTHONWARNINGS=ignore", "PYTHONDONTWRITEBYTECODE=1"}

// commands are how the services are started. Database, messages and OVN, on which they depend, have functions of their own.
var commands = func() map[Process]chroot.Command {
	all := map[Process]chroot.Command{
		Keystone:      wsgi("keystone", apis[Identity].port, "keystone.conf"),
		PlacementAPI:  wsgi("placement", apis[Placement].port, "placement.conf"),
		OctaviaAPI:    wsgi("octavia", apis[LoadBalancer].port, "octavia.conf"),
		OctaviaAgent:  wsgi("agent", 0, "octavia.conf"),
		OctaviaWorker: wsgi("worker", 0, "octavia.conf"),
		Glance:        script("glance-api", "glance-api.conf"),
		Neutron:       script("neutron-server", "neutron.conf"),
		NovaAPI:       script("nova-api", "nova.conf"),
		NovaConductor: script("nova-conductor", "nova.conf"),
		NovaScheduler: script("nova-scheduler", "nova.conf"),
	}
	for _, zone := range zones {
		all[NovaCompute(zone)] = script("nova-compute", "nova.conf", "nova-"+zone+".conf")
	}
	for name, command := range all {
		command.Name, command.Env = string(name), python
		all[name] = command
	}
	return all
}()

// wsgi returns how files/serve.py runs something.
func wsgi(name string, port int, conf string) chroot.Command {
	return chroot.Command{Path: "/usr/bin/python3", Args: []string{
		confPath("serve.py"), name, "127.0.0.1:" + strconv.Itoa(port), confPath(conf),
	}}
}

// script returns how a start script of Debian's packages of services runs.
func script(name string, confs ...string) chroot.Command {
	args := []string{unpackDir + "/usr/bin/" + name}
	for _, conf := range confs {
		args = append(args, "--config-file", confPath(conf))
	}
	return chroot.Command{Path: "/usr/bin/python3", Args: args}
}

// launch starts a program. The caller holds no lock.
func (c *Cloud) launch(command chroot.Command) error {
	running, err := c.room.Start(command)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	name := Process(command.Name)
	c.processes[name] = running
	delete(c.ended, name)
	if !slices.Contains(c.order, name) {
		c.order = append(c.order, name)
	}
	return nil
}

// launchAll starts services.
func (c *Cloud) launchAll(names ...Process) error {
	for _, name := range names {
		if err := c.launch(commands[name]); err != nil {
			return err
		}
	}
	return nil
}

// running returns all programs that no caller of end has ended, for program.Await.
func (c *Cloud) running() []*program.Program {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*program.Program, 0, len(c.order))
	for _, name := range c.order {
		if !c.ended[name] {
			all = append(all, c.processes[name])
		}
	}
	return all
}

// await waits until something is ready, or a program has ended by itself.
func (c *Cloud) await(ctx context.Context, what string, ready func(context.Context) error) error {
	return program.Await(ctx, what, c.running(), func(ctx context.Context) error {
		err := ready(ctx)
		if err != nil {
			pause(ctx)
		}
		return err
	})
}

// pause is how long a service that is not ready yet is left alone: it is busy starting.
func pause(ctx context.Context) {
	select {
	case <-time.After(200 * time.Millisecond):
	case <-ctx.Done():
	}
}

// probeTimeout bounds one look at a service that starts.
const probeTimeout = 20 * time.Second

// awaitAPI waits until a service answers, without the proxies.
func (c *Cloud) awaitAPI(ctx context.Context, service Service) error {
	api := apis[service]
	address := api.url()
	address.Path = api.probe
	transport := c.transport()
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: probeTimeout}
	return c.await(ctx, api.name+" answers", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode >= http.StatusInternalServerError {
			return fmt.Errorf("it answers %s", response.Status)
		}
		return nil
	})
}

// process returns a program that was started.
func (c *Cloud) process(name Process) (*program.Program, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch running := c.processes[name]; {
	case c.closed:
		return nil, errors.New("the cloud is closed")
	case running == nil:
		return nil, fmt.Errorf("there is no process %q", name)
	default:
		return running, nil
	}
}
