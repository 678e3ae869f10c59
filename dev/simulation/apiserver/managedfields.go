package apiserver

import (
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// converter is shared by all servers: it takes a second to parse the schema. It starts no goroutine.
var converter = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })

// managers keep who owns which field, as the API server's own code does.
type managers struct {
	byKind map[string]*managedfields.FieldManager
}

func newManagers() *managers { return &managers{byKind: map[string]*managedfields.FieldManager{}} }

func (m *managers) of(resource *resource, subresource string) (*managedfields.FieldManager, error) {
	key := resource.GroupVersionKind.String() + "/" + subresource
	if known, ok := m.byKind[key]; ok {
		return known, nil
	}
	reset := &fieldpath.Set{}
	for _, dotted := range resource.rules.reset[subresource] {
		var path []any
		for _, name := range strings.Split(dotted, ".") {
			path = append(path, name)
		}
		reset.Insert(fieldpath.MakePathOrDie(path...))
	}
	filters := fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(resource.GroupVersion().String()): reset})
	manager, err := managedfields.NewDefaultFieldManager(converter(), scheme.Scheme, scheme.Scheme, scheme.Scheme, resource.GroupVersionKind,
		resource.GroupVersion(), subresource, filters)
	if err != nil {
		return nil, fmt.Errorf("keep the managers of %s: %w", key, err)
	}
	m.byKind[key] = manager
	return manager, nil
}

// own notes in managedFields what a write changes, in the version of the API that the request uses.
func (s *Server) own(c *call, before, after runtime.Object) error {
	if s.options.WithoutManagedFields {
		mustMeta(after).SetManagedFields(nil)
		return nil
	}
	manager, err := s.managers.of(c.resource, c.Subresource)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	before = served(c.resource, before.DeepCopyObject()) // the library changes it
	before.GetObjectKind().SetGroupVersionKind(c.resource.GroupVersionKind)
	owned := manager.UpdateNoErrors(before, served(c.resource, after), c.manager())
	mustMeta(after).SetManagedFields(mustMeta(owned).GetManagedFields())
	return nil
}

// keepTimes puts back the times of managers if nothing else changed. Then the write changes nothing.
func keepTimes(object, before runtime.Object) {
	after, old := mustMeta(object).GetManagedFields(), mustMeta(before).GetManagedFields()
	if len(after) != len(old) {
		return
	}
	kept := make([]metav1.ManagedFieldsEntry, len(after))
	for i := range after {
		kept[i] = after[i]
		kept[i].Time = old[i].Time
	}
	mustMeta(object).SetManagedFields(kept)
	if !equality.Semantic.DeepEqual(object, before) {
		mustMeta(object).SetManagedFields(after)
	}
}
