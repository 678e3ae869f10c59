// Package servingcertificate approves the serving certificates that kubelets ask for, if the cloud reports what they ask for.
//
// A kubelet with serverTLSBootstrap asks by a CertificateSigningRequest for a certificate of its addresses. kube-controller-manager signs
// what is approved, and approves nothing of this signer: what addresses a machine has, only the cloud knows.
//
// Data flows one way, for all requests of one requester at once. The watches (watch.go) put requesters into the queue; reconcile.go reads
// their requests (desired.go) and has the cloud asked about the instance, without waiting for it (answers.go); plan.go decides; apply.go
// approves or denies.
//
// See ADR 62.
package servingcertificate

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/required"
)

// Name is the controller's name. The reference has no such controller.
const Name = "kubelet-serving-certificate"

// DefaultWorkers is how many requesters are worked on at once. None of them waits for the cloud, so that the API server is all that they
// wait for.
const DefaultWorkers = 16

// Options are what the controller works with. Client, Cache, Recorder, Inventory and Owners are required.
type Options struct {
	// Client reads from Cache and writes with the controller's identity.
	Client client.Client
	// Cache delivers the watches of requests and nodes. Of requests it may have those that Selector selects, and no others.
	Cache cache.Cache
	// Recorder records events on requests.
	Recorder record.EventRecorder
	// Inventory knows the cloud's instances.
	Inventory *instances.Inventory
	// Owners knows which nodes are ours.
	Owners *instances.Owners
	// Policy is what the operator decides.
	Policy Policy
	// Workers is how many requesters are worked on at once. Zero: DefaultWorkers.
	Workers int
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
	// Logger is what the controller logs to.
	Logger logr.Logger
}

// Selector selects the requests that the controller works on. The API server applies it to lists and watches.
func Selector() fields.Selector {
	return fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeletServingSignerName)
}

// Controller approves requests for serving certificates of kubelets. It is a controller-runtime Runnable that needs leader election and
// warms up without.
type Controller struct {
	*kit.Controller
	answers   *answers
	inventory *instances.Inventory
	log       logr.Logger
}

// New returns a controller that has not started yet. All options that are missing or wrong are named in one error.
func New(ctx context.Context, options Options) (*Controller, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	if err := addIndexes(ctx, options.Cache); err != nil {
		return nil, err
	}
	log := options.Logger.WithValues("controller", Name)
	enqueuer, metrics := &kit.Enqueuer{}, newMetrics(options.Registerer)
	answers := newAnswers(options.Inventory.Lookup, enqueuer)
	reconciler := &reconciler{
		reader: options.Client, owners: options.Owners, answers: answers, policy: options.Policy, state: newState(), metrics: metrics,
		writer: writer{client: options.Client, recorder: options.Recorder, metrics: metrics, limiter: &kit.EventLimiter{}},
	}
	watcher := watcher{state: reconciler.state}
	inner, err := kit.NewController(Name, kit.ControllerOptions{
		Reconciler: reconciler, Workers: options.Workers, Logger: log, RateLimiter: backoff.RateLimiter(),
		LoggerFor: func(requester types.NamespacedName) logr.Logger {
			return log.WithValues("requester", shown(requester.Name))
		},
		Sources: []source.Source{
			source.Kind(options.Cache, &certificatesv1.CertificateSigningRequest{}, watcher.requests()),
			source.Kind(options.Cache, &corev1.Node{}, watcher.nodes()), source.Func(enqueuer.Capture),
		},
	})
	if err != nil {
		return nil, err
	}
	return &Controller{Controller: inner, answers: answers, inventory: options.Inventory, log: log}, nil
}

// complete fills in defaults and returns all that is missing or wrong.
func (o *Options) complete() error {
	wrong := []error{required.Check("serving certificate controller",
		required.Option{Name: "Client", Missing: o.Client == nil}, required.Option{Name: "Cache", Missing: o.Cache == nil},
		required.Option{Name: "Recorder", Missing: o.Recorder == nil}, required.Option{Name: "Inventory", Missing: o.Inventory == nil},
		required.Option{Name: "Owners", Missing: o.Owners == nil},
	)}
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	return errors.Join(append(wrong, o.Policy.validate()...)...)
}

// Start works until ctx ends, and returns when the cloud is not asked any more. With a plugin that cannot be asked about instances it says
// so and does nothing.
func (c *Controller) Start(ctx context.Context) error {
	if err := c.inventory.Supported(); err != nil {
		c.log.Info("Serving certificates are not approved by this process", "reason", err.Error())
		<-ctx.Done()
		return nil
	}
	asking, cancel := context.WithCancel(logr.NewContext(ctx, c.log))
	c.answers.begin(asking)
	defer c.answers.running.Wait()
	defer cancel()
	return c.Controller.Start(ctx)
}

// The indexes of the cache by which the controller finds what belongs together.
const (
	byRequester  = "kubelet-serving-certificate/requester"
	byProviderID = "kubelet-serving-certificate/provider-id"
)

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &certificatesv1.CertificateSigningRequest{}, byRequester, func(object client.Object) []string {
		if asked, ok := object.(*certificatesv1.CertificateSigningRequest); ok && asked.Spec.SignerName == certificatesv1.KubeletServingSignerName {
			return []string{asked.Spec.Username}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("indexing certificate signing requests by their requesters: %w", err)
	}
	if err := indexer.IndexField(ctx, &corev1.Node{}, byProviderID, func(object client.Object) []string {
		if node, ok := object.(*corev1.Node); ok && node.Spec.ProviderID != "" {
			return []string{node.Spec.ProviderID}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("indexing nodes by their provider IDs: %w", err)
	}
	return nil
}
