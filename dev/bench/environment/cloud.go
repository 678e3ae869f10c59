package environment

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

const (
	// Latency is how long the cloud takes for every call.
	Latency = 50 * time.Millisecond
	// PageSize is how many elements the cloud puts on a page, as Compute Engine does at most. EC2 gives up to 1,000.
	PageSize = 500

	clusterName = "bench"
	cloudToken  = "bench-token"
)

// Cloud is a simulated cloud in this process.
type Cloud struct {
	service *cloudsim.Service
	client  *api.Client
	config  string
	stop    context.CancelFunc
	served  chan error
}

// startCloud starts a cloud with a number of instances, whose files go to a directory.
func startCloud(dir string, instances int) (*Cloud, error) {
	token, config := filepath.Join(dir, "token"), filepath.Join(dir, "cloud.yaml")
	if err := os.WriteFile(token, []byte(cloudToken), 0o600); err != nil {
		return nil, err
	}
	served, err := cloudsim.Open(cloudsim.Options{
		StateFile: filepath.Join(dir, "cloud.db"), Token: cloudsim.StaticToken(cloudToken),
		Seed: cloudsim.DefaultSeed(instances), Knobs: knobs(nil),
	})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for calls to the simulated cloud: %w", err)
	}
	endpoint := "http://" + listener.Addr().String()
	content := fmt.Sprintf("apiVersion: sim.mooring.dev/v1alpha1\nkind: CloudConfig\nendpoint: %s\ntokenFile: %s\nclusterName: %s\nregion: %s\n",
		endpoint, token, clusterName, cloudsim.DefaultRegion)
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		return nil, err
	}
	client, err := api.NewClient(api.ClientOptions{Endpoint: endpoint, Token: cloudsim.StaticToken(cloudToken)})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Cloud{service: served, client: client, config: config, stop: stop, served: make(chan error, 1)}
	go func() { c.served <- served.Serve(ctx, listener) }()
	return c, nil
}

func (c *Cloud) close() error {
	c.client.CloseIdleConnections()
	c.stop()
	if err := <-c.served; err != nil {
		return err
	}
	return c.service.Close()
}

func knobs(quota *api.Quota) api.Knobs {
	return api.Knobs{Latency: metav1.Duration{Duration: Latency}, PageSize: PageSize, Quota: quota}
}

// Limit grants so many calls a second from now on, and a burst.
func (c *Cloud) Limit(rate float64, burst int) error {
	return c.service.SetKnobs(knobs(&api.Quota{RequestsPerSecond: rate, Burst: burst}))
}

// ThrottleBalancers has the cloud answer 429 to every creation of a load balancer from now on: so many times without
// Retry-After, and with it after that. All other calls are served. It takes the place of an earlier one.
func (c *Cloud) ThrottleBalancers(without int, retryAfter time.Duration) error {
	c.service.ClearFaults()
	refusal := api.Fault{Operation: api.OpCreateLoadBalancer, Mode: api.FaultStatus, Status: http.StatusTooManyRequests}
	if without > 0 {
		refusal.Count = without
		if err := c.service.AddFault(refusal); err != nil {
			return err
		}
	}
	refusal.RetryAfter, refusal.Count = metav1.Duration{Duration: retryAfter}, math.MaxInt
	return c.service.AddFault(refusal)
}

// own are the operations by which the benchmark changes the cloud. No manager calls them.
var own = map[api.Operation]bool{
	api.OpCreateInstance: true, api.OpUpdateInstance: true, api.OpDeleteInstance: true,
}

// calls returns what the managers have asked for so far.
func (c *Cloud) calls() map[string]figures.Calls {
	counted := map[string]figures.Calls{}
	for op, n := range c.service.Counts().Operations {
		if !own[op] {
			// All faults are those of ThrottleBalancers.
			counted[string(op)] = figures.Calls{Received: n.Received, Refused: n.Throttled + n.Faulted, Failed: n.Failed + n.Unauthenticated}
		}
	}
	return counted
}

// Remove deletes the first instances of the cloud and switches the next ones off, without delay.
func (c *Cloud) Remove(ctx context.Context, gone, off int) error {
	if err := c.service.SetKnobs(api.Knobs{PageSize: PageSize}); err != nil {
		return err
	}
	for i, instance := range c.service.Instances() {
		var err error
		switch {
		case i < gone:
			err = c.client.DeleteInstance(ctx, instance.ID, 0)
		case i < gone+off:
			spec := instance.InstanceSpec
			spec.Power = api.PowerOff
			_, err = c.client.UpdateInstance(ctx, instance.ID, spec, 0)
		}
		if err != nil {
			return fmt.Errorf("change instance %s: %w", instance.Name, err)
		}
	}
	return c.service.SetKnobs(knobs(nil))
}

// Balancers returns how many load balancers there are, and how many of them have a target whose instance is gone.
func (c *Cloud) Balancers() (all, stale int) {
	lives := map[string]bool{}
	for _, instance := range c.service.Instances() {
		lives[instance.ID] = true
	}
	balancers := c.service.LoadBalancers()
	for _, balancer := range balancers {
		for _, target := range balancer.Targets {
			if !lives[target] {
				stale++
				break
			}
		}
	}
	return len(balancers), stale
}

// Refused returns how many calls the cloud has throttled so far.
func (c *Cloud) Refused() int {
	total := int64(0)
	for _, n := range c.calls() {
		total += n.Refused
	}
	return int(total)
}

// received returns how many calls of some operations the cloud has received, of all operations if none is named.
func (c *Cloud) received(operations ...api.Operation) int64 {
	return c.service.Counts().Received(operations...)
}
