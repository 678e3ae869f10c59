package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-ccm/mooring/extensions/autoscaler/deletion"
	"github.com/mooring-ccm/mooring/extensions/autoscaler/externalgrpc"
	"github.com/mooring-ccm/mooring/provider"
)

// indexed is a builder that takes the indexes of a cache.
type indexed struct{ *fake.ClientBuilder }

func (i indexed) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(object, field, extract)
	return nil
}

// cluster is a cluster of nodes.
func cluster(t testing.TB, funcs interceptor.Funcs, nodes ...*corev1.Node) client.WithWatch {
	t.Helper()
	builder := fake.NewClientBuilder().WithInterceptorFuncs(funcs)
	if err := deletion.AddIndexes(context.Background(), indexed{builder}); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		builder.WithObjects(node.DeepCopy())
	}
	return builder.Build()
}

func node(name string, tainted bool) *corev1.Node {
	made := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}, Spec: corev1.NodeSpec{ProviderID: "x://" + name}}
	if tainted {
		made.Spec.Taints = []corev1.Taint{{Key: deletion.Taint, Effect: corev1.TaintEffectNoSchedule}}
	}
	return made
}

// serving is a service for groups and nodes.
func serving(t testing.TB, groups provider.NodeGroups, nodes client.Client) *service {
	t.Helper()
	o := newObserver(groups, newMetrics(nil), logr.Discard())
	o.begin(context.Background())
	return &service{
		groups: groups, observer: o, pending: newPending(nodes, func(text string) string { return "sealed " + text }), cached: nodes, live: nodes, writer: nodes,
		ours: func(*corev1.Node) bool { return true }, metrics: newMetrics(nil), log: logr.Discard(),
	}
}

// TestIncreaseHangs has an increase take longer than the autoscaler waits. It is made once, shown as if it had been made, and when it has failed
// shown as it is.
func TestIncreaseHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups := newFakeGroups("g")
		s := serving(t, groups, cluster(t, interceptor.Funcs{}))
		known := func() int32 {
			t.Helper()
			answer, err := s.NodeGroupTargetSize(t.Context(), &externalgrpc.NodeGroupTargetSizeRequest{Id: "g"})
			if err != nil {
				t.Fatal(err)
			}
			return answer.GetTargetSize()
		}
		size := func() int32 {
			t.Helper()
			if err := s.observer.refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			return known()
		}
		increase := func() codes.Code {
			ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
			defer cancel()
			_, err := s.NodeGroupIncreaseSize(ctx, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: "g", Delta: 2})
			return status.Code(err)
		}
		if got := size(); got != 2 {
			t.Fatalf("the size is %d", got)
		}
		stuck := make(chan struct{})
		begun := make(chan codes.Code)
		groupsHang := &hangingIncrease{fakeGroups: groups, stuck: stuck}
		s.groups = groupsHang
		go func() { begun <- increase() }()
		synctest.Wait()
		if got := size(); got != 4 {
			t.Errorf("while it is under way the size is %d", got)
		}
		if code := <-begun; code != codes.DeadlineExceeded {
			t.Errorf("it ended with %s", code)
		}
		if code := increase(); code != codes.FailedPrecondition { // 4 and 2 more is above the maximum
			t.Errorf("another one ended with %s", code)
		}
		if got := groups.count("increase"); got != 1 {
			t.Errorf("it was asked for %d times", got)
		}
		groupsHang.err = errors.New("no")
		close(stuck)
		synctest.Wait()
		if got := known(); got != 2 {
			t.Errorf("before the next look after it has failed the size is %d", got)
		}
		if got := size(); got != 2 {
			t.Errorf("after it has failed the size is %d", got)
		}
	})
}

type hangingIncrease struct {
	*fakeGroups
	stuck chan struct{}
	err   error
}

func (h *hangingIncrease) IncreaseNodeGroup(context.Context, string, int) error {
	h.set(func() { h.calls["increase"]++ })
	<-h.stuck
	return h.err
}

