package legacy_test

import (
	"context"
	_ "embed"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/plugins/compare"
	"github.com/mooring-ccm/mooring/dev/plugins/legacy/vcenter"
)

//go:embed vsphere_rights.yaml
var vsphereRights []byte

type vsphereEnvironment = compare.Environment[*vcenter.VCenter]

type vsphereStep = compare.Step[*vcenter.VCenter]

// The machines that become nodes: two in a zone of their own, and one in another.
const (
	machineA = "DC0_C0_RP0_VM0"
	machineB = "DC0_C0_RP0_VM1"
	machineC = "DC0_C1_RP0_VM0"
)

// vsphereMoreCalls are the calls of which Mooring may make more.
var vsphereMoreCalls = map[string]string{
	"FindByUuid": denial + "; and " + zones, "RetrieveProperties": denial + "; and " + zones,
	"POST /rest/com/vmware/cis/session": zones, "DELETE /rest/com/vmware/cis/session": zones,
	"POST /rest/com/vmware/cis/tagging/tag-association": zones,
	"GET /rest/com/vmware/cis/tagging/tag":              zones, "GET /rest/com/vmware/cis/tagging/category": zones,
}

// zones is why the plugin looks for zones more often by itself.
const zones = "the plugin looks for the zone at each change of a node that has no label of one, and Mooring writes a node's " +
	"addresses before its labels: no node is used before it has addresses"

// vsphereScenario runs with the vSphere plugin, which offers the legacy Instances and Zones, keeps an index of nodes by an informer
// of its own, and takes its login from a Secret that another informer brings. Simulator is the program vcsim.
func vsphereScenario(simulator string) compare.Scenario[*vcenter.VCenter] {
	return compare.Scenario[*vcenter.VCenter]{
		Provider: "vsphere",
		Open: func(t testing.TB) (*vcenter.VCenter, compare.Launch) {
			cloud := vcenter.Start(t, simulator)
			return cloud, cloud.Launch()
		},
		Flags:        monitoring,
		MooringFlags: mooringMonitoring,
		Rights:       vsphereRights,
		Steps:        vsphereSteps(),
		Intended:     compare.OfLostNodes(),
		MoreCalls:    vsphereMoreCalls,
	}
}

func vsphereSteps() []vsphereStep {
	return []vsphereStep{
		{Name: "the login appears", Act: createLogin},
		{Name: "nodes join", Act: joinMachines(machineA, machineB, machineC)},
		{Name: "a machine is switched off", Act: func(ctx context.Context, e *vsphereEnvironment) error {
			return errors.Join(e.Cloud.PowerOff(ctx, machineA), e.FallSilent(ctx, nodeOf(machineA)))
		}, Until: func(ctx context.Context, e *vsphereEnvironment) error { return e.ShutDown(ctx, nodeOf(machineA)) }},
		{Name: "it is switched on again", Act: func(ctx context.Context, e *vsphereEnvironment) error {
			return errors.Join(e.Cloud.PowerOn(ctx, machineA), joinMachines(machineA)(ctx, e))
		}, Until: func(ctx context.Context, e *vsphereEnvironment) error { return e.NotShutDown(ctx, nodeOf(machineA)) }},
		{Name: "a machine is destroyed", Act: func(ctx context.Context, e *vsphereEnvironment) error {
			return errors.Join(e.Cloud.Destroy(ctx, machineC), e.FallSilent(ctx, nodeOf(machineC)))
		}, Until: func(ctx context.Context, e *vsphereEnvironment) error { return e.NodeGone(ctx, nodeOf(machineC)) }},
	}
}

// nodeOf returns the name of a machine's node.
func nodeOf(machine string) string { return strings.ToLower(strings.ReplaceAll(machine, "_", "-")) }

func createLogin(ctx context.Context, e *vsphereEnvironment) error {
	_, err := e.Client.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: vcenter.Secret},
		StringData: map[string]string{vcenter.UserKey: vcenter.User, vcenter.PasswordKey: vcenter.Password},
	}, metav1.CreateOptions{})
	return err
}

// joinMachines registers the nodes of machines with the provider ID that their kubelets are given, one after the other: the
// plugin reads its index without a lock.
func joinMachines(machines ...string) func(context.Context, *vsphereEnvironment) error {
	return func(ctx context.Context, e *vsphereEnvironment) error {
		for _, machine := range machines {
			uuid, err := e.Cloud.UUID(ctx, machine)
			if err != nil {
				return err
			}
			if err := e.Join(ctx, nodeagent.Options{Name: nodeOf(machine), ProviderID: "vsphere://" + uuid}); err != nil {
				return err
			}
			if err := await(ctx, func() error { return e.Initialized(ctx, nodeOf(machine)) }); err != nil {
				return err
			}
		}
		return nil
	}
}

// await polls a condition until it returns nil or the context ends.
func await(ctx context.Context, condition func() error) error {
	var unmet error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		unmet = condition()
		return unmet == nil, nil
	})
	if err != nil {
		return errors.Join(unmet, context.Cause(ctx))
	}
	return nil
}
