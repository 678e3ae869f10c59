package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/go-logr/logr"

	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

const (
	// instanceCount is how many instances the cloud has at first.
	instanceCount = 12
	// clusterName marks what belongs to the demo's cluster in its cloud.
	clusterName = "demo"
)

// simulatedCloud starts the cloud and writes the config that the manager finds it by.
func simulatedCloud() section {
	return section{name: "cloud", title: "Cloud", steps: []step{
		{
			name: "serve", title: fmt.Sprintf("a cloud with %d instances in %d zones serves its API", instanceCount, len(cloudsim.DefaultZones())),
			deadline: stepDeadline, run: serveCloud,
		},
	}}
}

func serveCloud(ctx context.Context, s *environment) (string, error) {
	if err := s.openCloud(); err != nil {
		return "", err
	}
	instances, zones := 0, map[string]bool{}
	err := s.client.ListInstances(ctx, func(page []api.Instance) error {
		for _, instance := range page {
			instances++
			zones[instance.Zone] = true
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if instances != instanceCount || len(zones) != len(cloudsim.DefaultZones()) {
		return "", fmt.Errorf("it has %d instances in %d zones", instances, len(zones))
	}
	s.cloud.ResetCounts()
	for _, fault := range s.options.Faults {
		if err := s.cloud.AddFault(fault); err != nil {
			return "", fmt.Errorf("--cloud-fault: %w", err)
		}
	}
	return s.endpoint, nil
}

// openCloud serves the cloud on loopback until the demo ends.
func (s *environment) openCloud() error {
	s.tokenFile = s.path("cloud-token")
	adminTokenFile := s.path("cloud-admin-token")
	for _, path := range []string{s.tokenFile, adminTokenFile} {
		if err := os.WriteFile(path, []byte(rand.Text()+"\n"), 0o600); err != nil {
			return err
		}
	}
	logFile, err := os.Create(s.path("logs", "cloud.log"))
	if err != nil {
		return err
	}
	s.onEnd(func(context.Context) error { return logFile.Close() })
	s.cloud, err = cloudsim.Open(cloudsim.Options{
		StateFile: s.path("cloud.db"), Token: cloudsim.TokenFile(s.tokenFile), AdminToken: cloudsim.TokenFile(adminTokenFile),
		Seed: cloudsim.DefaultSeed(instanceCount), Logger: logr.FromSlogHandler(slog.NewJSONHandler(logFile, nil)),
	})
	if err != nil {
		return err
	}
	s.onEnd(func(context.Context) error { return s.cloud.Close() })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the cloud: %w", err)
	}
	s.serveUntilEnd(listener)
	s.endpoint = "http://" + listener.Addr().String()
	s.client, err = api.NewClient(api.ClientOptions{Endpoint: s.endpoint, Token: cloudsim.TokenFile(s.tokenFile)})
	if err != nil {
		return err
	}
	s.onEnd(func(context.Context) error { s.client.CloseIdleConnections(); return nil })
	s.cloudConfig = s.path("cloud.yaml")
	return os.WriteFile(s.cloudConfig, fmt.Appendf(nil,
		"apiVersion: sim.mooring.dev/v1alpha1\nkind: CloudConfig\nendpoint: %s\ntokenFile: %s\nclusterName: %s\nregion: %s\n",
		s.endpoint, s.tokenFile, clusterName, cloudsim.DefaultRegion), 0o600)
}

// serveUntilEnd serves until the things that were started later, which call the cloud, have stopped.
func (s *environment) serveUntilEnd(listener net.Listener) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.life))
	stopped := make(chan struct{})
	s.beside("simulated cloud", func(context.Context) error {
		defer close(stopped)
		return s.cloud.Serve(ctx, listener)
	})
	s.onEnd(func(context.Context) error {
		cancel()
		<-stopped
		return nil
	})
}
