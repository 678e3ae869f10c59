package managers

import (
	"context"
	"sync"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/internal/embedded"
)

// Mooring is the manager of this module.
var Mooring = &Manager{Name: "mooring", run: runMooring, recovers: true, handlesSignals: true}

// runMooring runs the command as its Main does.
func runMooring(ctx context.Context, process *Incarnation, flags []string) error {
	parsing.Lock()
	parsed := sync.OnceFunc(parsing.Unlock)
	defer parsed()
	build := func(context.Context, ccm.ProviderEnvironment) (cloudprovider.Interface, error) {
		parsed()
		return process.plugin, nil
	}
	command := ccm.NewCommand(ccm.WithProvider(process.plugin.ProviderName(), build))
	command.SetArgs(flags)
	return command.ExecuteContext(embedded.Into(ctx, embedded.Settings{
		APIServer:   process.config(),
		Logger:      ptr.To(klog.Background()),
		NewInformer: newOrderedInformer,
	}))
}
