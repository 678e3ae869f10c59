package metal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mooring-ccm/mooring/dev/bmc/ipmitest"
	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/dev/bmc/redfishtest"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/machines/dead"
	"github.com/mooring-ccm/mooring/providers/metal/machines/nodegroup"
	"github.com/mooring-ccm/mooring/providers/metal/machines/power"
)

// running has machines on at the start, of all BMCs.
func running(machines ...int) func(*poweredRack) {
	return func(r *poweredRack) {
		for _, machine := range machines {
			r.service.SetPower(nameOf(machine), redfishsim.On)
		}
	}
}

// tainted is the taint of a node that the autoscaler removes.
func tainted(node *v1.Node) {
	node.Spec.Taints = []v1.Taint{{Key: names.TaintToBeDeleted, Effect: v1.TaintEffectNoSchedule}}
}

func silent(node *v1.Node) {
	node.Status.Conditions[0].Status = v1.ConditionUnknown
}

// resets is how often a machine was told to change its power.
func (r *poweredRack) resets(machine int) int {
	return r.service.Requests()["POST /redfish/v1/Systems/"+nameOf(machine)+"/Actions/ComputerSystem.Reset"]
}

// cached waits until the leader has a node as it is meant to be.
func (r *poweredRack) cached(t *testing.T, cloud *Cloud, machine int, has func(*v1.Node) bool) {
	t.Helper()
	poll.Until(t, "the leader sees node "+nameOf(machine), func(context.Context) error {
		for _, node := range cloud.instances.knownNodes() {
			if node.Name == nameOf(machine) && has(node) {
				return nil
			}
		}
		return errors.New("it does not")
	})
}

// listed reports whether a machine is in the list of instances.
func (r *poweredRack) listed(t *testing.T, cloud *Cloud, machine int) bool {
	t.Helper()
	found := false
	if err := cloud.instances.List(t.Context(), func(page []provider.Instance) error {
		for _, instance := range page {
			found = found || instance.ProviderID == idOf(machine)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// A machine that the autoscaler removes is shut down, and is no instance once it is off. When it is turned on again it is one before its
// kubelet can register. Machines of no group are not touched.
func TestMachinesSleepAndWake(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for machines to turn on and off, which -short leaves out")
	}
	t.Parallel()
	r := newPoweredRack(t, 4, "minCycleTime: 0s", running(0, 1))
	r.join(t, 0, func(*v1.Node) {})
	r.settled(t, r.Cloud, 2)
	r.cached(t, r.Cloud, 0, func(*v1.Node) bool { return true })
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nameOf(0)}, Spec: v1.NodeSpec{ProviderID: idOf(0)}}
	exists := func() bool {
		found, err := r.instances.InstanceExists(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.instances.InstanceMetadata(t.Context(), node)
		if errors.Is(err, provider.ErrInstanceNotFound) == found {
			t.Errorf("the machine exists: %t; its metadata: %v", found, err)
		}
		return found
	}
	if !exists() || !r.listed(t, r.Cloud, 0) {
		t.Error("a machine that runs does not exist")
	}
	r.join(t, 0, tainted)
	if err := r.groups.DeleteNodeGroupInstances(t.Context(), groupOfTests, []string{idOf(0)}); err != nil {
		t.Fatal(err)
	}
	r.power(t, 0, redfishsim.Off)
	r.join(t, 0, silent)
	poll.Until(t, "the machine is asleep", func(context.Context) error { return poll.Holds(!exists() && !r.listed(t, r.Cloud, 0)) })
	if instances, size := r.status(t, r.Cloud); size != 1 || instances["m0"].ProviderID != "" {
		t.Errorf("a size of %d, instances %v", size, instances)
	}
	if err := r.client.CoreV1().Nodes().Delete(t.Context(), nameOf(0), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.growTo(t, r.Cloud, 3)
	if !exists() || !r.listed(t, r.Cloud, 0) {
		t.Error("a machine that is to be awake does not exist")
	}
	r.power(t, 0, redfishsim.On)
	r.power(t, 2, redfishsim.On)
	poll.Until(t, "all machines run", func(context.Context) error {
		instances, size := r.status(t, r.Cloud)
		for _, instance := range instances {
			if instance.State != provider.NodeGroupInstanceRunning || instance.Error != nil {
				return fmt.Errorf("%+v", instance)
			}
		}
		return poll.Holds(size == 3)
	})
	if r.resets(0) != 2 || r.resets(1) != 0 || r.resets(2) != 1 || r.resets(3) != 0 {
		t.Errorf("resets %v", r.service.Requests())
	}
}

// A machine whose node is ready and has no taint stays on, whatever the caller asks and the cache says; so do a node of the control plane,
// and a machine under maintenance.
func TestNeededMachinesStayOn(t *testing.T) {
	t.Parallel()
	r := newPoweredRack(t, 5, "minCycleTime: 0s", running(0, 1, 2, 3))
	r.join(t, 0, func(*v1.Node) {})
	r.join(t, 1, tainted)
	r.join(t, 2, func(node *v1.Node) {
		tainted(node)
		node.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	})
	r.settled(t, r.Cloud, 4)
	for machine := range 3 {
		r.cached(t, r.Cloud, machine, func(*v1.Node) bool { return true })
	}
	untainted := true
	r.client.PrependReactor("get", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if name := action.(clienttesting.GetAction).GetName(); name != nameOf(1) || !untainted {
			return false, nil, nil
		}
		return true, &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: nameOf(1)}, Spec: v1.NodeSpec{ProviderID: idOf(1)},
			Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
		}, nil
	})
	for machine := range 3 {
		err := r.groups.DeleteNodeGroupInstances(t.Context(), groupOfTests, []string{idOf(3), idOf(machine)})
		if err == nil || !strings.Contains(err.Error(), nameOf(machine)) {
			t.Errorf("deleting %s: %v", nameOf(machine), err)
		}
	}
	if instances, size := r.status(t, r.Cloud); size != 4 || len(instances) != 4 {
		t.Errorf("a size of %d, instances %v", size, instances)
	}
	if err := r.groups.DeleteNodeGroupInstances(t.Context(), groupOfTests, []string{idOf(3)}); err != nil {
		t.Error(err)
	}
	r.power(t, 3, redfishsim.Off)
	if r.resets(0)+r.resets(1)+r.resets(2) != 0 {
		t.Errorf("resets %v", r.service.Requests())
	}
}

