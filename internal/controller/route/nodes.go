package route

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// membersOf returns all nodes with their membership.
func membersOf(nodes []corev1.Node, owners ownership.Rules) []member {
	members := make([]member, 0, len(nodes))
	for i := range nodes {
		node := &nodes[i]
		members = append(members, member{
			node: node, membership: membershipOf(node, owners.Decide(node).Owner), shown: hasCondition(routedNode{node, true}),
		})
	}
	return members
}

// membershipOf decides by the owner of a node. A node without a provider ID may belong to another owner, unless it waits for its initialization. The
// initialization will show the owner.
func membershipOf(node *corev1.Node, owner ownership.Owner) membership {
	switch {
	case owner == ownership.Foreign:
		return others
	case owner == ownership.Ours:
		return ours
	case awaitsProviderID(node):
		return undecided
	default:
		return presumed
	}
}

// awaitsProviderID reports whether a node waits for its initialization, which will give it a provider ID.
func awaitsProviderID(node *corev1.Node) bool {
	return node.Spec.ProviderID == "" && ownership.Uninitialized(node)
}

// errCacheBehind says that the API server has nodes that the cache does not show.
var errCacheBehind = errors.New("the API server has the node, but the cache does not show it yet: its routes stay")

// confirmReads is how many questions are put to the API server at once.
const confirmReads = 16

// absenceCheck makes sure, before a route is removed because its node is gone, that the node is gone: the cache of a new leader
// may be filled from an API server that lags behind.
type absenceCheck struct {
	// live reads from the API server itself.
	live client.Reader
}

// doubtful returns the nodes to which the actions' old routes lead, and of which the cache shows none, but the API server does
// not agree that they are gone, and why. If the cache shows no nodes at all, the API server is asked whether that is so; if it
// does not agree, all of them are doubtful.
func (c absenceCheck) doubtful(ctx context.Context, known map[types.NodeName]target, actions []action) (map[types.NodeName]bool, error) {
	gone := map[types.NodeName]error{}
	for _, action := range actions {
		if action.old == nil {
			continue
		}
		if _, found := known[action.old.TargetNode]; !found {
			gone[action.old.TargetNode] = nil
		}
	}
	if len(gone) == 0 {
		return nil, nil
	}
	names := slices.Sorted(maps.Keys(gone))
	errs := make([]error, len(names))
	none := error(nil)
	if len(known) == 0 {
		none = c.confirmNone(ctx)
	}
	var group errgroup.Group
	group.SetLimit(confirmReads)
	for i, name := range names {
		errs[i] = none
		if none == nil && isNodeName(name) {
			group.Go(func() error {
				errs[i] = c.confirmGone(ctx, string(name))
				return nil
			})
		}
	}
	_ = group.Wait() // the errors are in errs: each has a node
	held := map[types.NodeName]bool{}
	for i, name := range names {
		if errs[i] != nil {
			held[name] = true
		}
	}
	if none != nil {
		return held, none
	}
	return held, errors.Join(errs...)
}

// isNodeName reports whether a node can have the name. A cloud may name targets as it likes.
func isNodeName(name types.NodeName) bool {
	return len(validation.IsDNS1123Subdomain(string(name))) == 0
}

// confirmNone returns an error unless the API server has no nodes.
func (c absenceCheck) confirmNone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := c.live.List(ctx, nodes, client.Limit(1)); err != nil {
		return fmt.Errorf("asking the API server whether there are no nodes at all: %w", err)
	}
	if len(nodes.Items) > 0 {
		return fmt.Errorf("node %q: %w", nodes.Items[0].Name, errCacheBehind)
	}
	return nil
}

// confirmGone returns an error unless the API server has no such node.
func (c absenceCheck) confirmGone(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	switch err := c.live.Get(ctx, client.ObjectKey{Name: name}, node); {
	case err == nil:
		return fmt.Errorf("node %q: %w", name, errCacheBehind)
	case kit.Gone(err, corev1.Resource("nodes"), name):
		return nil
	default:
		return fmt.Errorf("asking the API server whether node %q is gone: %w", name, err)
	}
}
