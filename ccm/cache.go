package ccm

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
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

// wholeNodes says which nodes the cache holds whole, so an update of them loses nothing: the ones that trimNode leaves as they are, and
// only while the API server has no fields that the libraries of this program do not know. An update would take such a field off the node.
//
// See ADR 13.
type wholeNodes struct {
	server discovery.ServerVersionInterface
	// libraries is the version of Kubernetes that our libraries are of.
	libraries string
	// known says that the API server is not newer than our libraries.
	known atomic.Bool
}

// holds reports whether the cache holds a node whole.
func (w *wholeNodes) holds(node *corev1.Node) bool { return w.known.Load() && isKeptWhole(node) }

// Start compares the versions of the API server and the libraries, again and again, until ctx ends. How often does not matter: a field that a
// version of Kubernetes brings is off by default in that one, so nothing is in it until long after an upgrade.
func (w *wholeNodes) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, w.compare, kit.EventInterval)
	return nil
}

func (w *wholeNodes) compare(ctx context.Context) {
	newer, err := newerThan(w.server, w.libraries)
	if err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Info("Could not compare the API server's version with the version of the client libraries; nodes are patched instead of updated",
			"reason", err.Error())
	}
	w.known.Store(err == nil && !newer)
}

// newerThan reports whether an API server is of a later minor version than libraries.
func newerThan(server discovery.ServerVersionInterface, libraries string) (bool, error) {
	info, err := server.ServerVersion()
	if err != nil {
		return false, fmt.Errorf("asking the API server for its version: %w", err)
	}
	theirs, err := utilversion.ParseGeneric(info.GitVersion)
	if err != nil {
		return false, fmt.Errorf("the API server's version %q: %w", info.GitVersion, err)
	}
	ours, err := utilversion.ParseGeneric(libraries)
	if err != nil {
		return false, fmt.Errorf("the libraries' version %q: %w", libraries, err)
	}
	return theirs.Major() > ours.Major() || theirs.Major() == ours.Major() && theirs.Minor() > ours.Minor(), nil
}
