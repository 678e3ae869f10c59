package autoscaler_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/extensions/autoscaler/externalgrpc"
)

// driver plays the Cluster Autoscaler: what it calls, in which order, and what it makes of an error. It is written by the source of the autoscaler at
// commit f7bb0c3623 of github.com/kubernetes/autoscaler, folder cluster-autoscaler; files and functions are named where they are played.
type driver struct {
	t      *testing.T
	client externalgrpc.CloudProviderClient
	// groupOfNode is nodeGroupForNodeCache of cloudprovider/externalgrpc/externalgrpc_cloud_provider.go: it is dropped by Refresh only.
	groupOfNode map[string]string
}

// grpcTimeout is defaultGRPCTimeout of the same file.
const grpcTimeout = 5 * time.Second

// round is what one round of the autoscaler has learned.
type round struct {
	groups    map[string]*externalgrpc.NodeGroup
	targets   map[string]int
	instances map[string][]*externalgrpc.Instance
	templates map[string]*corev1.Node
}

// newDriver connects as newExternalGrpcCloudProviderClient does: once, with the name of the server from its address.
func newDriver(t *testing.T, address, ca string, client pair) *driver {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(client.certificate, client.key)
	must.NoError(t, err)
	content, err := os.ReadFile(ca)
	must.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(content)
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		ServerName: "127.0.0.1", Certificates: []tls.Certificate{certificate}, RootCAs: roots, MinVersion: tls.VersionTLS12,
	})))
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, connection.Close()) })
	return &driver{t: t, client: externalgrpc.NewCloudProviderClient(connection), groupOfNode: map[string]string{}}
}

// call makes one call with the deadline of the autoscaler.
func call[Q, A any](ctx context.Context, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, grpcTimeout)
	defer cancel()
	return method(ctx, request)
}

// runOnce is the part of RunOnce in core/static_autoscaler.go before it decides: an error of any call ends the round, but for the template's
// codes.Unimplemented.
func (d *driver) runOnce(ctx context.Context) (*round, error) {
	list, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{}) // obtainNodeLists
	if err != nil {
		return nil, err
	}
	// "Call CloudProvider.Refresh before any other calls to cloud provider."
	d.groupOfNode = map[string]string{}
	if _, err := call(ctx, d.client.Refresh, &externalgrpc.RefreshRequest{}); err != nil {
		return nil, fmt.Errorf("Refresh: %w", err)
	}
	groups, err := call(ctx, d.client.NodeGroups, &externalgrpc.NodeGroupsRequest{})
	if err != nil {
		return nil, fmt.Errorf("NodeGroups: %w", err)
	}
	r := &round{
		groups: map[string]*externalgrpc.NodeGroup{}, targets: map[string]int{}, instances: map[string][]*externalgrpc.Instance{}, templates: map[string]*corev1.Node{},
	}
	for _, group := range groups.GetNodeGroups() {
		r.groups[group.GetId()] = group
	}
	// Process in processors/nodeinfosprovider/mixed_nodeinfos_processor.go: the group of each node, and the template of each group.
	for i := range list.Items {
		if _, err := d.nodeGroupForNode(ctx, &list.Items[i]); err != nil {
			return nil, fmt.Errorf("NodeGroupForNode: %w", err)
		}
	}
	for id := range r.groups {
		if r.templates[id], err = d.template(ctx, id); err != nil {
			return nil, fmt.Errorf("NodeGroupTemplateNodeInfo of %s: %w", id, err)
		}
	}
	// UpdateNodes in clusterstate/clusterstate.go: getTargetSizes, then getCloudProviderNodeInstances.
	for id := range r.groups {
		size, err := call(ctx, d.client.NodeGroupTargetSize, &externalgrpc.NodeGroupTargetSizeRequest{Id: id})
		if err != nil {
			return nil, fmt.Errorf("NodeGroupTargetSize of %s: %w", id, err)
		}
		r.targets[id] = int(size.GetTargetSize())
	}
	for id := range r.groups {
		nodes, err := call(ctx, d.client.NodeGroupNodes, &externalgrpc.NodeGroupNodesRequest{Id: id})
		if err != nil {
			return nil, fmt.Errorf("NodeGroupNodes of %s: %w", id, err)
		}
		r.instances[id] = nodes.GetInstances()
	}
	// GetOptions, by way of MaxNodeProvisionTime for each group in updateIncorrectNodeGroupSizes.
	for id := range r.groups {
		_, err := call(ctx, d.client.NodeGroupGetOptions, &externalgrpc.NodeGroupAutoscalingOptionsRequest{Id: id, Defaults: &externalgrpc.NodeGroupAutoscalingOptions{}})
		if err != nil && status.Code(err) != codes.Unimplemented {
			return nil, fmt.Errorf("NodeGroupGetOptions of %s: %w", id, err)
		}
	}
	return r, nil
}

