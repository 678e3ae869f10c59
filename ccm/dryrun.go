package ccm

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/ccm/plan"
	"github.com/mooring-ccm/mooring/internal/dryrun"
	"github.com/mooring-ccm/mooring/provider"
)

const dryRunFlag = "dry-run"

// writeNothing makes the configuration fit a manager that writes nothing: it takes no lease, so it may run beside the one that
// leads, and acts by one identity, because to make others would be to write.
func (c *config) writeNothing() {
	c.dryRun = dryrun.NewRecorder()
	c.kubeconfig = rest.CopyConfig(c.kubeconfig)
	c.kubeconfig.Wrap(dryrun.ReadOnly)
	c.component.Generic.LeaderElection.LeaderElect = false
	c.component.Generic.LeaderMigrationEnabled, c.migrated = false, nil
	c.component.KubeCloudShared.UseServiceAccountCredentials = false
}

// warnOfInitialize says that a plugin may act on its own under --dry-run: what Initialize starts cannot be held back, and without it most plugins
// answer no question. One that declares capabilities was written with that in mind.
func warnOfInitialize(ctx context.Context, plugin cloudprovider.Interface) (warning string) {
	if _, declares := plugin.(provider.Capable); declares {
		return ""
	}
	warning = fmt.Sprintf("The provider %s is initialized as always, and what it starts by itself then may change the cloud: only the calls of the "+
		"manager are held back. Give it read-only credentials", plugin.ProviderName())
	log.FromContext(ctx).Error(nil, "WARNING: --dry-run does not stop writes that the provider makes by itself", "provider", plugin.ProviderName(),
		"reason", warning)
	return warning
}

// toRead returns the grants that a manager needs under --dry-run.
func toRead(grants []Grant) []Grant {
	reading, _ := split(grants)
	return reading
}

// clientFor returns the client of a controller.
func (c *config) clientFor(controller string, config *rest.Config, options client.Options) (client.Client, error) {
	if c.dryRun == nil {
		return client.New(config, options)
	}
	reading, err := client.NewWithWatch(config, options)
	if err != nil {
		return nil, err
	}
	return dryrun.Client(reading, controller, c.dryRun), nil
}

// cloudFor returns the plugin as the controllers are to see it.
func (c *config) cloudFor(decorated cloudprovider.Interface) cloudprovider.Interface {
	if c.dryRun == nil {
		return decorated
	}
	return dryrun.Cloud(decorated, c.dryRun)
}

// planHandler serves the plan.
func (c *config) planHandler(since time.Time) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		answer := plan.Plan{
			Provider: c.component.KubeCloudShared.CloudProvider.Name, Cluster: c.component.KubeCloudShared.ClusterName,
			Warning: c.dryRunWarning, Since: since, Intents: c.dryRun.Intents(request.Context()), Compared: c.dryRun.Compared(),
		}
		body, err := json.MarshalIndent(answer, "", "  ")
		if err != nil {
			http.Error(response, fmt.Sprintf("encoding the plan: %v", err), http.StatusInternalServerError)
			return
		}
		response.Header().Set("Content-Type", "application/json")
		response.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = response.Write(append(body, '\n'))
	})
}

// silent is the event recorder of a dry run: what did not happen is no event.
type silent struct{}

var _ record.EventRecorder = silent{}

func (silent) Event(runtime.Object, string, string, string)                                      {}
func (silent) Eventf(runtime.Object, string, string, string, ...any)                             {}
func (silent) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {}
