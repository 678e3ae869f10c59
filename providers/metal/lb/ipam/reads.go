package ipam

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
)

// eachService reads all Services from the API server, and not from a cache of it.
func (a *Allocator) eachService(ctx context.Context, yield func(*corev1.Service)) error {
	services := pager.ListPager{PageSize: servicesPerPage, PageFn: func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		return a.sources.Client.CoreV1().Services(metav1.NamespaceAll).List(ctx, page)
	}}
	// Without a resource version: as of now.
	err := services.EachListItem(ctx, metav1.ListOptions{}, func(service runtime.Object) error {
		yield(service.(*corev1.Service))
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing services: %w", err)
	}
	return nil
}

// live reads one Service from the API server. It is nil if that Service, and not merely one of its name, is gone. A list by name
// takes no right that the watch does not take.
func (a *Allocator) live(ctx context.Context, key types.NamespacedName, uid types.UID) (*corev1.Service, error) {
	page, err := a.sources.Client.CoreV1().Services(key.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("reading service %s: %w", key, err)
	}
	for i := range page.Items {
		if page.Items[i].UID == uid {
			return &page.Items[i], nil
		}
	}
	return nil, nil
}

// labelsOf returns the labels of a namespace, if any pool selects namespaces by them.
func (a *Allocator) labelsOf(ctx context.Context, namespace string) (labels.Set, error) {
	a.mu.Lock()
	needed := a.pools.Load().SelectsNamespaces()
	known, found := a.namespaces[namespace]
	a.mu.Unlock()
	if !needed || found && time.Since(known.at) < namespaceLasts {
		return known.labels, nil
	}
	read, err := a.sources.Client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the labels of namespace %s, by which a pool is chosen: %w", namespace, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.namespaces[namespace] = labeled{read.Labels, time.Now()}
	return read.Labels, nil
}

// refresh brings what is known of a Service up to date with the API server.
func (a *Allocator) refresh(ctx context.Context, known *allocations, key types.NamespacedName, uid types.UID) error {
	service, err := a.live(ctx, key, uid)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if service == nil {
		known.forget(uid)
		delete(a.waiting, uid)
	} else {
		known.observe(service, false)
	}
	return nil
}

// checkUnwatched asks the API server about the Services that the watch has not shown. Most are about to be; one that was gone before the
// watch could see it is never, and would keep its address.
func (a *Allocator) checkUnwatched(ctx context.Context, known *allocations) {
	a.mu.Lock()
	hidden := map[types.UID]types.NamespacedName{}
	for uid, e := range known.entries {
		if !e.watched {
			hidden[uid] = e.holder.Service
		}
	}
	a.mu.Unlock()
	for uid, key := range hidden {
		if err := a.refresh(ctx, known, key, uid); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Could not find out whether a Service still exists", "service", key.String())
		}
	}
	a.markChanged()
}
