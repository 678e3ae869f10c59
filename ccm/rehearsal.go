package ccm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/internal/dryrun"
)

const (
	dryRunFlag = "dry-run"
	// planPath is where the secure port shows what would be done.
	planPath = "/plan"
)

// rehearse makes the configuration that of a manager that writes nothing: it takes no lease, so that it may run beside the one that
// leads, and acts by one identity, because to make others would be to write.
func (c *config) rehearse() {
	c.rehearsal = dryrun.NewJournal()
	c.kubeconfig = rest.CopyConfig(c.kubeconfig)
	c.kubeconfig.Wrap(dryrun.ReadOnly)
	c.component.Generic.LeaderElection.LeaderElect = false
	c.component.Generic.LeaderMigrationEnabled, c.migrated = false, nil
	c.component.KubeCloudShared.UseServiceAccountCredentials = false
}

// toRead returns the grants that a manager needs under --dry-run.
func toRead(grants []Grant) []Grant {
	reading, _ := split(grants)
	return reading
}

// clientFor returns the client of a controller.
func (c *config) clientFor(controller string, config *rest.Config, options client.Options) (client.Client, error) {
	if c.rehearsal == nil {
		return client.New(config, options)
	}
	reading, err := client.NewWithWatch(config, options)
	if err != nil {
		return nil, err
	}
	return dryrun.Client(reading, controller, c.rehearsal), nil
}

// cloudFor returns the plugin as the controllers are to see it.
func (c *config) cloudFor(decorated cloudprovider.Interface) cloudprovider.Interface {
	if c.rehearsal == nil {
		return decorated
	}
	return dryrun.Cloud(decorated, c.rehearsal)
}

// Plan is what the secure port answers at /plan under --dry-run.
type Plan struct {
	// Provider is the name of the cloud provider, and Cluster that of the cluster.
	Provider string `json:"provider"`
	Cluster  string `json:"cluster"`
	// Since is when the rehearsal began. Controllers that confirm what they see take some periods to come to a plan.
	Since time.Time `json:"since"`
	// Intents are what would be done, by object.
	Intents []dryrun.Intent `json:"intents"`
	// Compared says of how many load balancers was found that nothing differs. Nil: of none.
	Compared *dryrun.Compared `json:"compared,omitempty"`
}

// planHandler serves the plan.
func (c *config) planHandler(since time.Time) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		plan := Plan{
			Provider: c.component.KubeCloudShared.CloudProvider.Name, Cluster: c.component.KubeCloudShared.ClusterName,
			Since: since, Intents: c.rehearsal.Plan(request.Context()), Compared: c.rehearsal.Compared(),
		}
		body, err := json.MarshalIndent(plan, "", "  ")
		if err != nil {
			http.Error(response, fmt.Sprintf("encoding the plan: %v", err), http.StatusInternalServerError)
			return
		}
		response.Header().Set("Content-Type", "application/json")
		response.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = response.Write(append(body, '\n'))
	})
}

// silent is the recorder of a rehearsal: nobody is told what did not happen.
type silent struct{}

var _ record.EventRecorder = silent{}

func (silent) Event(runtime.Object, string, string, string)                                      {}
func (silent) Eventf(runtime.Object, string, string, string, ...any)                             {}
func (silent) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {}
