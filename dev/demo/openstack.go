package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/mooring-ccm/mooring/dev/demo/scenario"
	"github.com/mooring-ccm/mooring/dev/openstack"
)

const (
	// installDeadline bounds an installation of the services, which takes minutes.
	installDeadline = 45 * time.Minute
	// cloudDeadline bounds each step with the services, which take half a minute to start and seconds for the rest on an idle machine, and many
	// times as long on one that is busy.
	cloudDeadline = 15 * time.Minute
	// serverNetwork is the network of the servers, and serverCIDR its subnet.
	serverNetwork, serverCIDR = "nodes", "10.6.0.0/24"
	// serverCount is how many servers there are; serversAtOnce of them boot at a time.
	serverCount, serversAtOnce = 6, 3
	// loginFile is for the clients of OpenStack, and people who look around.
	loginFile = "clouds.yaml"
	// callsInterval is how often the calls of the services are looked at.
	callsInterval = 100 * time.Millisecond
)

// privateCloud is an OpenStack that runs on this machine, and what the demo has in it.
type privateCloud struct {
	cloud       *openstack.Cloud
	environment *openstack.Environment
	// servers are the servers of the nodes, by the name that a node and its server share.
	servers map[string]servers.Server
	// vip is the address of the first Service.
	vip string
}

// openstackSections are the steps with OpenStack, in their order.
func openstackSections(p *privateCloud, install bool) []section {
	programs := prepare()
	if install {
		programs.steps = append(programs.steps, step{
			name: "openstack", title: "the packages of OpenStack are installed, in a root directory of their own", deadline: installDeadline,
			run: installOpenStack,
		})
	}
	return []section{
		programs,
		p.start(),
		controlPlane(),
		replicas(),
		p.join(),
		p.routes(),
		p.services(),
		p.changes(),
		p.outage(),
	}
}

// newPrivateCloud returns a cloud to be started, or an error that says what this machine lacks for that.
func newPrivateCloud(install bool) (*privateCloud, error) {
	err := openstack.Check(openstack.Options{})
	var missing *openstack.MissingError
	switch {
	case err == nil, errors.As(err, &missing) && missing.Installable && install:
		return &privateCloud{servers: map[string]servers.Server{}}, nil
	case missing == nil:
		return nil, err
	}
	hint := ""
	if missing.Installable {
		hint = ": make demo ARGS=\"--provider=openstack --install\" installs them first (150 MB of Debian's packages, some minutes)"
	}
	return nil, fmt.Errorf("--provider=%s: missing: %s%s", OpenStack, strings.Join(missing.Lacks, "; "), hint)
}

func installOpenStack(ctx context.Context, s *environment) (string, error) {
	return "", openstack.Install(ctx, openstack.Options{Progress: s.progress()})
}

// start has the services run and a project have a network.
func (p *privateCloud) start() section {
	return section{name: "cloud", title: "OpenStack", steps: []step{
		{
			name: "start", title: "keystone, placement, glance, nova, neutron with OVN, and octavia run on loopback", deadline: cloudDeadline,
			run: p.startServices,
		},
		{
			name: "project", title: "a project has a network with a router, and an application credential for the manager", deadline: cloudDeadline,
			run: p.prepareProject,
		},
	}}
}

func (p *privateCloud) startServices(ctx context.Context, s *environment) (detail string, err error) {
	p.cloud, err = startUntil(ctx, context.WithoutCancel(s.life), func(life context.Context) (*openstack.Cloud, error) {
		return openstack.Start(life, openstack.Options{Dir: s.path("openstack"), Progress: s.progress()})
	})
	if err != nil {
		return "", err
	}
	s.onEnd(p.cloud.Close)
	s.beside("calls of OpenStack", func(ctx context.Context) error { return p.watchCalls(ctx, s) })
	return fmt.Sprintf("keystone at %s; a compute host in each of %s", p.cloud.AuthURL(), strings.Join(p.cloud.Zones(), ", ")), nil
}

func (p *privateCloud) prepareProject(ctx context.Context, s *environment) (detail string, err error) {
	p.environment, err = p.cloud.Environment(ctx, openstack.EnvironmentOptions{Name: serverNetwork, CIDR: serverCIDR})
	if err != nil {
		return "", err
	}
	credential, err := p.cloud.CreateApplicationCredential(ctx, p.cloud.Tenant(), daemonName)
	if err != nil {
		return "", err
	}
	s.cloudConfig = s.path("cloud.conf")
	conf := p.cloud.CloudConf(credential, "[Networking]", "internal-network-name="+serverNetwork, "[Route]", "router-id="+p.environment.Router,
		"[LoadBalancer]", "lb-provider=ovn", "subnet-id="+p.environment.Subnet, "floating-network-id="+p.environment.External)
	if err := os.WriteFile(s.cloudConfig, []byte(conf), 0o600); err != nil {
		return "", err
	}
	if err := os.WriteFile(s.path(loginFile), []byte(p.cloud.CloudsYAML()), 0o600); err != nil {
		return "", err
	}
	return "servers in " + serverCIDR + ", floating IPs from the network " + openstack.ExternalNetwork, nil
}

// serviceNames are the names of the services that a manager calls, by the types of the catalog.
var serviceNames = map[string]string{
	string(openstack.Identity): "keystone", string(openstack.Compute): "nova", string(openstack.Network): "neutron",
	string(openstack.LoadBalancer): "octavia",
}

// watchCalls reports every call of the manager until ctx ends. What the steps do themselves goes past the proxies that count.
func (p *privateCloud) watchCalls(ctx context.Context, s *environment) error {
	ticker := time.NewTicker(callsInterval)
	defer ticker.Stop()
	for {
		for _, call := range p.cloud.Faults().Drain() {
			s.report(scenario.CallSeen{At: call.Began.Add(call.Took), Call: scenario.Call{
				Service: serviceNames[call.Service], Method: call.Method, Template: call.Template, Status: call.Status, Took: call.Took,
			}})
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// invite says what there is to look at while everything is left running.
func (p *privateCloud) invite(s *environment, line func(format string, args ...any)) {
	line("\nThe cloud is a real one; its clients work (Debian's python3-openstackclient), for example:\n")
	line("  export OS_CLIENT_CONFIG_FILE=%s OS_CLOUD=k8s", s.path(loginFile))
	line("  openstack server list")
	line("  openstack server stop %s", offServer)
	line("  openstack loadbalancer list")
}
