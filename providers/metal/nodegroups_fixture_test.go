package metal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/dev/bmc/redfishtest"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// groupOfTests is the group of a powered rack.
const groupOfTests = "rack"

// poweredRack is a provider of machines m0, m1 and so on whose BMC is one Redfish service, all in one group but for the last.
type poweredRack struct {
	*Cloud
	service *redfishsim.Service
	client  *fake.Clientset
	// more are further fields of power.
	more  string
	file  string
	count int
	// bmcs are what stands in the place of the service's endpoint, by the number of the machine.
	bmcs map[int]string
	// stop ends the leadership of the provider.
	stop func()
}

func uuidOf(machine int) string { return fmt.Sprintf("4c4c4544-0051-3510-8052-%012d", machine+1) }

func nameOf(machine int) string { return fmt.Sprintf("m%d", machine) }

func idOf(machine int) string { return "metal://" + uuidOf(machine) }

// newPoweredRack writes the config, with what it says of the group, and has the provider lead until the test ends.
func newPoweredRack(t *testing.T, count int, settings string, edits ...func(*poweredRack)) *poweredRack {
	t.Helper()
	dir := t.TempDir()
	r := &poweredRack{
		service: redfishsim.New("admin", "pass"), client: fake.NewClientset(), count: count, file: filepath.Join(dir, "config.yaml"), bmcs: map[int]string{},
	}
	for i := range count {
		r.service.SetUUID(nameOf(i), uuidOf(i))
		r.service.SetPower(nameOf(i), redfishsim.Off)
	}
	for _, edit := range edits {
		edit(r)
	}
	endpoint, caFile := redfishtest.Start(t, r.service)
	text := fmt.Sprintf("apiVersion: %s\nkind: %s\npower: {interval: 1s, timeout: 2s%s}\ninventory:\n  defaults: {zone: a, bmc: {credentials: "+
		"{username: admin, passwordFile: password}, caFile: %s}}\n  machines:\n", config.APIVersion, config.CloudConfigKind, r.more, caFile)
	for i := range count {
		bmc := fmt.Sprintf("{redfish: {endpoint: %q, systemID: %s, auth: Basic}}", endpoint, nameOf(i))
		if other, ok := r.bmcs[i]; ok {
			bmc = other
		}
		label := "in"
		if i == count-1 {
			label = "out"
		}
		text += fmt.Sprintf("  - {name: %s, systemUUID: %s, labels: {group: %s}, addresses: [{address: 10.0.%d.%d}], bmc: %s}\n",
			nameOf(i), uuidOf(i), label, i/200, 1+i%200, bmc)
	}
	text += fmt.Sprintf("nodeGroups:\n- {name: %s, machines: {labels: {group: in}}, %s}\n", groupOfTests, settings)
	for name, content := range map[string]string{"config.yaml": text, "password": "pass"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.Cloud, r.stop = r.leadUntil(t)
	return r
}

// lead returns a provider that leads until the test ends, or until it is stopped.
func (r *poweredRack) lead(t *testing.T) *Cloud {
	t.Helper()
	cloud, _ := r.leadUntil(t)
	return cloud
}

func (r *poweredRack) leadUntil(t *testing.T) (cloud *Cloud, stop func()) {
	t.Helper()
	source, err := config.OpenFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	if cloud, err = New(source); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		cloud.instances.Close()
	})
	cloud.client = r.client
	if err := cloud.lead(ctx, nil); err != nil {
		t.Fatal(err)
	}
	return cloud, cancel
}

// settled waits until the group has so many machines that are to be awake.
func (r *poweredRack) settled(t *testing.T, cloud *Cloud, want int) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("the group has a size of %d", want), func(ctx context.Context) error {
		status, err := cloud.groups.NodeGroupStatus(ctx, groupOfTests)
		if err == nil && status.TargetSize != want {
			err = fmt.Errorf("it has %d: %+v", status.TargetSize, status.Instances)
		}
		return err
	})
}

// growTo increases the group until so many machines are to be awake, as the autoscaler does: by what is missing.
func (r *poweredRack) growTo(t *testing.T, cloud *Cloud, want int) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("the group has grown to %d", want), func(ctx context.Context) error {
		_, size := r.status(t, cloud)
		if size == want {
			return nil
		}
		return errors.Join(errors.New("not yet"), cloud.groups.IncreaseNodeGroup(ctx, groupOfTests, want-size))
	})
}

// status returns the instances of the group by the names of their nodes, and its size.
func (r *poweredRack) status(t *testing.T, cloud *Cloud) (map[string]provider.NodeGroupInstance, int) {
	t.Helper()
	status, err := cloud.groups.NodeGroupStatus(t.Context(), groupOfTests)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]provider.NodeGroupInstance{}
	for _, instance := range status.Instances {
		byName[string(instance.NodeName)] = instance
	}
	return byName, status.TargetSize
}

// power waits until a machine has a power state.
func (r *poweredRack) power(t *testing.T, machine int, want string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("%s is %s", nameOf(machine), want), func(context.Context) error {
		return poll.Holds(r.service.Power(nameOf(machine)) == want)
	})
}

// join creates the node of a machine, or changes it.
func (r *poweredRack) join(t *testing.T, machine int, edit func(*v1.Node)) {
	t.Helper()
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(machine), UID: "uid-" + "1"}, Spec: v1.NodeSpec{ProviderID: idOf(machine)},
		Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(time.Now())}}},
	}
	edit(node)
	nodes := r.client.CoreV1().Nodes()
	if _, err := nodes.Get(t.Context(), node.Name, metav1.GetOptions{}); err == nil {
		if _, err := nodes.Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		return
	}
	if _, err := nodes.Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