// round repeats runOnce, as the autoscaler does after an error.
func (d *driver) round(what string, problem func(*round) error) (r *round) {
	d.t.Helper()
	poll.Until(d.t, "a round of the autoscaler: "+what, func(ctx context.Context) (err error) {
		if r, err = d.runOnce(ctx); err != nil {
			return err
		}
		return problem(r)
	})
	return r
}

func (d *driver) nodeGroupForNode(ctx context.Context, node *corev1.Node) (string, error) {
	key := node.Name + node.Spec.ProviderID
	if id, cached := d.groupOfNode[key]; cached {
		return id, nil
	}
	answer, err := call(ctx, d.client.NodeGroupForNode, &externalgrpc.NodeGroupForNodeRequest{Node: grpcNode(node)})
	if err != nil {
		return "", err
	}
	id := answer.GetNodeGroup().GetId()
	if id != "" { // "do not cache this"
		d.groupOfNode[key] = id
	}
	return id, nil
}

func (d *driver) template(ctx context.Context, id string) (*corev1.Node, error) {
	answer, err := call(ctx, d.client.NodeGroupTemplateNodeInfo, &externalgrpc.NodeGroupTemplateNodeInfoRequest{Id: id})
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	node := &corev1.Node{}
	if err := node.Unmarshal(answer.GetNodeBytes()); err != nil {
		return nil, err
	}
	return node, nil
}

// scaleUp is IncreaseSize of externalgrpc_node_group.go.
func (d *driver) scaleUp(id string, delta int) error {
	_, err := call(d.t.Context(), d.client.NodeGroupIncreaseSize, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: id, Delta: int32(delta)})
	return err
}

// scaleDown taints nodes and deletes them: taintNodesSync in core/scaledown/actuation/actuator.go, then deleteNodesFromCloudProvider in
// delete_in_batch.go, which asks for the group of the first node only.
func (d *driver) scaleDown(names ...string) error {
	d.t.Helper()
	nodes := make([]*corev1.Node, len(names))
	for i, name := range names {
		nodes[i] = taint(d.t, name)
	}
	return d.deleteNodes(nodes...)
}

// deleteNodes is deleteNodesFromCloudProvider. After an error the taints are taken off again: CleanUpAndRecordFailedScaleDownEvent.
func (d *driver) deleteNodes(nodes ...*corev1.Node) error {
	d.t.Helper()
	id, err := d.nodeGroupForNode(d.t.Context(), nodes[0])
	if err != nil {
		return err
	}
	if id == "" {
		return errors.New("picked node that doesn't belong to a node group")
	}
	if err = d.deleteFrom(id, nodes...); err != nil {
		for _, node := range nodes {
			untaint(d.t, node.Name)
		}
	}
	return err
}

// deleteFrom is DeleteNodes of externalgrpc_node_group.go.
func (d *driver) deleteFrom(id string, nodes ...*corev1.Node) error {
	request := &externalgrpc.NodeGroupDeleteNodesRequest{Id: id}
	for _, node := range nodes {
		request.Nodes = append(request.Nodes, grpcNode(node))
	}
	_, err := call(d.t.Context(), d.client.NodeGroupDeleteNodes, request)
	return err
}

// grpcNode is externalGrpcNode of externalgrpc_cloud_provider.go.
func grpcNode(node *corev1.Node) *externalgrpc.ExternalGrpcNode {
	return &externalgrpc.ExternalGrpcNode{ProviderID: node.Spec.ProviderID, Name: node.Name, Labels: node.Labels, Annotations: node.Annotations}
}

// fakeNode is FakeNode of clusterstate/clusterstate.go: an instance whose node never registered.
func fakeNode(providerID string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: providerID}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

// persist makes a call that has to succeed, again as long as the cloud has not answered the manager in time: then nothing was done, and on a
// machine that is busy it may happen.
func (d *driver) persist(what string, do func() error) {
	d.t.Helper()
	must.NoError(d.t, answer(d.t, what, codes.Unavailable, do))
}

// answer makes a call and returns how it ended. It makes the call again as long as that ends with the code of a busy machine.
func answer(t *testing.T, what string, busy codes.Code, do func() error) (ended error) {
	t.Helper()
	poll.Until(t, what, func(context.Context) error {
		if ended = do(); status.Code(ended) == busy {
			return ended
		}
		return nil
	})
	return ended
}

// grow scales a group up, and shrink scales it down.
func (d *driver) grow(group string, delta int) {
	d.t.Helper()
	d.persist("increasing "+group, func() error { return d.scaleUp(group, delta) })
}

func (d *driver) shrink(names ...string) {
	d.t.Helper()
	d.persist(fmt.Sprintf("deleting %v", names), func() error { return d.scaleDown(names...) })
}
