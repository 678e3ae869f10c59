package autoscaler_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/extensions/autoscaler/externalgrpc"
)

// TestRefusals asks for what may not be. Each is refused for its reason, and nothing is deleted or written on any node.
func TestRefusals(t *testing.T) {
	f := newFixture(t)
	f.register(t, "node-001")
	f.growSoon(small, 2)
	f.grow(large, 2)
	smalls, larges := f.join(t, small, 2), f.join(t, large, 2)
	all := slices.Concat(smalls, larges, []string{"node-001"})
	f.round("all are there", sizes(map[string]int{small: 2, large: 2}))
	for _, name := range all[1:] { // all but the first
		taint(t, name)
	}
	before := f.witness(t, all...)
	node := func(i int) *corev1.Node { return before[i] }
	other := func(i int, change func(*corev1.Node)) *corev1.Node {
		changed := node(i).DeepCopy()
		change(changed)
		return changed
	}
	for name, c := range map[string]struct {
		group string
		nodes []*corev1.Node
		code  codes.Code
		says  []string
	}{
		"no nodes":             {small, nil, codes.InvalidArgument, []string{"names 0 nodes"}},
		"no provider ID":       {small, []*corev1.Node{other(1, func(n *corev1.Node) { n.Spec.ProviderID = "" })}, codes.InvalidArgument, []string{"both are needed"}},
		"no group":             {"medium", []*corev1.Node{node(1)}, codes.NotFound, []string{"medium", small}},
		"without taint":        {small, []*corev1.Node{node(0)}, codes.FailedPrecondition, []string{"does not carry the taint"}},
		"of another group":     {small, []*corev1.Node{node(2)}, codes.FailedPrecondition, []string{all[2], large}},
		"of no group":          {small, []*corev1.Node{node(4)}, codes.FailedPrecondition, []string{"node-001", "none that is known"}},
		"below the minimum":    {large, []*corev1.Node{node(2), node(3)}, codes.FailedPrecondition, []string{"would have 0, and its minimum is 1"}},
		"another provider ID":  {small, []*corev1.Node{other(1, func(n *corev1.Node) { n.Spec.ProviderID = node(0).Spec.ProviderID })}, codes.FailedPrecondition, []string{"its provider ID is"}},
		"a node that is gone":  {small, []*corev1.Node{other(1, func(n *corev1.Node) { n.Name = "gone" })}, codes.FailedPrecondition, []string{"the node does not exist", "has a node: " + all[1]}},
		"one that has a node":  {small, []*corev1.Node{fakeNode(node(1).Spec.ProviderID)}, codes.FailedPrecondition, []string{"has a node: " + all[1]}},
		"a bare one elsewhere": {small, []*corev1.Node{fakeNode(node(2).Spec.ProviderID)}, codes.FailedPrecondition, []string{`of the group "large"`}},
		"one of several":       {small, []*corev1.Node{node(1), node(0), node(4)}, codes.FailedPrecondition, []string{all[0], "taint", "node-001", "would have"}},
	} {
		if name == "one of several" { // the check of the minimum counts only nodes that could be deleted
			c.says = c.says[:3]
		}
		t.Run(name, func(t *testing.T) {
			err := answer(t, "the deletion is refused", codes.Unavailable, func() error { return f.deleteFrom(c.group, c.nodes...) })
			if status.Code(err) != c.code {
				t.Errorf("the error is %v", err)
			}
			for _, says := range c.says {
				if !strings.Contains(fmt.Sprint(err), says) {
					t.Errorf("the error is %v, and does not say %q", err, says)
				}
			}
		})
	}
	for delta, code := range map[int]codes.Code{0: codes.InvalidArgument, -1: codes.InvalidArgument, 3: codes.FailedPrecondition, 1 << 30: codes.FailedPrecondition} {
		err := answer(t, "the increase is refused", codes.Unavailable, func() error { return f.scaleUp(small, delta) })
		if status.Code(err) != code {
			t.Errorf("to increase by %d is the error %v", delta, err)
		}
	}
	for delta, code := range map[int32]codes.Code{0: codes.InvalidArgument, 1: codes.InvalidArgument, -1: codes.FailedPrecondition} {
		err := answer(t, "the decrease is refused", codes.Unavailable, func() error {
			_, err := call(t.Context(), f.client.NodeGroupDecreaseTargetSize, &externalgrpc.NodeGroupDecreaseTargetSizeRequest{Id: small, Delta: delta})
			return err
		})
		if status.Code(err) != code {
			t.Errorf("to decrease by %d is the error %v", delta, err)
		}
	}
	f.unharmed(t, before)
	f.round("all are still there", sizes(map[string]int{small: 2, large: 2}))
	if got := f.faults.deleted(); len(got) > 0 {
		t.Errorf("the deletions are %v", got)
	}
}

