package metal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce"
	"github.com/mooring-ccm/mooring/providers/metal/lb/bgp"
)

// routes are the ranges of pod addresses that are announced to routers. They follow from the nodes, on every replica alike: what the route
// controller asks for is not an order but a question, whether it is so yet.
type routes struct{ cloud *Cloud }

var _ cloudprovider.Routes = &routes{}

// announceTimeout is how long a call waits for what is announced to follow from what the API server shows.
const announceTimeout = 5 * time.Second

var (
	// errNotAnnouncing says that nothing was announced yet.
	errNotAnnouncing = errors.New("the routes to announce are not computed yet: nodes and Services are being listed, or probed for the first time")
	// errNoSession says that no router has a session.
	errNoSession = errors.New("the route is announced to no router")
)

// ListRoutes returns the ranges that are announced. It is an error before all are known.
func (r *routes) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	snapshot, err := r.snapshot()
	if err != nil {
		return nil, err
	}
	var listed []*cloudprovider.Route
	for name, state := range snapshot.Nodes {
		for _, cidr := range state.PodCIDRs {
			listed = append(listed, &cloudprovider.Route{
				Name: name + "/" + cidr.String(), TargetNode: types.NodeName(name), DestinationCIDR: cidr.String(),
			})
		}
	}
	return listed, nil
}

// snapshot returns what is announced, once something is.
func (r *routes) snapshot() (announce.Snapshot, error) {
	running := r.cloud.running()
	if running == nil {
		return announce.Snapshot{}, errNotAnnouncing
	}
	snapshot := running.announcer.Snapshot()
	if !snapshot.Complete {
		return announce.Snapshot{}, errNotAnnouncing
	}
	return snapshot, nil
}

// CreateRoute returns once the range is announced to a router. Its error says why it is not.
func (r *routes) CreateRoute(ctx context.Context, _, _ string, route *cloudprovider.Route) error {
	return r.await(ctx, route, func(snapshot announce.Snapshot, cidr netip.Prefix) error {
		state := snapshot.Nodes[string(route.TargetNode)]
		if slices.Contains(state.PodCIDRs, cidr) {
			return r.sessionProblem(cidr)
		}
		for _, problem := range state.PodProblems {
			if problem.CIDR == cidr {
				return fmt.Errorf("%s is not announced for node %s: %s", cidr, route.TargetNode, problem.Message())
			}
		}
		return fmt.Errorf("%s is not announced for node %s yet", cidr, route.TargetNode)
	})
}

// DeleteRoute returns once the range is no longer announced for the node.
func (r *routes) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	return r.await(ctx, route, func(snapshot announce.Snapshot, cidr netip.Prefix) error {
		if slices.Contains(snapshot.Nodes[string(route.TargetNode)].PodCIDRs, cidr) {
			return fmt.Errorf("%s is announced because node %s has it as a pod CIDR", cidr, route.TargetNode)
		}
		return nil
	})
}

// sessionProblem returns an error while no session of this replica carries the family of a range of pod addresses. Of routers that
// only other replicas have sessions with it does not know, and takes the range for announced there.
func (r *routes) sessionProblem(cidr netip.Prefix) error {
	family := config.IPv6
	if cidr.Addr().Is4() {
		family = config.IPv4
	}
	if slices.ContainsFunc(r.cloud.running().speaker.Elsewhere(), func(other bgp.OtherPeer) bool {
		return slices.Contains(other.Families, family)
	}) {
		return nil
	}
	var down []string
	for _, peer := range r.cloud.running().speaker.Sessions() {
		why, wanted := peer.Delivery(family)
		switch {
		case wanted && why == "":
			return nil
		case wanted && !peer.Up():
			down = append(down, fmt.Sprintf("%s: %s", peer.Name, cmp.Or(peer.LastError, peer.State)))
		case wanted:
			down = append(down, peer.Name+" "+why.Words())
		}
	}
	if len(down) == 0 {
		return fmt.Errorf("%w: none is configured for %s", errNoSession, family)
	}
	return fmt.Errorf("%w: %s", errNoSession, strings.Join(down, "; "))
}

// await looks again with each change of what is announced, and returns the last problem when that takes too long.
func (r *routes) await(ctx context.Context, route *cloudprovider.Route, problem func(announce.Snapshot, netip.Prefix) error) error {
	cidr, err := netip.ParsePrefix(route.DestinationCIDR)
	if err != nil {
		return fmt.Errorf("the destination of the route: %w", err)
	}
	running := r.cloud.running()
	if running == nil {
		return errNotAnnouncing
	}
	changed, cancel := running.announcer.Subscribe()
	defer cancel()
	late := time.NewTimer(announceTimeout)
	defer late.Stop()
	sessions := time.NewTicker(announceTimeout / 20)
	defer sessions.Stop()
	for {
		snapshot, found := r.snapshot()
		if found == nil {
			found = problem(snapshot, cidr.Masked())
		}
		if found == nil {
			return nil
		}
		select {
		case <-changed:
		case <-sessions.C:
		case <-late.C:
			return found
		case <-ctx.Done():
			return errors.Join(found, ctx.Err())
		}
	}
}