// A BMC that hangs and one that refuses delay no other machine. What refuses is an error of the instance, with its class.
func TestOneBMCHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	services := map[int]*redfishsim.Service{}
	r := newPoweredRack(t, 6, "minCycleTime: 0s", func(r *poweredRack) {
		for _, machine := range []int{0, 1} {
			services[machine] = redfishsim.New("admin", "pass", redfishsim.System{ID: "x", UUID: uuidOf(machine), Power: redfishsim.Off})
			endpoint, caFile := redfishtest.Start(t, services[machine])
			r.bmcs[machine] = fmt.Sprintf("{redfish: {endpoint: %q, auth: Basic, caFile: %s}}", endpoint, caFile)
		}
	})
	r.settled(t, r.Cloud, 0)
	end := services[0].Hang()
	defer end()
	services[1].TakeResets("Nmi")
	if err := r.groups.IncreaseNodeGroup(t.Context(), groupOfTests, 5); err != nil {
		t.Fatal(err)
	}
	for machine := 2; machine < 5; machine++ {
		r.power(t, machine, redfishsim.On)
	}
	poll.Until(t, "what the BMC refuses is shown", func(context.Context) error {
		instances, _ := r.status(t, r.Cloud)
		if refused := instances["m1"]; refused.Error == nil || refused.Error.Code != power.ClassUnable || refused.State != provider.NodeGroupInstanceCreating {
			return fmt.Errorf("%+v", refused)
		}
		return nil
	})
	ids := []string{idOf(0), idOf(1), idOf(2)}
	if err := r.groups.DeleteNodeGroupInstances(t.Context(), groupOfTests, ids); err != nil {
		t.Fatal(err)
	}
	r.power(t, 2, redfishsim.Off)
	if instances, size := r.status(t, r.Cloud); size != 2 || instances["m0"].State != provider.NodeGroupInstanceDeleting {
		t.Errorf("a size of %d, instances %v", size, instances)
	}
}

// What machines are to be, and when they were last turned on, survives a change of the leader: they do not wake by it, and one that
// has to rest is shown as an error until it has.
func TestIntentsSurviveARestart(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for machines to turn on and off, which -short leaves out")
	}
	t.Parallel()
	r := newPoweredRack(t, 3, "minCycleTime: 1h")
	stop := r.stop
	r.settled(t, r.Cloud, 0)
	if err := r.groups.IncreaseNodeGroup(t.Context(), groupOfTests, 1); err != nil {
		t.Fatal(err)
	}
	first := 0
	poll.Until(t, "a machine is on", func(context.Context) error {
		if r.service.Power(nameOf(1)) == redfishsim.On {
			first = 1
		}
		return poll.Holds(r.service.Power(nameOf(first)) == redfishsim.On)
	})
	if err := r.groups.DeleteNodeGroupInstances(t.Context(), groupOfTests, []string{idOf(first)}); err != nil {
		t.Fatal(err)
	}
	r.power(t, first, redfishsim.Off)
	stop()
	next := r.lead(t)
	r.settled(t, next, 0)
	poll.Until(t, "the machine is asleep for the next leader", func(context.Context) error { return poll.Holds(!r.listed(t, next, first)) })
	r.growTo(t, next, 2)
	r.power(t, 1-first, redfishsim.On)
	instances, size := r.status(t, next)
	rests := instances[nameOf(first)]
	if size != 2 || rests.State != provider.NodeGroupInstanceCreating || rests.Error == nil || !rests.Error.OutOfResources || rests.Error.Code != "machine-rests" {
		t.Errorf("a size of %d, %+v", size, rests)
	}
	if err := next.groups.DecreaseNodeGroupTarget(t.Context(), groupOfTests, 1); err != nil {
		t.Error(err)
	}
	if r.resets(first) != 2 || r.service.Power(nameOf(first)) != redfishsim.Off {
		t.Errorf("%d resets, and it is %s", r.resets(first), r.service.Power(nameOf(first)))
	}
}

