package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/extensions/autoscaler/deletion"
	"github.com/mooring-ccm/mooring/extensions/autoscaler/externalgrpc"
	"github.com/mooring-ccm/mooring/extensions/nodegroups"
	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// maxNodes is how many nodes one call may name.
	maxNodes = 500
	// parallel is how many requests to the API server one call makes at once.
	parallel = 8
	// pageSize is how many nodes a page of a complete list has.
	pageSize = 500
	// takeBackTimeout is how long it may take to take intents back.
	takeBackTimeout = 10 * time.Second
)

// NodeGroupDeleteNodes has the instances of nodes deleted. It writes on each Node what is to become of it, and the controller goes on from there;
// an instance whose node never registered is deleted at once. All of it is done or nothing.
func (s *service) NodeGroupDeleteNodes(ctx context.Context, request *externalgrpc.NodeGroupDeleteNodesRequest) (*externalgrpc.NodeGroupDeleteNodesResponse, error) {
	id := request.GetId()
	asked, problems := askedFor(request)
	if len(problems) > 0 {
		return nil, invalid(problems)
	}
	tried := fmt.Sprintf("deleting nodes of the group %q", id)
	unlock, err := s.group(ctx, id)
	if err != nil {
		return nil, failure(tried, err)
	}
	defer unlock()
	facts, err := s.facts(ctx, id, asked)
	if err != nil {
		return nil, failure(tried, err)
	}
	plan, violations := deletion.Check(asked, facts)
	if len(violations) > 0 {
		return nil, refused(tried, violations)
	}
	if err := s.apply(ctx, id, plan); err != nil {
		return nil, failure(tried, err)
	}
	s.metrics.marked.Add(float64(len(plan.Mark) + len(plan.Delete)))
	return &externalgrpc.NodeGroupDeleteNodesResponse{}, nil
}

// askedFor returns the nodes of a request, or what is wrong with it.
func askedFor(request *externalgrpc.NodeGroupDeleteNodesRequest) (asked []deletion.Asked, problems []error) {
	nodes := request.GetNodes()
	if len(nodes) == 0 || len(nodes) > maxNodes {
		return nil, []error{fmt.Errorf("it names %d nodes, and must name 1 to %d", len(nodes), maxNodes)}
	}
	for i, node := range nodes {
		if node.GetName() == "" || node.GetProviderID() == "" {
			problems = append(problems, fmt.Errorf("nodes[%d] has the name %q and the provider ID %q: both are needed", i, node.GetName(), node.GetProviderID()))
		}
		asked = append(asked, deletion.Asked{Name: node.GetName(), ProviderID: node.GetProviderID()})
	}
	return asked, problems
}

// refused is the error of a request that violates preconditions.
func refused(tried string, violations []deletion.Violation) error {
	texts := make([]string, len(violations))
	for i, violation := range violations {
		texts[i] = violation.Error()
	}
	return status.Error(codes.FailedPrecondition, message.Line(fmt.Sprintf("%s: nothing is deleted: %s", tried, strings.Join(texts, "; ")), mostText))
}

// facts looks at what a request is about: the group as the cloud has it now, and the nodes as the API server has them.
func (s *service) facts(ctx context.Context, id string, asked []deletion.Asked) (deletion.Facts, error) {
	known, err := s.observer.latest(ctx, id)
	if err != nil {
		return deletion.Facts{}, err
	}
	facts := deletion.Facts{Group: known.group, Status: known.status, Ours: s.ours, GroupOf: s.observer.groupOf}
	if facts.Pending, err = s.pending.of(ctx, id); err != nil {
		return deletion.Facts{}, err
	}
	if facts.Nodes, err = s.nodes(ctx, asked); err != nil {
		return deletion.Facts{}, err
	}
	facts.Holders, err = s.holders(ctx, asked, func(one deletion.Asked) bool {
		return facts.Nodes[one.Name] == nil && slices.ContainsFunc(known.status.Instances, func(instance provider.NodeGroupInstance) bool {
			return instance.ProviderID == one.ProviderID && instance.State != provider.NodeGroupInstanceDeleting
		})
	})
	return facts, err
}

// nodes reads the nodes of a request from the API server, by name. Missing ones are left out.
func (s *service) nodes(ctx context.Context, asked []deletion.Asked) (map[string]*corev1.Node, error) {
	var mu sync.Mutex
	found := map[string]*corev1.Node{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, one := range asked {
		if len(validation.IsDNS1123Subdomain(one.Name)) > 0 {
			continue // no node has such a name
		}
		group.Go(func() error {
			node := &corev1.Node{}
			err := s.live.Get(ctx, client.ObjectKey{Name: one.Name}, node)
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return fmt.Errorf("reading node %q: %w", message.Line(one.Name, mostText), err)
			}
			mu.Lock()
			defer mu.Unlock()
			found[one.Name] = node
			return nil
		})
	}
	return found, group.Wait()
}

