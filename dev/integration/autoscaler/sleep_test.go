package autoscaler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/extensions/autoscaler/deletion"
	"github.com/mooring-ccm/mooring/extensions/autoscaler/externalgrpc"
)

const running = externalgrpc.InstanceStatus_instanceRunning

// oldNode is why a machine is not woken whose node of before is still there.
const oldNode = "old node still there"

// awake returns what is wrong with a round of a rack unless it has a size, and just these machines run.
func awake(size int, machines ...string) func(*round) error {
	return func(r *round) error {
		got, on := states(r, rack), 0
		for _, state := range got {
			if state == running {
				on++
			}
		}
		for _, machine := range machines {
			if got[idOf(machine)] != running {
				on = -1
			}
		}
		if on != len(machines) {
			return fmt.Errorf("the machines are %v, and %v should run", got, machines)
		}
		return sizes(map[string]int{rack: size})(r)
	}
}

// TestRackSleepsAndWakes has the autoscaler wake a machine that sleeps and put it to sleep, and wake it once more. A manager that restarts while
// it sleeps changes nothing about that. All the while another machine of the group is needed, and the BMC of a third does not answer.
func TestRackSleepsAndWakes(t *testing.T) {
	f, machines := newRack(t)
	machine := machines[sleeper]
	f.register(t, neighbor)
	first := f.round("one is awake", awake(1, neighbor))
	if template := first.templates[rack]; template == nil || template.Status.Allocatable.Cpu().Value() != 8 {
		t.Errorf("the template is %v", template)
	}
	before := f.witness(t, neighbor)
	answer := machines[deaf].Hang()
	t.Cleanup(answer)

	f.grow(rack, 2)
	machine.await(t, redfishsim.On, "On")
	machines[deaf].await(t, redfishsim.Off)
	f.register(t, sleeper)
	old := f.witness(t, sleeper)[0]
	f.round("two of three run", awake(3, neighbor, sleeper))
	if err := f.deleteFrom(rack, old, before[0]); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("deleting nodes without the taint: %v", err)
	}
	f.shrink(sleeper)
	machine.await(t, redfishsim.Off, "On", "GracefulShutdown")
	f.round("it sleeps", asleep)

	// The node still exists, with what was written on it. No controller marks it as not ready.
	f.end(t)
	f.launch(t)
	f.round("it sleeps after a restart", asleep)
	f.refusesToWake(t)
	f.awaitNode(t, sleeper, "is that which is to go", func(node *corev1.Node) error {
		if node.UID != old.UID || node.Annotations[deletion.Annotation] == "" || !hasTaint(node, taintKey) {
			return fmt.Errorf("it is %s with %v %v", node.UID, node.Annotations, node.Spec.Taints)
		}
		return nil
	})
	machine.await(t, redfishsim.Off, "On", "GracefulShutdown")
	f.awaitNoNode(t, sleeper)

	f.wakes(t)
	machine.await(t, redfishsim.On, "On", "GracefulShutdown", "On")
	f.register(t, sleeper)
	if node := f.witness(t, sleeper)[0]; node.UID == old.UID || node.Spec.ProviderID != old.Spec.ProviderID || node.Annotations[deletion.Annotation] != "" {
		t.Errorf("the node came back as %s %s with %v", node.UID, node.Spec.ProviderID, node.Annotations)
	}
	f.round("it is awake again", awake(3, neighbor, sleeper))
	machine.awaitReadings(t, 5)
	f.round("it stays awake", awake(3, neighbor, sleeper))
	machine.await(t, redfishsim.On, "On", "GracefulShutdown", "On")
	f.shrink(sleeper)
	machine.await(t, redfishsim.Off, "On", "GracefulShutdown", "On", "GracefulShutdown")

	f.unharmed(t, before)
	machines[neighbor].await(t, redfishsim.On)
	machines[deaf].await(t, redfishsim.Off)
}

// asleep returns what is wrong with a round unless the machine that sleeps is no instance, and the one whose BMC is deaf is still wanted.
func asleep(r *round) error {
	if _, there := states(r, rack)[idOf(sleeper)]; there {
		return fmt.Errorf("it is one of %v", states(r, rack))
	}
	return awake(2, neighbor)(r)
}

// refusesToWake has the autoscaler ask for one machine more, which is refused because of the old node.
func (f *fixture) refusesToWake(t *testing.T) {
	t.Helper()
	poll.Until(t, "the increase is refused because of the old node", func(context.Context) error {
		err := f.scaleUp(rack, 1)
		if err == nil {
			t.Fatal("the group was increased, and the old node is still there")
		}
		if !strings.Contains(err.Error(), oldNode) {
			return err
		}
		return nil
	})
}

// wakes has the autoscaler ask for one machine more until the manager's watch has shown it, too, that the old node is gone: it lags behind the API
// server, and a refusal changes nothing.
func (f *fixture) wakes(t *testing.T) {
	t.Helper()
	poll.Until(t, "the machine is woken", func(context.Context) error {
		err := f.scaleUp(rack, 1)
		if err != nil && status.Code(err) != codes.Unavailable && !strings.Contains(err.Error(), oldNode) {
			t.Fatal(err)
		}
		return err
	})
}

// awaitNoNode waits until a node is gone. There is no kube-controller-manager, which would say of a node whose machine is gone that it is not known
// whether it is ready: that is said here.
func (f *fixture) awaitNoNode(t *testing.T, name string) {
	t.Helper()
	poll.Until(t, "node "+name+" is gone", func(ctx context.Context) error {
		node, err := admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		must.NoError(t, err)
		for i := range node.Status.Conditions {
			if node.Status.Conditions[i].Type == corev1.NodeReady {
				node.Status.Conditions[i].Status = corev1.ConditionUnknown
			}
		}
		_, err = admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return errors.Join(fmt.Errorf("it is there with the annotations %v and taints %v", node.Annotations, node.Spec.Taints), err)
	})
}