// A machine that does not shut down is turned off by force when its time is over. A group does not turn on a machine that was fenced, until
// an operator has.
func TestMachinesAreForcedOff(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for machines to turn on and off, which -short leaves out")
	}
	t.Parallel()
	r := newPoweredRack(t, 2, "minCycleTime: 0s, shutDownTimeout: 1s", running(0), func(r *poweredRack) {
		r.more = ", outOfService: {enabled: true, fence: {enabled: true}}"
		_, err := r.client.CoordinationV1().Leases(config.DefaultFenceLeaseSpace).Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name:        config.DefaultFenceLeaseName,
			Annotations: map[string]string{dead.AttemptsAnnotation: fmt.Sprintf(`{"machines":{%q:{"at":"2026-01-01T00:00:00Z","count":1,"fenced":true}}}`, uuidOf(0))},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	})
	r.service.TakeResets("ForceOff", "On")
	r.join(t, 0, silent)
	r.settled(t, r.Cloud, 1)
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nameOf(0)}, Spec: v1.NodeSpec{ProviderID: idOf(0)}}
	poll.Until(t, "a machine that is to be awake is on for fencing", func(context.Context) error {
		return poll.Holds(r.instances.Observe(node).State == power.On && !r.instances.GoesToSleep(node))
	})
	if err := r.groups.DeleteNodeGroupInstances(t.Context(), groupOfTests, []string{idOf(0)}); err != nil {
		t.Fatal(err)
	}
	if !r.instances.GoesToSleep(node) {
		t.Error("a machine that is to sleep may be fenced")
	}
	r.power(t, 0, redfishsim.Off)
	if err := r.client.CoreV1().Nodes().Delete(t.Context(), nameOf(0), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the machine is held", func(ctx context.Context) error {
		err := r.groups.IncreaseNodeGroup(ctx, groupOfTests, 1)
		if err == nil {
			t.Fatal("a machine that was fenced is turned on")
		}
		if !strings.Contains(err.Error(), "1 fenced") {
			return err
		}
		return nil
	})
	poll.Until(t, "the machine is asleep", func(context.Context) error { return poll.Holds(!r.listed(t, r.Cloud, 0)) })
	r.service.SetPower(nameOf(0), redfishsim.On)
	r.settled(t, r.Cloud, 1)
	if r.resets(0) != 1 {
		t.Errorf("%d resets", r.resets(0))
	}
}

// IPMI turns machines on and off as Redfish does. The simulated one does not shut down.
func TestMachinesSleepByIPMI(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for machines to turn on and off, which -short leaves out")
	}
	t.Parallel()
	bmc := ipmitest.StartWithGUID(t, "127.0.0.1", "pass", strings.ReplaceAll(uuidOf(0), "-", ""))
	r := newPoweredRack(t, 2, "minCycleTime: 0s, shutDownTimeout: 1s", func(r *poweredRack) {
		r.bmcs[0] = fmt.Sprintf("{ipmi: {address: %q, cipherSuite: 3}}", bmc.Address)
	})
	r.settled(t, r.Cloud, 1)
	is := func(want string) {
		poll.Until(t, "the machine is "+want, func(context.Context) error {
			return poll.Holds(strings.Contains(bmc.Tool("power", "status"), "is "+want))
		})
	}
	if err := r.groups.DeleteNodeGroupInstances(t.Context(), groupOfTests, []string{idOf(0)}); err != nil {
		t.Fatal(err)
	}
	is("off")
	r.growTo(t, r.Cloud, 1)
	is("on")
}

// A replica that does not lead says which groups there are, and nothing of machines: it does not know. No machine sleeps for it.
func TestStandbysKnowGroupsOnly(t *testing.T) {
	t.Parallel()
	r := newPoweredRack(t, 3, "minSize: 1, options: {scaleDownUnneededTime: 5m}")
	source, err := config.OpenFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	standby, err := New(source)
	if err != nil {
		t.Fatal(err)
	}
	defer standby.instances.Close()
	groups := provider.CapabilitiesOf(standby).NodeGroups
	listed, err := groups.ListNodeGroups(t.Context())
	if err != nil || len(listed) != 1 || listed[0].Min != 1 || listed[0].Max != 2 || *listed[0].Options.ScaleDownUnneededTime != 5*time.Minute {
		t.Errorf("%+v, %v", listed, err)
	}
	_, status := groups.NodeGroupStatus(t.Context(), groupOfTests)
	_, template := groups.NodeGroupTemplate(t.Context(), groupOfTests)
	for call, err := range map[string]error{
		"status": status, "template": template, "increase": groups.IncreaseNodeGroup(t.Context(), groupOfTests, 1),
		"decrease": groups.DecreaseNodeGroupTarget(t.Context(), groupOfTests, 1), "delete": groups.DeleteNodeGroupInstances(t.Context(), groupOfTests, nil),
	} {
		if !errors.Is(err, nodegroup.ErrNotLeading) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if !r.listed(t, standby, 0) {
		t.Error("a machine sleeps for a standby")
	}
}
