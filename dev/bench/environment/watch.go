package environment

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/mooring-ccm/mooring/dev/harness"
)

// poll is how often what is watched is looked at, unless looking takes more than one part in pollShare of that: with thousands of nodes it
// would take the processor from the manager. Then it is rarer, but not than longestPoll. It is the resolution of all times.
const (
	poll        = 10 * time.Millisecond
	longestPoll = 100 * time.Millisecond
	pollShare   = 50
)

// watch is what the API server said of the objects of the cluster, up to date by watches.
type watch struct {
	nodes, services, leases cache.Store
	stop                    context.CancelFunc
	factories               []informers.SharedInformerFactory
}

func startWatch(ctx context.Context, client kubernetes.Interface) (*watch, error) {
	ctx, stop := context.WithCancel(ctx)
	all := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))
	system := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(metav1.NamespaceSystem))
	w := &watch{
		nodes:     all.Core().V1().Nodes().Informer().GetStore(),
		services:  all.Core().V1().Services().Informer().GetStore(),
		leases:    system.Coordination().V1().Leases().Informer().GetStore(),
		stop:      stop,
		factories: []informers.SharedInformerFactory{all, system},
	}
	for _, factory := range w.factories {
		factory.StartWithContext(ctx)
		if err := factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
			w.close()
			return nil, fmt.Errorf("watch the cluster: %w", err)
		}
	}
	return w, nil
}

func (w *watch) close() {
	w.stop()
	for _, factory := range w.factories {
		factory.Shutdown()
	}
}

// trim drops what the benchmark does not read.
func trim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	if node, ok := object.(*corev1.Node); ok {
		node.Status.NodeInfo = corev1.NodeSystemInfo{}
	}
	return object, nil
}

// countNodes returns how many nodes meet a condition.
func (w *watch) countNodes(meets func(*corev1.Node) bool) int {
	count := 0
	for _, object := range w.nodes.List() {
		if meets(object.(*corev1.Node)) {
			count++
		}
	}
	return count
}

// countServices returns how many Services meet a condition.
func (w *watch) countServices(meets func(*corev1.Service) bool) int {
	count := 0
	for _, object := range w.services.List() {
		if service := object.(*corev1.Service); isBenchmark(service) && meets(service) {
			count++
		}
	}
	return count
}

// leader returns the identity that holds the lease, or an empty string if no replica does.
func (w *watch) leader() string {
	object, found, err := w.leases.GetByKey(harness.Namespace + "/" + harness.Lease)
	if err != nil || !found {
		return ""
	}
	holder := object.(*coordinationv1.Lease).Spec.HolderIdentity
	if holder == nil {
		return ""
	}
	return *holder
}

// await polls until count reaches want, ctx ends or a problem comes up, and reports how far it is. The pauses grow with the time that
// counting takes, which apimachinery's wait does not offer: a fixed interval would take processor time from what is measured.
func await(ctx context.Context, count func() int, want int, report func(done int), problem func() error) error {
	for {
		began := time.Now()
		done := count()
		pause := min(max(poll, pollShare*time.Since(began)), longestPoll)
		report(done)
		if done >= want {
			return nil
		}
		if err := problem(); err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
