package metal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/node"
	"github.com/mooring-ccm/mooring/internal/controller/nodelifecycle"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

const (
	// sleeper is the machine that sleeps in this test, and spare the provider ID of the other one.
	sleeper = "sleeper"
	spare   = "metal://4c4c4544-0051-3510-8052-000000000002"
)

// poweredCloud returns what makes the provider, with two machines of one group: one that is on, and one that is off.
func poweredCloud(t *testing.T) (func() *metal.Cloud, *redfishsim.Service) {
	t.Helper()
	first := uuid.NewSHA1(uuid.NameSpaceDNS, []byte(sleeper)).String() // as the node agent has it
	second := strings.TrimPrefix(spare, "metal://")
	service := redfishsim.New("admin", "pass", redfishsim.System{ID: "1", UUID: first}, redfishsim.System{ID: "2", UUID: second, Power: redfishsim.Off})
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	text := fmt.Sprintf(`apiVersion: %s
kind: %s
power: {interval: 1s}
inventory:
  defaults: {zone: rack-1, bmc: {credentials: {username: admin, passwordFile: password}}}
  machines:
  - {name: %s, systemUUID: %s, addresses: [{address: 10.9.0.1}], bmc: {redfish: {endpoint: %[5]q, insecureSkipVerify: true, systemID: "1"}}}
  - {name: spare, systemUUID: %[6]s, addresses: [{address: 10.9.0.2}], bmc: {redfish: {endpoint: %[5]q, insecureSkipVerify: true, systemID: "2"}}}
nodeGroups: [{name: rack, machines: {zones: [rack-1]}, minCycleTime: 0s}]
`, config.APIVersion, config.CloudConfigKind, sleeper, first, server.URL, second)
	must.NoError(t, errors.Join(os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600), os.WriteFile(filepath.Join(dir, "password"), []byte("pass"), 0o600)))
	return func() *metal.Cloud {
		source, err := config.OpenFile(filepath.Join(dir, "config.yaml"))
		must.NoError(t, err)
		made, err := metal.New(source)
		must.NoError(t, err)
		return made
	}, service
}

// leads has a provider do what it does on the leader until the test ends.
func leads(t *testing.T, made *metal.Cloud) {
	t.Helper()
	stop := make(chan struct{})
	made.Initialize(clientbuilder.SimpleControllerClientBuilder{ClientConfig: harness.ConfigOf(t, cluster, harness.Account)}, stop)
	t.Cleanup(func() { close(stop) })
}

// both runs two controllers as one.
type both [2]manager.Runnable

func (b both) Start(ctx context.Context) error {
	var group errgroup.Group
	for _, one := range b {
		group.Go(func() error { return one.Start(ctx) })
	}
	return group.Wait()
}

// startNodes runs the node and node lifecycle controllers with the provider as the leader.
func startNodes(t *testing.T, made *metal.Cloud) {
	t.Helper()
	leads(t, made)
	build := func(parts harness.Parts) (manager.Runnable, error) {
		inventory := instances.New(instances.Options{Cloud: cloud.Decorate(made, cloud.Options{})})
		owners := ownership.Rules{ProviderName: "metal", Schemes: []string{"metal"}}
		initializing, err := node.New(node.Options{
			Client: parts.GetClient(), LiveReader: parts.GetAPIReader(), Cache: parts.GetCache(), Recorder: parts.Recorder, Inventory: inventory,
			Owners: owners, StatusUpdateFrequency: time.Hour, Registerer: parts.Registry, Logger: parts.Logger,
		})
		if err != nil {
			return nil, err
		}
		settings := nodelifecycle.DefaultSettings()
		settings.MinAge, settings.MinDenialTime = 0, 0
		deleting := nodelifecycle.New(nodelifecycle.Options{
			Client: parts.GetClient(), Cache: parts.GetCache(), Recorder: parts.Recorder, Inventory: inventory, Owners: owners,
			Settings: settings, Period: 100 * time.Millisecond, Registerer: parts.Registry, Logger: parts.Logger,
			DeletionLog: &nodelifecycle.DeletionLog{
				Leases: parts.Clients.CoordinationV1(), Namespace: "kube-system", Name: "cloud-controller-manager-node-deletions",
			},
		})
		return both{initializing, deleting}, nil
	}
	harness.Start(t, harness.Options{Cluster: cluster, Component: "nodes", Build: build})
}