// TestNothingHalf has the second of two nodes change while the first is written: what was written is taken back.
func TestNothingHalf(t *testing.T) {
	groups := newFakeGroups("g")
	groups.status = provider.NodeGroupStatus{TargetSize: 4, Instances: []provider.NodeGroupInstance{{ProviderID: "x://a"}, {ProviderID: "x://b"}}}
	nodes := cluster(t, interceptor.Funcs{Patch: func(ctx context.Context, inner client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
		if object.GetName() == "b" {
			return errors.New("the API server is away")
		}
		return inner.Patch(ctx, object, patch, options...)
	}}, node("a", true), node("b", true))
	s := serving(t, groups, nodes)
	if err := s.observer.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := s.NodeGroupDeleteNodes(t.Context(), &externalgrpc.NodeGroupDeleteNodesRequest{Id: "g", Nodes: []*externalgrpc.ExternalGrpcNode{
		{Name: "a", ProviderID: "x://a"}, {Name: "b", ProviderID: "x://b"},
	}})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "the API server is away") {
		t.Errorf("the error is %v", err)
	}
	var a corev1.Node
	if err := nodes.Get(t.Context(), client.ObjectKey{Name: "a"}, &a); err != nil || len(a.Annotations)+len(a.Labels) > 0 {
		t.Errorf("a is left with %v %v: %v", a.Labels, a.Annotations, err)
	}
	size, err := s.NodeGroupTargetSize(t.Context(), &externalgrpc.NodeGroupTargetSizeRequest{Id: "g"})
	if err != nil || size.GetTargetSize() != 4 {
		t.Errorf("the size is %v: %v", size, err)
	}
}

// TestTemplateThatFails is no error of the round: the autoscaler takes UNIMPLEMENTED for a group of which it is not known.
func TestTemplateThatFails(t *testing.T) {
	groups := newFakeGroups("g")
	groups.template = errors.New("no such machine type")
	s := serving(t, groups, cluster(t, interceptor.Funcs{}))
	_, err := s.NodeGroupTemplateNodeInfo(t.Context(), &externalgrpc.NodeGroupTemplateNodeInfoRequest{Id: "g"})
	if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "no such machine type") {
		t.Errorf("the error is %v", err)
	}
}

// TestCodes tells a change that was not begun from one that may have been made in part.
func TestCodes(t *testing.T) {
	groups := newFakeGroups("g")
	s := serving(t, groups, cluster(t, interceptor.Funcs{}))
	for _, c := range []struct {
		err  error
		code codes.Code
	}{
		{errors.New("no"), codes.Internal}, {provider.ErrNodeGroupSize, codes.FailedPrecondition}, {provider.Throttled(0, errors.New("slow")), codes.ResourceExhausted},
		{provider.Terminal(errors.New("never")), codes.Internal},
	} {
		groups.set(func() { delete(groups.fail, "g") })
		if err := s.observer.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.groups = &failingIncrease{groups, c.err}
		if _, err := s.NodeGroupIncreaseSize(t.Context(), &externalgrpc.NodeGroupIncreaseSizeRequest{Id: "g", Delta: 1}); status.Code(err) != c.code {
			t.Errorf("%v is %v", c.err, err)
		}
		groups.set(func() { groups.fail["g"] = c.err })
		_, err := s.NodeGroupIncreaseSize(t.Context(), &externalgrpc.NodeGroupIncreaseSizeRequest{Id: "g", Delta: 1})
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%v of the look before is %v", c.err, err)
		}
	}
}

type failingIncrease struct {
	*fakeGroups
	err error
}

func (f *failingIncrease) IncreaseNodeGroup(context.Context, string, int) error { return f.err }

