package demo

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/demo/scenario"
	"github.com/mooring-ccm/mooring/localcluster/program"
)

const (
	// statusFrequency is --node-status-update-frequency of the replicas. The default of 5 min is for clusters, not for
	// watching.
	statusFrequency = 2 * time.Second
	// readyPoll is how often a replica is asked whether it is ready.
	readyPoll = 25 * time.Millisecond
)

// replica is one process of the manager.
type replica struct {
	*process
	// certs is where it keeps the certificate that it made for itself, and address where it serves its health.
	certs   string
	address netip.AddrPort
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
	r := &replica{certs: s.path(name, "certs"), address: at.address}
	r.process, err = s.startProcess("replica", name, slices.Concat(at.inside, []string{
		s.daemon, "--cloud-config=" + s.cloudConfig,
		"--kubeconfig=" + s.kubeconfig, "--authentication-kubeconfig=" + s.kubeconfig, "--authorization-kubeconfig=" + s.kubeconfig,
		"--node-status-update-frequency=" + statusFrequency.String(),
		"--node-monitor-period=" + monitorPeriod.String(), "--node-deletion-min-age=" + monitorPeriod.String(),
		"--node-deletion-min-denial-time=" + monitorPeriod.String(),
		"--route-reconciliation-period=" + routePeriod.String(), "--route-reconciliation-max-period=" + routePeriod.String(),
		"--load-balancer-drift-check-period=" + driftCheckPeriod.String(),
		"--bind-address=" + at.address.Addr().String(), "--secure-port=" + strconv.Itoa(int(at.address.Port())), "--cert-dir=" + r.certs,
		"--logging-format=json",
	}, at.flags)...)
	if err != nil {
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
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		err := r.probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %w", r.Name(), context.Cause(ctx), err)
		}
	}
}

// probe asks /readyz, and trusts the certificate that the replica made for itself, which is one for localhost.
func (r *replica) probe(ctx context.Context) error {
	certificate, err := os.ReadFile(filepath.Join(r.certs, daemonName+".crt"))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	config := &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	url := "https://" + r.address.String() + "/readyz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport, Timeout: time.Second}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz says %s", response.Status)
	}
	return nil
}