// boots registers the node of the machine, and returns it when it is initialized.
func boots(t *testing.T) *corev1.Node {
	t.Helper()
	agent, err := nodeagent.New(cluster.AdminConfig(), nodeagent.Options{Name: sleeper})
	must.NoError(t, err)
	must.NoError(t, agent.Register(t.Context()))
	reports(t, corev1.ConditionTrue)
	var joined *corev1.Node
	poll.Until(t, "the node is initialized", func(ctx context.Context) error {
		if joined, err = admin.CoreV1().Nodes().Get(ctx, sleeper, metav1.GetOptions{}); err != nil {
			return err
		}
		if joined.Spec.ProviderID == "" {
			return fmt.Errorf("its taints are %v", joined.Spec.Taints)
		}
		return nil
	})
	return joined
}

// reports writes the condition Ready of the machine's node.
func reports(t *testing.T, ready corev1.ConditionStatus) {
	t.Helper()
	now := metav1.Now()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: ready, Reason: "Test", LastHeartbeatTime: now, LastTransitionTime: now},
	}}})
	must.NoError(t, err)
	_, err = admin.CoreV1().Nodes().Patch(t.Context(), sleeper, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	must.NoError(t, err)
}

// resized waits until a group has a size.
func resized(t *testing.T, groups provider.NodeGroups, want int) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("the group has a size of %d", want), func(ctx context.Context) error {
		status, err := groups.NodeGroupStatus(ctx, "rack")
		if err == nil && status.TargetSize != want {
			err = fmt.Errorf("%+v", status)
		}
		return err
	})
}

// TestMachineSleepsAndWakes uses a real control plane, the shipped rights, and the rights that the how-to adds. A node that is needed stays. The
// autoscaler removes a node, and the manager deletes it when its machine is off. The same machine later comes back as a new node, and is initialized.
func TestMachineSleepsAndWakes(t *testing.T) {
	harness.GrantNodeGroupRecord(t, admin)
	another, service := poweredCloud(t)
	made := another()
	groups := provider.CapabilitiesOf(made).NodeGroups
	startNodes(t, made)
	before := boots(t)
	t.Cleanup(func() {
		if err := admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), sleeper, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	resized(t, groups, 1)
	ids := []string{before.Spec.ProviderID}
	if err := groups.DeleteNodeGroupInstances(t.Context(), "rack", ids); err == nil || !strings.Contains(err.Error(), names.TaintToBeDeleted) {
		t.Errorf("removing a node that is ready and has no taint: %v", err)
	}
	patch := fmt.Sprintf(`{"spec":{"taints":[{"key":%q,"value":"1","effect":"NoSchedule"}]}}`, names.TaintToBeDeleted)
	_, err := admin.CoreV1().Nodes().Patch(t.Context(), sleeper, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	must.NoError(t, err)
	must.NoError(t, groups.DeleteNodeGroupInstances(t.Context(), "rack", ids))
	resized(t, groups, 0)
	poll.Until(t, "the machine is off", func(context.Context) error {
		if power := service.Power("1"); power != redfishsim.Off {
			return errors.New(power)
		}
		return nil
	})
	reports(t, corev1.ConditionUnknown) // as kube-controller-manager does
	poll.Until(t, "the node is gone", func(ctx context.Context) error {
		if _, err := admin.CoreV1().Nodes().Get(ctx, sleeper, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
	poll.Until(t, "both machines are asked for", func(ctx context.Context) error {
		status, err := groups.NodeGroupStatus(ctx, "rack")
		if err != nil || status.TargetSize == 2 {
			return err
		}
		return errors.Join(errors.New("not yet"), groups.IncreaseNodeGroup(ctx, "rack", 2-status.TargetSize))
	})
	for _, system := range []string{"1", "2"} {
		poll.Until(t, "system "+system+" is on", func(context.Context) error {
			if power := service.Power(system); power != redfishsim.On {
				return errors.New(power)
			}
			return nil
		})
	}
	after := boots(t)
	if after.UID == before.UID || after.Spec.ProviderID != before.Spec.ProviderID {
		t.Errorf("the node came back as %s %s, and was %s %s", after.UID, after.Spec.ProviderID, before.UID, before.Spec.ProviderID)
	}
	resized(t, groups, 2)
	next := another() // which the first one does not know of: its next change fails, and is planned anew
	leads(t, next)
	resized(t, provider.CapabilitiesOf(next).NodeGroups, 2)
	must.NoError(t, provider.CapabilitiesOf(next).NodeGroups.DeleteNodeGroupInstances(t.Context(), "rack", []string{spare}))
	if err := groups.IncreaseNodeGroup(t.Context(), "rack", 1); !errors.Is(err, provider.ErrNodeGroupSize) {
		t.Errorf("by what the first one knows the group has its maximum: %v", err)
	}
	must.NoError(t, groups.DeleteNodeGroupInstances(t.Context(), "rack", []string{spare}))
	resized(t, groups, 1)
}
