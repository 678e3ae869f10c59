package demo

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/mooring-ccm/mooring/dev/demo/scenario"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/program"
)

// statusFrequency is --node-status-update-frequency of the replicas. The default of 5 min is for clusters, not for watching.
const statusFrequency = 2 * time.Second

// replica is one process of the manager.
type replica struct {
	*process
	// health is where it serves that, with the certificate that it made for itself.
	health harness.Endpoint
}

// placement is where a replica runs, and which arguments it gets beyond those of all replicas.
type placement struct {
	// inside are the words before its command line that put it into a network; none for this process's own.
	inside []string
	// address is where it serves its health.
	address netip.AddrPort
	// flags are those of the provider.
	flags []string
}

// startReplica starts the daemon as it is shipped, with the rights of its ServiceAccount and no others.
func (s *environment) startReplica(name string) (*replica, error) {
	at, err := s.place(name)
	if err != nil {
		return nil, fmt.Errorf("replica %s: %w", name, err)
	}
	manager := harness.Manager{
		Name: name, Path: s.daemon, Inside: at.inside, Kubeconfig: s.kubeconfig, CloudConfig: s.cloudConfig, Certs: s.path(name, "certs"),
		Port: int(at.address.Port()),
	}
	manager.Flags = append([]string{
		"--node-status-update-frequency=" + statusFrequency.String(),
		"--node-monitor-period=" + monitorPeriod.String(), "--node-deletion-min-age=" + monitorPeriod.String(),
		"--node-deletion-min-denial-time=" + monitorPeriod.String(),
		"--route-reconciliation-period=" + routePeriod.String(),
		"--load-balancer-drift-check-period=" + driftCheckPeriod.String(), "--load-balancer-drift-check-calls=60",
		"--bind-address=" + at.address.Addr().String(), "--logging-format=json",
	}, at.flags...)
	command, err := manager.Command(s.life, nil)
	if err != nil {
		return nil, fmt.Errorf("replica %s: %w", name, err)
	}
	r := &replica{health: harness.Endpoint{Address: at.address.String(), Certificate: manager.Certificate()}}
	if r.process, err = s.startProcess("replica", name, append([]string{command.Path}, command.Args...)...); err != nil {
		return nil, err
	}
	s.replicas[name] = r
	s.reportRole(r, scenario.Starting)
	return r, nil
}

// placeBeside has replicas of a cloud listen on loopback, each at a port of its own.
func (s *environment) placeBeside(string) (placement, error) {
	port, err := program.FreePort()
	return placement{
		address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)),
		flags:   []string{"--cloud-provider=" + string(cmp.Or(s.options.Provider, Simulated)), "--cluster-cidr=" + podCIDRs},
	}, err
}

func (s *environment) reportRole(r *replica, role scenario.Role) {
	if role == scenario.Leader {
		s.leader = r.Name()
	} else if s.leader == r.Name() {
		s.leader = ""
	}
	s.report(scenario.ReplicaSeen{At: time.Now(), Name: r.Name(), PID: r.PID(), Role: role})
}

// ready waits until /readyz of the replica says ok: its caches are warm, whether it leads or not.
func (r *replica) ready(ctx context.Context) error {
	return program.Await(ctx, r.Name()+" is ready", []*program.Program{r.Program}, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := r.health.OK(ctx, "/readyz", "")
		return err
	})
}