// holders returns which nodes have the provider IDs of a request: by the cache, and if an instance without a node is to be deleted by a complete
// list of the API server, since its node may have registered a moment ago.
func (s *service) holders(ctx context.Context, asked []deletion.Asked, withoutNode func(deletion.Asked) bool) (map[string][]string, error) {
	holders, bare := map[string][]string{}, false
	for _, one := range asked {
		names, err := deletion.Holders(ctx, s.cached, one.ProviderID)
		if err != nil {
			return nil, err
		}
		holders[one.ProviderID] = names
		bare = bare || withoutNode(one)
	}
	if !bare {
		return holders, nil
	}
	wanted := holders
	holders = map[string][]string{}
	pages := pager.ListPager{PageSize: pageSize, PageFn: func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		list := &corev1.NodeList{}
		return list, s.live.List(ctx, list, &client.ListOptions{Limit: page.Limit, Continue: page.Continue})
	}}
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		node := object.(*corev1.Node)
		if _, found := wanted[node.Spec.ProviderID]; found {
			holders[node.Spec.ProviderID] = append(holders[node.Spec.ProviderID], node.Name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing all nodes: %w", err)
	}
	return holders, nil
}

// apply carries a plan out. What it has written it takes back if it cannot write all.
func (s *service) apply(ctx context.Context, group string, plan deletion.Plan) error {
	written, err := s.mark(ctx, group, plan.Mark)
	if err == nil && len(plan.Delete) > 0 {
		s.log.Info("Deleting instances that have no nodes", "nodeGroup", group, "providerIDs", plan.Delete)
		err = s.observer.beside(ctx, "deleting instances", func(ctx context.Context) error {
			return s.groups.DeleteNodeGroupInstances(ctx, group, plan.Delete)
		}, func(err error) {
			if err != nil {
				s.observer.lower(group, 0)
				s.log.Error(err, "Could not delete instances that have no nodes", "nodeGroup", group, "providerIDs", plan.Delete)
				return
			}
			s.observer.lower(group, 0, plan.Delete...)
		})
	}
	if err != nil {
		return errors.Join(err, s.takeBack(context.WithoutCancel(ctx), written))
	}
	return nil
}

// mark writes the intent on nodes, and returns those on which it was written, as they are now.
func (s *service) mark(ctx context.Context, group string, nodes []*corev1.Node) (written []*corev1.Node, err error) {
	var mu sync.Mutex
	var writes errgroup.Group
	writes.SetLimit(parallel)
	for _, node := range nodes {
		writes.Go(func() error {
			intent := deletion.Intent{Group: group, ProviderID: node.Spec.ProviderID, At: time.Now().UTC()}
			patch, err := deletion.Begin(node, intent, s.pending.sealer)
			if err != nil {
				return err
			}
			marked, err := s.patch(ctx, node, patch)
			if err != nil {
				return fmt.Errorf("writing on node %q that its instance is to be deleted: %w", node.Name, err)
			}
			s.pending.wrote(group, marked)
			s.log.Info("The autoscaler wants an instance deleted", "node", node.Name, "providerID", node.Spec.ProviderID, "nodeGroup", group)
			mu.Lock()
			defer mu.Unlock()
			written = append(written, marked)
			return nil
		})
	}
	return written, writes.Wait()
}

// takeBack takes intents back that were written for a request of which not all can be done.
func (s *service) takeBack(ctx context.Context, nodes []*corev1.Node) error {
	ctx, cancel := context.WithTimeout(ctx, takeBackTimeout)
	defer cancel()
	var failed []error
	for _, node := range nodes {
		if _, err := s.patch(ctx, node, deletion.Cancel(node)); err != nil {
			failed = append(failed, fmt.Errorf("node %q is still to be deleted: taking that back: %w", node.Name, err))
			continue
		}
		s.pending.tookBack(node)
	}
	return errors.Join(failed...)
}

// patch writes to a node and returns it as it is then.
func (s *service) patch(ctx context.Context, node *corev1.Node, patch client.Patch) (*corev1.Node, error) {
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID}}
	err := s.writer.Patch(ctx, target, patch, client.FieldOwner(nodegroups.Name))
	return target, err
}
