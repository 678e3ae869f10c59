package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/mooring-ccm/mooring/dev/openstack/chroot"
	"github.com/mooring-ccm/mooring/dev/openstack/faultproxy"
	"github.com/mooring-ccm/mooring/dev/program"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

const (
	// startTimeout bounds the start of all services. It takes half a minute on two idle cores; tests share theirs with compilers.
	startTimeout = 8 * time.Minute
	// stopGrace is how long all services together may take to end. Nothing is lost by killing them then.
	stopGrace = 4 * time.Second
)

// Cloud is an OpenStack that runs.
type Cloud struct {
	dir       string
	temporary bool // dir is removed by Close
	room      *chroot.Room
	faults    *faultproxy.Proxy
	display   *progress.Display
	forget    func() bool // ends the watch for the end of Start's context

	mu        sync.Mutex
	processes map[Process]*program.Program
	order     []Process        // in which they were started
	ended     map[Process]bool // the processes that a test has ended
	closed    bool
}

// Start starts a cloud and returns when a tenant can use it: every API answers, and each of three availability zones has a compute host.
// The first start on a machine makes the databases, which are kept in the cache.
//
// The cloud lives until Close is called, ctx ends or this process dies, whichever is first. It returns a *MissingError when this machine
// lacks something, see Install.
func Start(ctx context.Context, options Options) (*Cloud, error) {
	if err := Check(options); err != nil {
		return nil, err
	}
	cache, err := options.cache()
	if err != nil {
		return nil, err
	}
	display := progress.New(options.Progress)
	template, err := ensureTemplate(ctx, cache, display)
	if err != nil {
		return nil, fmt.Errorf("start OpenStack for the first time: %w", err)
	}
	starting, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready within %s", startTimeout))
	defer cancel()
	dir, temporary, err := options.makeDir()
	if err != nil {
		return nil, fmt.Errorf("start OpenStack: %w", err)
	}
	cloud, err := boot(starting, rootOf(cache), dir, template, display)
	if err != nil {
		return nil, fmt.Errorf("start OpenStack, logs in %s: %w", dir, err)
	}
	cloud.mu.Lock()
	defer cloud.mu.Unlock()
	cloud.temporary = temporary
	cloud.forget = context.AfterFunc(ctx, func() { _ = cloud.Close(context.WithoutCancel(ctx)) })
	return cloud, nil
}

// boot starts a cloud on a copy of a template, or on nothing when template is empty.
func boot(ctx context.Context, root, dir, template string, display *progress.Display) (*Cloud, error) {
	state, logs := filepath.Join(dir, stateName), filepath.Join(dir, "logs")
	for _, sub := range []string{state, logs} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return nil, err
		}
	}
	if template != "" {
		if err := copyState(ctx, template, state); err != nil {
			return nil, err
		}
	}
	if err := writeState(state); err != nil {
		return nil, err
	}
	room, err := chroot.Open(chroot.Options{Root: root, State: state, Logs: logs, Host: "localhost"})
	if err != nil {
		return nil, err
	}
	cloud := &Cloud{dir: dir, room: room, display: display, processes: map[Process]*program.Program{}, ended: map[Process]bool{}}
	if err := cloud.start(ctx, template == ""); err != nil {
		return nil, errors.Join(err, cloud.Close(ctx))
	}
	return cloud, nil
}

// transport reaches the services in their room.
func (c *Cloud) transport() *http.Transport {
	return &http.Transport{DialContext: c.room.Dial, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute}
}

// listen starts the proxies that tenants reach the services by.
func (c *Cloud) listen() error {
	upstreams := map[string]*url.URL{}
	for service, api := range apis {
		upstreams[string(service)] = api.url()
	}
	var err error
	c.faults, err = faultproxy.Listen(upstreams, c.transport())
	return err
}

// Faults returns the proxy that tenants reach the services by. Its services are the values of Service.
func (c *Cloud) Faults() *faultproxy.Proxy { return c.faults }

// AuthURL returns the address of keystone.
func (c *Cloud) AuthURL() string { return c.faults.URL(string(Identity)).String() }

// Region returns the name of the only region.
func (c *Cloud) Region() string { return region }

// Zones returns the availability zones. Each has one compute host, which has the zone's name.
func (c *Cloud) Zones() []string { return slices.Clone(zones) }

// Dir returns the directory of the cloud, with the logs of the services in logs.
func (c *Cloud) Dir() string { return c.dir }

// Keep has Close keep the directory of the cloud.
func (c *Cloud) Keep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.temporary = false
}

// Close ends the cloud: the services in the reverse order of their start, each first asked and then killed. It takes a few seconds; when
// ctx ends, what still runs is killed at once. No process and no mount is left. Closing twice is no error.
func (c *Cloud) Close(ctx context.Context) error { return c.close(ctx, stopGrace) }

func (c *Cloud) close(ctx context.Context, grace time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	if c.forget != nil {
		c.forget()
	}
	var errs []error
	if c.faults != nil {
		errs = append(errs, c.faults.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	for _, name := range slices.Backward(c.order) {
		errs = append(errs, c.room.SignalGroup(c.processes[name], stopSignal))
	}
	for _, name := range slices.Backward(c.order) {
		select {
		case <-c.processes[name].Done():
		case <-ctx.Done():
		}
	}
	errs = append(errs, c.room.Close())
	if c.temporary {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop OpenStack in %s: %w", c.dir, err)
	}
	return nil
}