// TestOneGroupHangs has everything about one group hang. It is left out, and the whole circle of the other one goes on.
func TestOneGroupHangs(t *testing.T) {
	f := newFixture(t)
	f.growSoon(large, 1)
	kept := f.witness(t, f.join(t, large, 1)...)
	f.round("both are there", sizes(map[string]int{small: 0, large: 1}))
	f.end(t)
	f.faults.hang(large)
	f.launch(t)
	f.balancer(t, "web")
	f.growSoon(small, 2)
	f.round("the one that hangs is left out", sizes(map[string]int{small: 2}))
	f.end(t) // which does not wait for what hangs
	f.launch(t)
	f.round("it is left out still", sizes(map[string]int{small: 2}))
	names := f.join(t, small, 2)
	f.round("its nodes are those of no group", func(r *round) error {
		if group, err := f.nodeGroupForNode(t.Context(), kept[0]); group != "" || err != nil {
			return fmt.Errorf("%q: %v", group, err)
		}
		return sizes(map[string]int{small: 2})(r)
	})
	err := answer(t, "the group that hangs is not increased", codes.DeadlineExceeded, func() error { return f.scaleUp(large, 1) })
	if status.Code(err) != codes.Unavailable {
		t.Errorf("to increase the one that hangs is the error %v", err)
	}
	f.awaitTargets(t, append(names, kept[0].Name)...)
	f.shrink(names[0])
	f.awaitGone(t, small, names[0])
	f.awaitTargets(t, names[1], kept[0].Name)
	f.faults.release()
	f.round("both are there again", sizes(map[string]int{small: 1, large: 1}))
	f.unharmed(t, kept)
}

// TestDeletionsHang: while the deletion of one group's instance hangs, the deletion of the other group's instance goes on.
func TestDeletionsHang(t *testing.T) {
	f := newFixture(t)
	f.growSoon(small, 2)
	f.grow(large, 2)
	smalls, larges := f.join(t, small, 2), f.join(t, large, 2)
	f.round("all are there", sizes(map[string]int{small: 2, large: 2}))
	f.faults.set(true, nil)
	f.shrink(larges[0])
	f.faults.hang(large)
	f.faults.set(false, nil)
	f.round("the other group is served", func(r *round) error {
		if r.targets[small] != 2 {
			return fmt.Errorf("the sizes are %v", r.targets)
		}
		return nil
	})
	f.shrink(smalls[0])
	f.awaitGone(t, small, smalls[0])
	f.faults.release()
	f.awaitGone(t, large, larges[0])
}

