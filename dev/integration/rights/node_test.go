package rights_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// nodeFlags make the manager refresh nodes often.
var nodeFlags = []string{"--node-status-update-frequency=500ms"}

// nodeSteps are the work of the node controller.
func nodeSteps() []step {
	return []step{
		{"nodes join and are initialized", func(t *testing.T, s *scenario) {
			for n := 1; n <= initialInstances; n++ {
				s.join(t, cloudsim.DefaultInstance(n).Name)
			}
		}},
		{"an instance gets another type and another address", func(t *testing.T, s *scenario) {
			const address = "10.1.2.3"
			s.cloud.Change(t, "node-001", func(spec *api.InstanceSpec) {
				spec.MachineType = cloudsim.TypeLarge
				spec.Addresses = append(spec.Addresses, api.Address{Type: api.AddressInternalIP, Address: address})
			})
			s.awaitNode(t, "node-001", "shows both", func(node *corev1.Node) error {
				shown := slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == address })
				if got := node.Labels[corev1.LabelInstanceTypeStable]; got != cloudsim.TypeLarge || !shown {
					return fmt.Errorf("type %q, addresses %v", got, node.Status.Addresses)
				}
				return nil
			})
		}},
		{"a node comes before its instance", func(t *testing.T, s *scenario) {
			s.register(t, "absent")
			s.awaitEvent(t, "absent", "InstanceNotFound", 1)
			must.NoError(t, s.cloud.Service.AddFault(api.Fault{Operation: api.OpListInstances, Mode: api.FaultStatus, Status: 503, Count: 1000}))
			s.awaitEvent(t, "absent", "CloudError", 1)
			s.cloud.Service.ClearFaults()
			spec := cloudsim.DefaultInstance(s.next())
			spec.Name = "absent"
			s.cloud.Create(t, spec)
			s.awaitInitialized(t, "absent")
		}},
	}
}

// next numbers a new instance.
func (s *scenario) next() int {
	s.instances++
	return s.instances
}

// create makes an instance, and returns its name.
func (s *scenario) create(t *testing.T) string {
	t.Helper()
	return s.cloud.Create(t, cloudsim.DefaultInstance(s.next())).Name
}

// register makes a node, ready and with the taint, as a kubelet with an external cloud provider does, but in one write: a report after it
// could come between what the manager has seen and what it writes back. The manager then patches, and for all nodes that would leave the
// right to update them unused.
func (s *scenario) register(t *testing.T, name string) {
	t.Helper()
	_, err := s.admin.CoreV1().Nodes().Create(t.Context(), nodeagent.Node(nodeagent.Options{Name: name}), metav1.CreateOptions{})
	must.NoError(t, err)
}

// join registers the node of an instance and waits until it is initialized.
func (s *scenario) join(t *testing.T, name string) {
	t.Helper()
	s.register(t, name)
	s.awaitInitialized(t, name)
}

func (s *scenario) awaitInitialized(t *testing.T, name string) {
	t.Helper()
	poll.Until(t, "node "+name+" is initialized", func(ctx context.Context) error { return s.cluster.Initialized(ctx, name) })
}
