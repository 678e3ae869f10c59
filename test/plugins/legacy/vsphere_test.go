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

	"github.com/mooring-ccm/mooring/localcluster/nodeagent"
	"github.com/mooring-ccm/mooring/test/plugins/legacy/vcenter"
	"github.com/mooring-ccm/mooring/test/plugins/stage"
)

//go:embed vsphere_rights.yaml
var vsphereRights []byte

type vsphereWorld = stage.World[*vcenter.VCenter]

type vsphereStep = stage.Step[*vcenter.VCenter]

// The machines that become nodes: two in a zone of their own, and one in another.
const (
	machineA = "DC0_C0_RP0_VM0"
	machineB = "DC0_C0_RP0_VM1"
	machineC = "DC0_C1_RP0_VM0"
)

// vsphereDearer are the calls of which Mooring may make more.
var vsphereDearer = map[string]string{
	"FindByUuid": denial + "; and " + zones, "RetrieveProperties": denial + "; and " + zones,
	"POST /rest/com/vmware/cis/session": zones, "DELETE /rest/com/vmware/cis/session": zones,
	"POST /rest/com/vmware/cis/tagging/tag-association": zones,
	"GET /rest/com/vmware/cis/tagging/tag":              zones, "GET /rest/com/vmware/cis/tagging/category": zones,
}

// zones is why the plugin looks for zones more often by itself.
const zones = "the plugin looks for the zone at each change of a node that has no label of one, and Mooring writes a node's " +
	"addresses before its labels, so that no node is used before it has addresses"

// vsphereStory plays with the vSphere plugin, which offers the legacy Instances and Zones, keeps an index of nodes by an informer
// of its own, and takes its login from a Secret that another informer brings. Simulator is the program vcsim.
func vsphereStory(simulator string) stage.Story[*vcenter.VCenter] {
	return stage.Story[*vcenter.VCenter]{
		Provider: "vsphere",
		Open: func(t testing.TB) (*vcenter.VCenter, stage.Launch) {
			cloud := vcenter.Start(t, simulator)
			return cloud, cloud.Launch()
		},
		Flags:        monitoring,
		MooringFlags: mooringMonitoring,
		Rights:       vsphereRights,
		Steps:        vsphereSteps(),
		Intended:     stage.OfLostNodes(),
		Dearer:       vsphereDearer,
	}
}

func vsphereSteps() []vsphereStep {
	return []vsphereStep{
		{Name: "the login appears", Act: createLogin},
		{Name: "nodes join", Act: joinMachines(machineA, machineB, machineC)},
		{Name: "a machine is switched off", Act: func(ctx context.Context, w *vsphereWorld) error {
			return errors.Join(w.Cloud.PowerOff(ctx, machineA), w.FallSilent(ctx, nodeOf(machineA)))
		}, Until: func(ctx context.Context, w *vsphereWorld) error { return w.ShutDown(ctx, nodeOf(machineA)) }},
		{Name: "it is switched on again", Act: func(ctx context.Context, w *vsphereWorld) error {
			return errors.Join(w.Cloud.PowerOn(ctx, machineA), joinMachines(machineA)(ctx, w))
		}, Until: func(ctx context.Context, w *vsphereWorld) error { return w.NotShutDown(ctx, nodeOf(machineA)) }},
		{Name: "a machine is destroyed", Act: func(ctx context.Context, w *vsphereWorld) error {
			return errors.Join(w.Cloud.Destroy(ctx, machineC), w.FallSilent(ctx, nodeOf(machineC)))
		}, Until: func(ctx context.Context, w *vsphereWorld) error { return w.NodeGone(ctx, nodeOf(machineC)) }},
	}
}

// nodeOf returns the name of a machine's node.
func nodeOf(machine string) string { return strings.ToLower(strings.ReplaceAll(machine, "_", "-")) }

func createLogin(ctx context.Context, w *vsphereWorld) error {
	_, err := w.Client.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: vcenter.Secret},
		StringData: map[string]string{vcenter.UserKey: vcenter.User, vcenter.PasswordKey: vcenter.Password},
	}, metav1.CreateOptions{})
	return err
}

// joinMachines registers the nodes of machines with the provider ID that their kubelets are given, one after the other: the
// plugin reads its index without a lock.
func joinMachines(machines ...string) func(context.Context, *vsphereWorld) error {
	return func(ctx context.Context, w *vsphereWorld) error {
		for _, machine := range machines {
			uuid, err := w.Cloud.UUID(ctx, machine)
			if err != nil {
				return err
			}
			if err := w.Join(ctx, nodeagent.Options{Name: nodeOf(machine), ProviderID: "vsphere://" + uuid}); err != nil {
				return err
			}
			if err := await(ctx, func() error { return w.Initialized(ctx, nodeOf(machine)) }); err != nil {
				return err
			}
		}
		return nil
	}
}

// await polls a condition until it returns nil or the context ends.
func await(ctx context.Context, condition func() error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
