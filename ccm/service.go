package ccm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cloud-provider/names"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/internal/controller/service"
	"github.com/mooring-ccm/mooring/internal/leaserecord"
)

// serviceFlags are the values of the service controller's flags that the reference does not have.
type serviceFlags struct {
	classes          service.Classes
	targetDelay      time.Duration
	driftCheckPeriod time.Duration
	driftCheckCalls  int
	collectOrphans   bool
	ensureAtStart    string
}

// recordSuffix ends the name of the Lease that records from what load balancers were made. It follows the name of the election Lease.
const recordSuffix = "-load-balancers"

// The values of --load-balancer-ensure-at-start.
const (
	ensureAuto    = "auto"
	ensureAll     = "all"
	ensureChanged = "changed"
)

// serviceController gives Services of type LoadBalancer their load balancers. It has the same identity as the reference's controller.
func serviceController() Controller {
	flags := &serviceFlags{
		classes: service.Classes{Default: true}, targetDelay: service.DefaultTargetDelay,
		driftCheckPeriod: service.DefaultDriftCheckPeriod, driftCheckCalls: service.DefaultDriftCheckCalls, ensureAtStart: ensureAuto,
	}
	return Controller{
		Name:       names.ServiceLBController,
		ClientName: "service-controller",
		AddFlags:   flags.add,
		Validate:   flags.validate,
		Grants: []Grant{
			{Resource: "nodes", Verbs: []string{"list", "watch"}},
			{Resource: "services", Verbs: []string{"list", "watch"}},
			{Resource: "services/status", Verbs: []string{"patch"}},
		},
		managerGrants: flags.recordGrants,
		New:           flags.newController,
	}
}

func (f *serviceFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.classes.Names, "load-balancer-classes", f.classes.Names,
		"Values of spec.loadBalancerClass of the Services that this cloud controller manager gives load balancers.")
	flags.BoolVar(&f.classes.Default, "load-balancer-default-class", f.classes.Default,
		"Whether it gives load balancers to Services without spec.loadBalancerClass too.")
	flags.DurationVar(&f.targetDelay, "load-balancer-target-delay", f.targetDelay,
		"How long load balancers wait at most for a burst of changes of the nodes to be over: it is then one change for each of them.")
	flags.DurationVar(&f.driftCheckPeriod, "load-balancer-drift-check-period", f.driftCheckPeriod,
		"How often all load balancers are compared with the cloud, to repair what was changed or deleted there. 0: never.")
	flags.IntVar(&f.driftCheckCalls, "load-balancer-drift-check-calls", f.driftCheckCalls,
		"Maximum drift-check calls for single load balancers per minute.")
	flags.StringVar(&f.ensureAtStart, "load-balancer-ensure-at-start", f.ensureAtStart,
		"Which load balancers a replica ensures when it begins to lead: all, or those of which a Lease records other inputs than the Service has now (changed). "+
			"auto: changed where the provider lists load balancers, and the list agrees, or its profile says so; otherwise all.")
	flags.BoolVar(&f.collectOrphans, "collect-orphans", f.collectOrphans,
		"Delete load balancers that this cluster made and that no longer have a Service. They are reported in any case. The provider has to list load balancers and mark them with the cluster's UID.")
}

func (f *serviceFlags) validate() []error {
	var errs []error
	path := field.NewPath("--load-balancer-classes")
	for i, class := range f.classes.Names {
		for _, problem := range validation.IsQualifiedName(class) {
			errs = append(errs, field.Invalid(path.Index(i), class, problem))
		}
	}
	if len(f.classes.Names) == 0 && !f.classes.Default {
		errs = append(errs, field.Required(path, "with --load-balancer-default-class=false no Service is left; "+
			"--controllers=*,-"+names.ServiceLBController+" switches the controller off"))
	}
	errs = append(errs, positive("load-balancer-target-delay", f.targetDelay),
		notNegative("load-balancer-drift-check-period", f.driftCheckPeriod), positive("load-balancer-drift-check-calls", f.driftCheckCalls))
	if choices := []string{ensureAuto, ensureAll, ensureChanged}; !slices.Contains(choices, f.ensureAtStart) {
		errs = append(errs, invalid("load-balancer-ensure-at-start", f.ensureAtStart, "must be one of "+strings.Join(choices, ", ")))
	}
	if f.collectOrphans && f.driftCheckPeriod == 0 {
		errs = append(errs, invalid("load-balancer-drift-check-period", f.driftCheckPeriod, "--collect-orphans needs the drift check"))
	}
	return errs
}

// recordGrants are for the record of load balancers, which is the manager's affair like the lease of the leader election.
func (f *serviceFlags) recordGrants(c *config) []Grant {
	if f.ensureAtStart == ensureAll {
		return nil
	}
	election := c.component.Generic.LeaderElection
	return recordGrants(election.ResourceNamespace, election.ResourceName+recordSuffix, "a new leader ensures all load balancers")
}

// record returns where it is recorded from what load balancers were made; nil: nowhere.
func (f *serviceFlags) record(environment Environment) (*service.Record, error) {
	if f.ensureAtStart == ensureAll || environment.config.dryRun != nil {
		return nil, nil
	}
	client, err := kubernetes.NewForConfig(environment.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("client for the record of load balancers: %w", err)
	}
	election := environment.Settings.Generic.LeaderElection
	return &service.Record{
		Record: leaserecord.Record{
			Leases: client.CoordinationV1(), Namespace: election.ResourceNamespace, Name: election.ResourceName + recordSuffix,
			Annotation: service.AnnotationRecord,
		},
		Origin:      func(ctx context.Context) (string, error) { return environment.config.origin(ctx, client) },
		WithoutList: f.ensureAtStart == ensureChanged || environment.config.ensuresChanged,
	}, nil
}

func (f *serviceFlags) newController(_ context.Context, environment Environment) (manager.Runnable, error) {
	writes := environment.config.concurrency.ServiceSyncs // 0: what the provider declares
	if err := notNegative("concurrent-service-syncs", writes); err != nil {
		return nil, err
	}
	period := f.driftCheckPeriod
	if period == 0 {
		period = -1 // to the controller zero is its default
	}
	record, err := f.record(environment)
	if err != nil {
		return nil, err
	}
	return service.New(service.Options{
		Client:           environment.Client,
		LiveReader:       environment.Manager.GetAPIReader(),
		Cache:            environment.Manager.GetCache(),
		Recorder:         environment.Recorder,
		Cloud:            environment.Cloud,
		ClusterName:      environment.ClusterName,
		Owners:           environment.owners,
		Classes:          f.classes,
		Writes:           writes,
		TargetQuiet:      min(service.DefaultTargetQuiet, f.targetDelay),
		TargetDelay:      f.targetDelay,
		DriftCheckPeriod: period,
		DriftCheckCalls:  f.driftCheckCalls,
		Record:           record,
		CollectOrphans:   f.collectOrphans,
		Registerer:       environment.Registerer,
		Logger:           environment.Logger,
	})
}
