// Package racks is a vendor's own controller: it labels nodes with the rack that their provider ID names.
package racks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/ccm"
)

// Name is the controller's name in --controllers.
const Name = "rack-label-controller"

// Controller returns the entry for ccm.WithController. Its flag is --rack-label.
func Controller() ccm.Controller {
	label := "mycloud.example.com/rack"
	return ccm.Controller{
		Name:       Name,
		Aliases:    []string{"racks"},
		ClientName: "mycloud-rack-label-controller",
		AddFlags: func(flags *pflag.FlagSet) {
			flags.StringVar(&label, "rack-label", label, "Label that says in which rack a node is.")
		},
		Validate: func() (errs []error) {
			for _, problem := range validation.IsQualifiedName(label) {
				errs = append(errs, fmt.Errorf("--rack-label %q: %s", label, problem))
			}
			return errs
		},
		Grants: []ccm.Grant{{Resource: "nodes", Verbs: []string{"get", "list", "watch", "patch"}}},
		New: func(_ context.Context, environment ccm.Environment) (manager.Runnable, error) {
			return nil, build(environment, label)
		},
	}
}

// reconciler labels one node.
type reconciler struct {
	client client.Client
	label  string
	failed atomic.Pointer[error] // the last attempt's error, for the health check
}

// build sets the controller up with controller-runtime's builder, which adds it to the environment's manager.
func build(environment ccm.Environment, label string) error {
	r := &reconciler{client: environment.Client, label: label}
	if err := environment.Manager.AddHealthzCheck("labels", r.healthy); err != nil {
		return err
	}
	err := ctrl.NewControllerManagedBy(environment.Manager).Named(Name).For(&corev1.Node{}).Complete(r)
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	return nil
}

// Reconcile writes the label if it is not what the provider ID says.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	err := r.reconcile(ctx, request)
	r.failed.Store(&err)
	return ctrl.Result{}, err
}

func (r *reconciler) reconcile(ctx context.Context, request ctrl.Request) error {
	var node corev1.Node
	if err := r.client.Get(ctx, request.NamespacedName, &node); err != nil {
		return client.IgnoreNotFound(err)
	}
	rack := rackOf(node.Spec.ProviderID)
	if rack == "" || node.Labels[r.label] == rack {
		return nil
	}
	original := node.DeepCopy()
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels[r.label] = rack
	if err := r.client.Patch(ctx, &node, client.MergeFrom(original)); err != nil {
		return fmt.Errorf("labeling node %s with rack %s: %w", node.Name, rack, err)
	}
	log.FromContext(ctx).Info("Labeled the node with its rack", "node", node.Name, "rack", rack)
	return nil
}

// rackOf returns the rack of mycloud://RACK/NAME, and nothing for another cloud's IDs.
func rackOf(providerID string) string {
	id, err := url.Parse(providerID)
	if err != nil || id.Scheme != "mycloud" {
		return ""
	}
	return id.Host
}

// healthy fails while nodes cannot be labeled.
func (r *reconciler) healthy(*http.Request) error {
	if failed := r.failed.Load(); failed != nil && *failed != nil {
		return errors.New("the last node could not be labeled")
	}
	return nil
}
