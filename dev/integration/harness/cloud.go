package harness

import (
	"os"
	"testing"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// Simulate starts the simulated cloud and returns it with the provider that uses it.
func Simulate(t testing.TB, o cloudsim.Options, edits ...func(*sim.Config)) (*simtest.Cloud, *sim.Cloud) {
	t.Helper()
	running := simtest.Start(t, o)
	return running, Provider(t, running.ConfigFile, edits...)
}

// Provider builds the provider for a cloud config.
func Provider(t testing.TB, configFile string, edits ...func(*sim.Config)) *sim.Cloud {
	t.Helper()
	file, err := os.Open(configFile)
	must.NoError(t, err)
	defer file.Close()
	config, err := sim.ReadConfig(file)
	must.NoError(t, err)
	for _, edit := range edits {
		edit(&config)
	}
	built, err := sim.New(config)
	must.NoError(t, err)
	stop := make(chan struct{})
	built.Initialize(nil, stop)
	t.Cleanup(func() { close(stop) })
	return built
}
