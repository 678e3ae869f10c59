package ccm

import (
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// cacheOptions say what the manager's cache holds: what is watched or read, without fields that are not read. Nothing is
// watched before that.
//
// Whatever is left out here must not be lost on the server: writes are patches that name what they change. Only an object that is known whole may
// be updated, see wholeNodes.
//
// See ADR 4.
func (c *config) cacheOptions() (cache.Options, error) {
	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: trimNode}},
		// A resync hands every object out again that has not changed. The controllers compare with the cloud on their own, by what
		// they have observed.
		SyncPeriod: ptr.To(time.Duration(0)),
	}
	restricted := sets.New(reflect.TypeFor[*corev1.Node]())
	for _, controller := range c.enabled {
		for object, selector := range controller.Cached {
			kind := reflect.TypeOf(object)
			if restricted.Has(kind) {
				return options, fmt.Errorf("controller %s restricts what is cached of %s, which others need", controller.Name, kind)
			}
			restricted.Insert(kind)
			options.ByObject[object] = cache.ByObject{Field: selector}
		}
	}
	return options, nil
}

// trimNode leaves out of a Node what neither controllers nor plugins are concerned with: the larger part of it, which grows with
// what runs on the node. Annotations and labels stay, all of them, because patches test what is there. A node that waits for its initialization
// stays whole until it is initialized.
func trimNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil // the last word about an object that the watch has lost sight of
	}
	node.ManagedFields = nil
	if isKeptWhole(node) {
		return node, nil
	}
	node.Status.Images = nil
	node.Status.VolumesInUse, node.Status.VolumesAttached = nil, nil
	node.Status.Config = nil
	node.Status.RuntimeHandlers = nil
	node.Status.Features, node.Status.DeclaredFeatures = nil, nil
	return node, nil
}

// isKeptWhole reports whether trimNode leaves a node as it is, but for managedFields: an update without them does not change them.
func isKeptWhole(node *corev1.Node) bool { return ownership.Uninitialized(node) }
