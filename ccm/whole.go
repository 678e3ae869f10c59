package ccm

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

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
