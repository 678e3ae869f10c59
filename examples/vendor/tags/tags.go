// Package tags is a controller as vendors write them for the reference: with informers and a queue of client-go, and for one provider,
// whose concrete type it needs. Controller is all that this manager adds.
package tags

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/ccm"

	"example.com/mycloud-ccm/mycloud"
)

// Name is the controller's name in --controllers.
const Name = "tagging-controller"

// Controller returns the entry for ccm.WithController. It runs if --controllers names it.
func Controller() ccm.Controller {
	return ccm.Controller{
		Name:              Name,
		Aliases:           []string{"tagging"},
		DisabledByDefault: true,
		Grants:            []ccm.Grant{{Resource: "nodes", Verbs: []string{"get", "list", "watch"}}},
		New: func(_ context.Context, environment ccm.Environment) (manager.Runnable, error) {
			cloud, err := environment.Provider() // under --dry-run an error, by which the controller is left out
			if err != nil {
				return nil, err
			}
			tagger, err := New(environment.Informers.Core().V1().Nodes(), cloud)
			if err != nil {
				return nil, err
			}
			return manager.RunnableFunc(tagger.Run), nil
		},
	}
}

// Tagger tags the instance of each node.
type Tagger struct {
	nodes coreinformers.NodeInformer
	cloud *mycloud.Cloud
	queue workqueue.TypedRateLimitingInterface[string]
}

// New returns a tagger, which works for this cloud only.
func New(nodes coreinformers.NodeInformer, cloud cloudprovider.Interface) (*Tagger, error) {
	mine, ok := cloud.(*mycloud.Cloud)
	if !ok {
		return nil, fmt.Errorf("tags are for provider %s, not for %s (%T)", mycloud.ProviderName, cloud.ProviderName(), cloud)
	}
	t := &Tagger{nodes: nodes, cloud: mine, queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())}
	_, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
				t.queue.Add(key)
			}
		},
	})
	return t, err
}

// Run works until the context ends.
func (t *Tagger) Run(ctx context.Context) error {
	defer t.queue.ShutDown()
	if !cache.WaitForNamedCacheSync(Name, ctx.Done(), t.nodes.Informer().HasSynced) {
		return nil // the process ends
	}
	context.AfterFunc(ctx, t.queue.ShutDown)
	for t.next(ctx) {
	}
	return nil
}

// next works on one node, and returns false when the queue is shut down.
func (t *Tagger) next(ctx context.Context) bool {
	name, shutdown := t.queue.Get()
	if shutdown {
		return false
	}
	defer t.queue.Done(name)
	if err := t.tag(ctx, name); err != nil {
		klog.FromContext(ctx).Error(err, "Tagging failed", "node", name)
		t.queue.AddRateLimited(name)
		return true
	}
	t.queue.Forget(name)
	return true
}

func (t *Tagger) tag(ctx context.Context, name string) error {
	node, err := t.nodes.Lister().Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	count, err := t.cloud.Tag(ctx, node, "cluster-member")
	if err == nil {
		klog.FromContext(ctx).Info("Tagged the instance", "node", name, "nodes", count)
	}
	return err
}
