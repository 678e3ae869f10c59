package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/openstack"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

const (
	// quiet is how long a manager must not have made a call to count as done, and trail how long that is waited for at the most.
	quiet, trail = 3 * time.Second, 30 * time.Second
	// phaseLimit is when a phase is given up.
	phaseLimit = 30 * time.Minute
)

// Program is a manager to measure.
type Program struct {
	// Name is how the report calls it, and Path where it is.
	Name, Path string
	// Upstream says that it is OpenStack's own manager, which needs other rights.
	Upstream bool
}

// Options say what is measured. All but Logs and Display are required.
type Options struct {
	// Programs are measured in this order.
	Programs []Program
	// Servers and Services are how many of each there are. The last server joins when the load balancers stand.
	Servers, Services int
	// Driver is octavia's: "amphora" or "ovn".
	Driver string
	// Binaries are the control plane's.
	Binaries localcluster.Binaries
	// Logs is a directory for the logs of the managers; empty for none.
	Logs string
	// Display shows how far it is.
	Display *progress.Display
}

// Run starts a cloud, makes the servers and measures one manager after the other.
func Run(ctx context.Context, options Options) (results []Result, err error) {
	cloud, err := openstack.Start(ctx, openstack.Options{Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cloud.Close(context.WithoutCancel(ctx))) }()
	b := &bench{options: options, cloud: cloud}
	if err := b.furnish(ctx); err != nil {
		return nil, fmt.Errorf("make %d servers: %w", options.Servers, err)
	}
	for _, program := range options.Programs {
		measured, err := b.measure(ctx, program)
		results = append(results, measured...)
		if err != nil {
			return results, fmt.Errorf("measure %s: %w", program.Name, err)
		}
	}
	return results, nil
}

// bench is what all managers share.
type bench struct {
	options     Options
	cloud       *openstack.Cloud
	environment *openstack.Environment
	credentials openstack.Credentials
	servers     []servers.Server
}

// furnish makes the network, the credentials and the servers.
func (b *bench) furnish(ctx context.Context) (err error) {
	if b.environment, err = b.cloud.Environment(ctx, openstack.EnvironmentOptions{Name: "nodes", CIDR: "10.6.0.0/20"}); err != nil {
		return err
	}
	if b.credentials, err = b.cloud.CreateApplicationCredential(ctx, b.cloud.Tenant(), "bench"); err != nil {
		return err
	}
	step := b.options.Display.Begin("making servers")
	const batch = 10
	for len(b.servers) < b.options.Servers {
		var names []string
		for i := len(b.servers); i < min(len(b.servers)+batch, b.options.Servers); i++ {
			names = append(names, fmt.Sprintf("server-%03d", i+1))
		}
		made, err := b.environment.CreateServers(ctx, openstack.ServerOptions{Names: names})
		if err != nil {
			step.Fail()
			return err
		}
		b.servers = append(b.servers, made...)
		step.Update("%d of %d", len(b.servers), b.options.Servers)
	}
	step.Done("%d", len(b.servers))
	return nil
}

// cloudConf is what every manager reads. It is upstream's format, and lb-method what the driver ovn demands of upstream's.
func (b *bench) cloudConf() string {
	method := "ROUND_ROBIN"
	if b.options.Driver == "ovn" {
		method = "SOURCE_IP_PORT"
	}
	return b.cloud.CloudConf(b.credentials, "[Networking]", "internal-network-name="+b.environment.NetworkName,
		"[LoadBalancer]", "lb-provider="+b.options.Driver, "lb-method="+method, "subnet-id="+b.environment.Subnet,
		"floating-network-id="+b.environment.External)
}

// phase is something that happens in a cluster, and is over when wait returns.
type phase struct {
	name string
	act  func(context.Context) error
	wait func(context.Context) error
}

// measure takes one manager through all phases.
func (b *bench) measure(ctx context.Context, program Program) (results []Result, err error) {
	dir, err := os.MkdirTemp("", "mooring-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.keepLogs(dir, program), os.RemoveAll(dir)) }()
	config := filepath.Join(dir, "cloud.conf")
	if err := os.WriteFile(config, []byte(b.cloudConf()), 0o600); err != nil {
		return nil, err
	}
	cluster, err := b.openCluster(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.close(context.WithoutCancel(ctx))) }()
	b.cloud.Faults().Reset()
	phases := []phase{
		{"start", func(ctx context.Context) error { return cluster.startManager(ctx, program, config) }, cluster.awaitLeader},
		{"join", func(ctx context.Context) error { return cluster.join(ctx, b.options.Servers-1) }, cluster.awaitInitialized},
		{"balance", cluster.createServices, cluster.awaitAddresses},
		{"one more", func(ctx context.Context) error { return cluster.join(ctx, 1) }, cluster.awaitMembers},
		{"delete", cluster.deleteServices, cluster.awaitNoServices},
	}
	for _, p := range phases {
		result, err := b.measurePhase(ctx, program, p)
		if err != nil {
			return results, fmt.Errorf("phase %s: %w", p.name, err)
		}
		results = append(results, result)
	}
	return results, nil
}

// measurePhase runs a phase, and counts the calls until the manager makes no further ones.
func (b *bench) measurePhase(ctx context.Context, program Program, p phase) (Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, phaseLimit, fmt.Errorf("not over after %s", phaseLimit))
	defer cancel()
	step := b.options.Display.Begin(program.Name + ": " + p.name)
	b.cloud.Faults().Reset()
	began := time.Now()
	err := p.act(ctx)
	if err == nil {
		err = p.wait(ctx)
	}
	result := Result{Program: program.Name, Phase: p.name, Seconds: time.Since(began).Seconds()}
	if err == nil {
		err = b.awaitQuiet(ctx)
	}
	if err != nil {
		step.Fail()
		return result, err
	}
	result.count(b.cloud.Faults().Drain())
	step.Done("%.1f s, %d calls", result.Seconds, result.Total())
	return result, nil
}

// awaitQuiet waits until no call has been made for a while. A manager that polls is not waited for forever.
func (b *bench) awaitQuiet(ctx context.Context) error {
	end := time.Now().Add(trail)
	for time.Now().Before(end) {
		before := len(b.cloud.Faults().Calls())
		select {
		case <-time.After(quiet):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := b.cloud.Faults().Idle(ctx); err != nil {
			return err
		}
		if len(b.cloud.Faults().Calls()) == before {
			return nil
		}
	}
	return nil
}

// keepLogs copies the manager's log to where logs are kept.
func (b *bench) keepLogs(dir string, program Program) error {
	if b.options.Logs == "" {
		return nil
	}
	content, err := os.ReadFile(filepath.Join(dir, managerName+".log"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.options.Logs, program.Name+".log"), content, 0o600)
}
