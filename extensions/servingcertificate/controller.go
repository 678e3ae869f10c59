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
	"fmt"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// Name is the controller's name. The reference has no such controller.
const Name = "kubelet-serving-certificate"

// workers is how many requesters are worked on at once. None of them waits for the cloud, so the API server is all that they wait for.
const workers = 16

// approver approves requests for serving certificates of kubelets. It is a controller-runtime Runnable that needs leader election and
// warms up without.
type approver struct {
	*kit.Controller
	answers   *answers
	instances ccm.Instances
	log       logr.Logger
}

// newApprover returns a controller that has not started yet.
func newApprover(ctx context.Context, environment ccm.Environment, policy policy) (*approver, error) {
	instances, err := environment.Instances()
	if err != nil {
		return nil, err
	}
	cache := environment.Manager.GetCache()
	if err := addIndexes(ctx, cache); err != nil {
		return nil, err
	}
	log := environment.Logger.WithValues("controller", Name)
	enqueuer, metrics := &kit.Enqueuer{}, newMetrics(environment.Registerer)
	answers := newAnswers(instances.Lookup, enqueuer)
	reconciler := &reconciler{
		reader: environment.Client, instances: instances, answers: answers, policy: policy, state: newState(), metrics: metrics,
		writer: writer{client: environment.Client, recorder: environment.Recorder, metrics: metrics, limiter: &kit.EventLimiter{}},
	}
	watcher := watcher{state: reconciler.state}
	inner, err := kit.NewController(Name, kit.ControllerOptions{
		Reconciler: reconciler, Workers: workers, Logger: log, RateLimiter: backoff.RateLimiter(),
		LoggerFor: func(requester types.NamespacedName) logr.Logger {
			return log.WithValues("requester", shown(requester.Name))
		},
		Sources: []source.Source{
			source.Kind(cache, &certificatesv1.CertificateSigningRequest{}, watcher.requests()),
			source.Kind(cache, &corev1.Node{}, watcher.nodes()), source.Func(enqueuer.Capture),
		},
	})
	if err != nil {
		return nil, err
	}
	return &approver{Controller: inner, answers: answers, instances: instances, log: log}, nil
}

// Start works until ctx ends, and returns when the cloud is no longer asked. With a plugin that cannot be asked about instances it says
// so and does nothing.
func (c *approver) Start(ctx context.Context) error {
	if err := c.instances.Supported(); err != nil {
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