// TestTranslation of instances, their errors and options.
func TestTranslation(t *testing.T) {
	instances := instancesOf(provider.NodeGroupStatus{Instances: []provider.NodeGroupInstance{
		{ProviderID: "x://running", State: provider.NodeGroupInstanceRunning},
		{ProviderID: "x://waits", State: provider.NodeGroupInstanceRunning, Error: &provider.NodeGroupInstanceError{Code: "c"}},
		{ProviderID: "x://quota", State: provider.NodeGroupInstanceCreating, Error: &provider.NodeGroupInstanceError{OutOfResources: true, Code: "quota", Message: "two\nlines"}},
		{ProviderID: "x://other", State: provider.NodeGroupInstanceCreating, Error: &provider.NodeGroupInstanceError{}},
		{ProviderID: "x://unknown"}, {},
	}}, map[string]types.NodeName{"x://waits": "waits"})
	var got []string
	for _, i := range instances {
		info := i.GetStatus().GetErrorInfo()
		got = append(got, fmt.Sprint(i.GetId(), " ", i.GetStatus().GetInstanceState(), " ", info.GetErrorCode(), " ", info.GetInstanceErrorClass(), " ", info.GetErrorMessage()))
	}
	want := []string{"x://running instanceRunning  0 ", "x://waits instanceDeleting  0 ", "x://quota instanceCreating quota 1 two lines", "x://other instanceCreating unknown 99 ", "x://unknown unspecified  0 "}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	third, hour := 1.0/3, time.Hour
	defaults := &externalgrpc.NodeGroupAutoscalingOptions{ScaleDownUtilizationThreshold: 0.5, ScaleDownGpuUtilizationThreshold: 0.25, ZeroOrMaxNodeScaling: true}
	if optionsOf(provider.NodeGroupOptions{}, defaults) != nil {
		t.Error("options of nothing")
	}
	options := optionsOf(provider.NodeGroupOptions{ScaleDownUtilizationThreshold: &third, ScaleDownUnneededTime: &hour}, defaults)
	if options.GetScaleDownUtilizationThreshold() != third || options.GetScaleDownGpuUtilizationThreshold() != 0.25 || !options.GetZeroOrMaxNodeScaling() ||
		options.GetScaleDownUnneededDuration().AsDuration() != time.Hour || options.GetScaleDownUnreadyDuration() != nil {
		t.Errorf("the options are %v", options)
	}
}

