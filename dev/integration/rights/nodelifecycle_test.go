package rights_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// nodeLifecycleFlags make the manager look often, and at nodes that are new, too.
var nodeLifecycleFlags = []string{"--node-monitor-period=200ms", "--node-deletion-min-age=0s", "--node-deletion-min-denial-time=0s"}

// nodeLifecycleSteps are the work of the node lifecycle controller.
func nodeLifecycleSteps() []step {
	const off, silent = "node-002", "node-003"
	power := func(to api.Power) func(*api.InstanceSpec) {
		return func(spec *api.InstanceSpec) { spec.Power = to }
	}
	return []step{
		{"an instance is switched off and on", func(t *testing.T, s *scenario) {
			s.cloud.Change(t, off, power(api.PowerOff))
			s.report(t, off, corev1.ConditionUnknown)
			s.awaitShutdownTaint(t, off, true)
			s.cloud.Change(t, off, power(api.PowerOn))
			s.awaitShutdownTaint(t, off, false)
			s.report(t, off, corev1.ConditionTrue)
		}},
		{"the cloud denies all instances, and a silent node is kept", func(t *testing.T, s *scenario) {
			must.NoError(t, s.cloud.Service.AddFault(api.Fault{Operation: api.OpListInstances, Mode: api.FaultEmpty, Count: 1000}))
			s.report(t, silent, corev1.ConditionUnknown)
			s.awaitHeld(t, silent, true)
			s.cloud.Service.ClearFaults()
			s.awaitHeld(t, silent, false)
			s.report(t, silent, corev1.ConditionTrue)
		}},
		// The record of deletions is created for the first, and updated for the second.
		{"an instance is deleted, and its node", lose},
		{"another instance is deleted, and its node", lose},
	}
}

// lose has a node's instance deleted, and waits until the node is.
func lose(t *testing.T, s *scenario) {
	name := s.create(t)
	s.join(t, name)
	s.cloud.Delete(t, name)
	s.report(t, name, corev1.ConditionUnknown)
	poll.Until(t, "node "+name+" is deleted", func(ctx context.Context) error {
		_, err := s.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return errors.New("it is there")
		default:
			return err
		}
	})
}

// report sets whether a node is ready, as its kubelet does, or kube-controller-manager when the kubelet is silent.
func (s *scenario) report(t *testing.T, node string, ready corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"status": {"conditions": [{"type": "Ready", "status": %q}]}}`, ready)
	_, err := s.admin.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	must.NoError(t, err)
}

func (s *scenario) awaitShutdownTaint(t *testing.T, node string, want bool) {
	t.Helper()
	s.awaitNode(t, node, fmt.Sprintf("is tainted as shut down: %t", want), func(node *corev1.Node) error {
		has := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == cloudproviderapi.TaintNodeShutdown })
		if has != want {
			return fmt.Errorf("its taints are %v", node.Spec.Taints)
		}
		return nil
	})
}

func (s *scenario) awaitHeld(t *testing.T, node string, want bool) {
	t.Helper()
	s.awaitNode(t, node, fmt.Sprintf("is held: %t", want), func(node *corev1.Node) error {
		held := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == "CloudInstanceGone" })
		if held != want {
			return fmt.Errorf("its conditions are %v", node.Status.Conditions)
		}
		return nil
	})
}