// TestCertificates connects with what the authority did not sign, and follows the files.
func TestCertificates(t *testing.T) {
	f := newFixture(t)
	f.round("the autoscaler is served", sizes(map[string]int{small: 0, large: 0}))
	address := "127.0.0.1:" + f.port
	wrong := newAuthority(t, f.dir, "wrong")
	stranger := newDriver(t, address, f.ca.file, wrong.sign(t, f.dir, "stranger"))
	if r, err := stranger.runOnce(t.Context()); status.Code(errors.Unwrap(err)) != codes.Unavailable {
		t.Errorf("one of another authority has learned %v: %v", r, err)
	}
	replaced := wrong.sign(t, f.dir, "replaced")
	for from, to := range map[string]string{wrong.file: "ca.crt", replaced.certificate: "server.crt", replaced.key: "server.key"} {
		content, err := os.ReadFile(from)
		must.NoError(t, err)
		must.NoError(t, os.WriteFile(f.dir+"/"+to, content, 0o600))
	}
	now := newDriver(t, address, wrong.file, wrong.sign(t, f.dir, "now"))
	now.round("the new files hold", sizes(map[string]int{small: 0, large: 0}))
	before := newDriver(t, address, wrong.file, f.ca.sign(t, f.dir, "before"))
	if r, err := before.runOnce(t.Context()); status.Code(errors.Unwrap(err)) != codes.Unavailable {
		t.Errorf("one of the old authority has learned %v: %v", r, err)
	}
}

// TestRest asks for what has one answer only.
func TestRest(t *testing.T) {
	f := newFixture(t)
	f.round("the autoscaler is served", sizes(map[string]int{small: 0, large: 0}))
	ctx := t.Context()
	for method, try := range map[string]func(context.Context) error{
		"PricingNodePrice": func(ctx context.Context) error {
			_, err := call(ctx, f.client.PricingNodePrice, &externalgrpc.PricingNodePriceRequest{})
			return err
		},
		"PricingPodPrice": func(ctx context.Context) error {
			_, err := call(ctx, f.client.PricingPodPrice, &externalgrpc.PricingPodPriceRequest{})
			return err
		},
	} {
		if err := try(ctx); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", method, err)
		}
	}
	label, err := call(ctx, f.client.GPULabel, &externalgrpc.GPULabelRequest{})
	must.NoError(t, err)
	types, err := call(ctx, f.client.GetAvailableGPUTypes, &externalgrpc.GetAvailableGPUTypesRequest{})
	must.NoError(t, err)
	if label.GetLabel() != "" || len(slices.Collect(maps.Keys(types.GetGpuTypes()))) > 0 {
		t.Errorf("GPUs are %v and %v", label, types)
	}
	_, err = call(ctx, f.client.Cleanup, &externalgrpc.CleanupRequest{})
	must.NoError(t, err)
	if group, err := f.nodeGroupForNode(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}}); group != "" || err != nil {
		t.Errorf("a node without a group is of the group %q: %v", group, err)
	}
}

// TestTheLeaderServes has two replicas of which one leads: the port of the other is closed until it does.
func TestTheLeaderServes(t *testing.T) {
	lease := []string{
		"--leader-elect=true", "--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=45s", "--leader-elect-retry-period=1s",
	}
	first := newFixture(t, lease...)
	first.round("the first leads", sizes(map[string]int{small: 0, large: 0}))
	second := newFixture(t, lease...)
	second.awaitStandby(t)
	if r, err := second.runOnce(t.Context()); status.Code(errors.Unwrap(err)) != codes.Unavailable {
		t.Errorf("one that does not lead has answered %v: %v", r, err)
	}
	first.round("the first still leads", sizes(map[string]int{small: 0, large: 0}))
	first.end(t)
	if r, err := first.runOnce(t.Context()); status.Code(errors.Unwrap(err)) != codes.Unavailable {
		t.Errorf("one that has stopped has answered %v: %v", r, err)
	}
	second.round("the second leads", sizes(map[string]int{small: 0, large: 0}))
}

// awaitStandby waits until a manager could take over.
func (f *fixture) awaitStandby(t *testing.T) {
	t.Helper()
	poll.Until(t, "the standby is ready", func(ctx context.Context) error {
		connection, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", f.secure.Address)
		if err != nil {
			return err
		}
		return connection.Close()
	})
}