// FuzzRequests has any bytes be requests. None panics; no instance is deleted that has a node; and no node is written that is not tainted.
func FuzzRequests(f *testing.F) {
	request := func(nodes ...*externalgrpc.ExternalGrpcNode) []byte {
		encoded, err := proto.Marshal(&externalgrpc.NodeGroupDeleteNodesRequest{Id: "g", Nodes: nodes})
		if err != nil {
			f.Fatal(err)
		}
		return encoded
	}
	f.Add(request(&externalgrpc.ExternalGrpcNode{Name: "a", ProviderID: "x://a"}), byte(0))
	f.Add(request(&externalgrpc.ExternalGrpcNode{Name: "x://bare", ProviderID: "x://bare"}), byte(0))
	f.Add(request(&externalgrpc.ExternalGrpcNode{Name: "x://a", ProviderID: "x://a"}), byte(0))
	f.Add(request(&externalgrpc.ExternalGrpcNode{Name: "../../plain", ProviderID: "x://plain"}), byte(0))
	f.Add([]byte("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12\x01g"), byte(1))
	f.Fuzz(func(t *testing.T, content []byte, method byte) {
		groups := newFakeGroups("g")
		groups.status.TargetSize = 4
		groups.status.Instances = append(groups.status.Instances, provider.NodeGroupInstance{ProviderID: "x://plain", NodeName: "plain"})
		nodes := cluster(t, interceptor.Funcs{}, node("a", true), node("plain", false))
		s := serving(t, groups, nodes)
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		var err error
		call := func(into proto.Message, do func() error) {
			if proto.Unmarshal(content, into) == nil {
				err = do()
			}
		}
		switch method % 8 {
		case 0:
			request := &externalgrpc.NodeGroupDeleteNodesRequest{}
			call(request, func() error { _, err := s.NodeGroupDeleteNodes(ctx, request); return err })
		case 1:
			request := &externalgrpc.NodeGroupIncreaseSizeRequest{}
			call(request, func() error { _, err := s.NodeGroupIncreaseSize(ctx, request); return err })
		case 2:
			request := &externalgrpc.NodeGroupDecreaseTargetSizeRequest{}
			call(request, func() error { _, err := s.NodeGroupDecreaseTargetSize(ctx, request); return err })
		case 3:
			request := &externalgrpc.NodeGroupForNodeRequest{}
			call(request, func() error { _, err := s.NodeGroupForNode(ctx, request); return err })
		case 4:
			request := &externalgrpc.NodeGroupAutoscalingOptionsRequest{}
			call(request, func() error { _, err := s.NodeGroupGetOptions(ctx, request); return err })
		case 5:
			request := &externalgrpc.NodeGroupNodesRequest{}
			call(request, func() error { _, err := s.NodeGroupNodes(ctx, request); return err })
		case 6:
			request := &externalgrpc.NodeGroupTemplateNodeInfoRequest{}
			call(request, func() error { _, err := s.NodeGroupTemplateNodeInfo(ctx, request); return err })
		case 7:
			request := &externalgrpc.NodeGroupTargetSizeRequest{}
			call(request, func() error { _, err := s.NodeGroupTargetSize(ctx, request); return err })
		}
		if err != nil && status.Code(err) == codes.Unknown {
			t.Errorf("an error without a code: %v", err)
		}
		s.observer.running.Wait()
		for _, id := range groups.deleted {
			if id != "x://bare" {
				t.Fatalf("%s was deleted", id)
			}
		}
		var plain corev1.Node
		if err := nodes.Get(ctx, client.ObjectKey{Name: "plain"}, &plain); err != nil || len(plain.Labels)+len(plain.Annotations) > 0 {
			t.Fatalf("a node without taint has %v %v: %v", plain.Labels, plain.Annotations, err)
		}
	})
}

// TestRegisteredAMomentAgo has the node of an instance be there that the autoscaler, and the cache, have not seen: it is not deleted. The complete
// list is made for an instance that is there without a node, and for nothing else.
func TestRegisteredAMomentAgo(t *testing.T) {
	for name, c := range map[string]struct {
		asked string
		live  []*corev1.Node
		code  codes.Code
		lists int
	}{
		"registered":    {"x://bare", []*corev1.Node{node("bare", false)}, codes.FailedPrecondition, 1},
		"never":         {"x://bare", nil, codes.OK, 1},
		"being deleted": {"x://leaving", []*corev1.Node{node("bare", false)}, codes.OK, 0},
		"gone":          {"x://gone", []*corev1.Node{node("bare", false)}, codes.OK, 0},
	} {
		t.Run(name, func(t *testing.T) {
			groups := newFakeGroups("g")
			groups.status.Instances = append(groups.status.Instances, provider.NodeGroupInstance{ProviderID: "x://leaving", State: provider.NodeGroupInstanceDeleting})
			s := serving(t, groups, cluster(t, interceptor.Funcs{}))
			lists := 0
			s.live = cluster(t, interceptor.Funcs{List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				lists++
				return inner.List(ctx, list, options...)
			}}, c.live...)
			_, err := s.NodeGroupDeleteNodes(t.Context(), &externalgrpc.NodeGroupDeleteNodesRequest{Id: "g", Nodes: []*externalgrpc.ExternalGrpcNode{{Name: c.asked, ProviderID: c.asked}}})
			if status.Code(err) != c.code || lists != c.lists || (len(groups.deleted) == 1) != (name == "never") {
				t.Errorf("%v, after %d lists, and deleted are %v", err, lists, groups.deleted)
			}
		})
	}
}
