package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/controller/node/pace"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

const old = 1000 * time.Hour

// An old node to which nothing happens is looked up once in the first round and then once in 320 minutes, however it reports.
func TestWhereNothingHappensNodesAreLookedUpSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.add("n", old)
		r.lead()
		if got := r.during("n", 10*time.Minute); got != 1 {
			t.Errorf("%d lookups within the first 10 minutes, want one", got)
		}
		before := r.count("n")
		for range 7 * 320 {
			r.change("n", heartbeat)
			time.Sleep(time.Minute)
		}
		if got := r.count("n") - before; got != 7 {
			t.Errorf("%d lookups within 7 times 320 minutes, want 7", got)
		}
		if r.queue.Len() > 1 { // it was queued when it appeared
			t.Errorf("%d nodes are to be changed, want none", r.queue.Len())
		}
	})
}

// Each need is answered by one lookup within seconds, and a change that is no need costs nothing.
func TestEachNeedIsOneLookup(t *testing.T) {
	for name, test := range map[string]struct {
		node   []edit
		change []edit
		want   int
	}{
		"it rebooted":                   {change: []edit{func(n *corev1.Node) { n.Status.NodeInfo.BootID = "2" }}, want: 1},
		"it is ready again":             {node: []edit{readyNow(corev1.ConditionUnknown)}, change: []edit{readyNow(corev1.ConditionTrue)}, want: 1},
		"another node IP":               {change: []edit{withNodeIP("10.0.0.9")}, want: 1},
		"other addresses":               {change: []edit{withAddresses(internalIP("10.0.0.9"))}, want: 1},
		"another zone":                  {change: []edit{withLabels(corev1.LabelTopologyZone, "b")}},
		"a zone is gone":                {change: []edit{func(n *corev1.Node) { delete(n.Labels, corev1.LabelTopologyZone) }}},
		"a provider ID":                 {node: []edit{withID("")}, change: []edit{withID("sim://n")}, want: 1},
		"it is ignored no more":         {node: []edit{withAnnotation(ownership.AnnotationIgnore, "true")}, change: []edit{withAnnotation(ownership.AnnotationIgnore, "false")}, want: 1},
		"all at once":                   {change: []edit{readyNow(corev1.ConditionTrue), withNodeIP("10.0.0.9"), withAddresses(internalIP("10.0.0.9"))}, want: 1},
		"a heartbeat":                   {change: []edit{heartbeat}},
		"a foreign label":               {change: []edit{withLabels("app", "x")}},
		"an annotation of others":       {change: []edit{withAnnotation("app", "x")}},
		"a taint":                       {change: []edit{withTaints(otherTaint)}},
		"it is cordoned":                {change: []edit{func(n *corev1.Node) { n.Spec.Unschedulable = true }}},
		"the boot ID becomes known":     {node: []edit{func(n *corev1.Node) { n.Status.NodeInfo.BootID = "" }}, change: []edit{func(n *corev1.Node) { n.Status.NodeInfo.BootID = "2" }}},
		"ready with another heartbeat":  {change: []edit{heartbeat, heartbeat}},
		"a foreign node rebooted":       {node: []edit{withAnnotation(ownership.AnnotationIgnore, "true")}, change: []edit{func(n *corev1.Node) { n.Status.NodeInfo.BootID = "2" }}},
		"a node being deleted rebooted": {node: []edit{func(n *corev1.Node) { now := metav1.Now(); n.DeletionTimestamp = &now }}, change: []edit{func(n *corev1.Node) { n.Status.NodeInfo.BootID = "2" }}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.add("n", old, test.node...)
				r.add("other", old)
				r.lead()
				time.Sleep(30 * time.Minute) // the first round is over, and its answers are too old to be used
				others := r.count("other")
				for r.during("n", time.Minute)+r.during("n", time.Minute) > 0 { // no turn of its own is near
				}
				before := r.count("n")
				if got := r.during("n", 5*time.Second, func() { r.change("n", test.change...) }); got != test.want {
					t.Errorf("%d lookups within 5 seconds, want %d", got, test.want)
				}
				r.change("n", heartbeat)
				if got := r.during("n", 4*time.Minute); got != 0 || r.count("n")-before != test.want {
					t.Errorf("%d lookups within 4 minutes after that, want none", got)
				}
				if got := r.count("other"); got != others {
					t.Errorf("another node was looked up %d times for it", got-others)
				}
			})
		})
	}
}

// What the cloud shows otherwise reaches the queue, by any lookup; and our own write of it is no need.
func TestOurOwnWritesAreNoNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := ledForLong(t)
		r.says("n", func() (*cloudprovider.InstanceMetadata, error) {
			return &cloudprovider.InstanceMetadata{ProviderID: "sim://n", Zone: "b", NodeAddresses: addresses(internalIP("10.0.0.2"))}, nil
		})
		item, _ := r.queue.Get() // what the node's appearance has put there
		r.queue.Done(item)
		reboots := func() { r.change("n", func(n *corev1.Node) { n.Status.NodeInfo.BootID = "2" }) }
		if got := r.during("n", 5*time.Second, reboots); got != 1 || r.queue.Len() != 1 {
			t.Fatalf("%d lookups and %d nodes to be changed, want one of each", got, r.queue.Len())
		}
		r.change("n", withAddresses(internalIP("10.0.0.2")))
		r.change("n", withLabels(corev1.LabelTopologyZone, "b", corev1.LabelFailureDomainBetaZone, "b"))
		if got := r.during("n", 4*time.Minute); got != 0 {
			t.Errorf("%d lookups because of our own writes, want none", got)
		}
	})
}

// TestANodeThatWasReplacedHasATurn: a node that was replaced while the watch was interrupted is another node, and has a turn.
func TestANodeThatWasReplacedHasATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := ledForLong(t)
		isReplaced := func() { r.change("n", func(n *corev1.Node) { n.UID = "another" }) }
		if got := r.during("n", 10*time.Minute, isReplaced); got != 1 {
			t.Errorf("%d lookups within 10 minutes, want one", got)
		}
	})
}

// A node that flaps costs no more than the reference's interval, but for the first time.
func TestANodeThatFlapsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := ledForLong(t)
		before := r.count("n")
		for range 360 {
			r.change("n", readyNow(corev1.ConditionFalse))
			time.Sleep(5 * time.Second)
			r.change("n", readyNow(corev1.ConditionTrue), withAddresses(hostName(fmt.Sprint(time.Now().Unix()))))
			time.Sleep(5 * time.Second)
		}
		if got := r.count("n") - before; got < 12 || got > 14 {
			t.Errorf("%d lookups within an hour, want one in 5 minutes, and one or two more", got)
		}
	})
}

// TestNodesWhoseLookupsFailDelayNoOthers: lookups that fail or hang are repeated at pauses that grow to the interval, never twice at a time. They hold
// up no other node.
func TestNodesWhoseLookupsFailDelayNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 12 {
			r.add(fmt.Sprint("n-", i), old)
		}
		for _, name := range []string{"fails", "hangs-1", "hangs-2"} {
			r.add(name, old)
			r.says(name, func() (*cloudprovider.InstanceMetadata, error) { return nil, errors.New("no answer") })
		}
		r.cloud.hangs["hangs-1"], r.cloud.hangs["hangs-2"] = true, true
		r.lead()
		time.Sleep(time.Hour)
		fails, hangs := r.count("fails"), r.count("hangs-1")
		for i := range 12 {
			name := fmt.Sprint("n-", i)
			reboots := func() { r.change(name, func(n *corev1.Node) { n.Status.NodeInfo.BootID += "2" }) }
			if got := r.during(name, 5*time.Second, reboots); got != 1 {
				t.Errorf("%d lookups of the healthy node %s within 5 seconds after its reboot, want one", got, name)
			}
			for _, name := range []string{"fails", "hangs-1"} {
				r.change(name, func(n *corev1.Node) { n.Status.NodeInfo.BootID += "2" })
			}
			time.Sleep(10 * time.Minute)
		}
		if got := r.count("fails") - fails; got < 20 || got > 25 {
			t.Errorf("%d lookups within 2 hours of a node for which the cloud returns errors, want one in 5 minutes", got)
		}
		if got := r.count("hangs-1") - hangs; got < 15 || got > 21 {
			t.Errorf("%d lookups within 2 hours of a node for which the cloud hangs, want one in 6 minutes", got)
		}
		if r.cloud.twice {
			t.Error("a node was asked for twice at a time")
		}
		r.says("fails", r.cloud.answer["n-0"])
		if got := r.during("fails", 6*time.Minute); got == 0 {
			t.Error("a node is not asked for again within 5 minutes")
		}
	})
}

// TestAChangeOfLeader: a standby asks for no node. When it leads, it responds at once to recent changes, and looks at all nodes within seconds.
func TestAChangeOfLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 400
		r := newRig(t)
		for i := range nodes {
			r.add(fmt.Sprint("n-", i), old)
		}
		r.add("long-ago", old)
		r.add("just-now", old)
		r.change("long-ago", func(n *corev1.Node) { n.Status.NodeInfo.BootID = "2" })
		time.Sleep(time.Hour)
		r.change("just-now", func(n *corev1.Node) { n.Status.NodeInfo.BootID = "2" })
		time.Sleep(10 * time.Second)
		if got := r.all(); got != 0 {
			t.Fatalf("%d lookups by a standby, want none", got)
		}
		if got := r.during("just-now", time.Second, r.lead); got != 1 {
			t.Errorf("%d lookups of a node that rebooted just before, want one", got)
		}
		if got := r.all(); got > nodes/5 {
			t.Errorf("%d lookups at once of %d nodes, want a tenth", got, nodes)
		}
		time.Sleep(pace.FirstRound)
		if got := r.all(); got != nodes+2 {
			t.Errorf("%d lookups in the first round of %d nodes, want one of each", got, nodes+2)
		}
		time.Sleep(6 * time.Minute) // those whose turn comes before their shortest pause has passed
		if got := r.all(); got > nodes+2+nodes/20 {
			t.Errorf("%d lookups in the first minutes of %d nodes, want one of each, and of few a second one", got, nodes)
		}
		before := r.all()
		time.Sleep(time.Hour)
		if got := r.all() - before; got > nodes/4 {
			t.Errorf("%d lookups in the hour after that, want about %d", got, nodes*60/320)
		}
	})
}

// An address that comes late is seen within 5 minutes after a node has joined, as in the reference. That it becomes ready for the first
// time is no reason of its own.
func TestYoungNodesAreLookedAtAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		r.add("n", 0, withTaints(cloudTaint), readyNow(corev1.ConditionFalse))
		if got := r.during("n", 10*time.Second); got != 0 {
			t.Fatalf("%d lookups by the refresh of a node that waits for its initialization", got)
		}
		r.change("n", withTaints())
		r.change("n", readyNow(corev1.ConditionTrue))
		if got := r.during("n", 5*time.Minute); got != 1 {
			t.Errorf("%d lookups within 5 minutes, want one for its age", got)
		}
		if got := r.during("n", 5*time.Minute+time.Second); got != 1 {
			t.Errorf("%d lookups within the 5 minutes after that, want one", got)
		}
	})
}

// Nodes that had to wait for the cloud are young when they are initialized, and are not looked up all at once then.
func TestNodesThatHadToWaitAreYoung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 50
		r := newRig(t)
		r.lead()
		for i := range nodes {
			r.add(fmt.Sprint("n-", i), 0, withTaints(cloudTaint))
		}
		time.Sleep(5 * time.Hour)
		for i := range nodes {
			r.change(fmt.Sprint("n-", i), withTaints())
		}
		time.Sleep(10 * time.Second)
		if got := r.all(); got > 6 {
			t.Errorf("%d lookups of %d nodes just after their initialization", got, nodes)
		}
		time.Sleep(5*time.Minute - 9*time.Second)
		for i := range nodes {
			if r.count(fmt.Sprint("n-", i)) == 0 {
				t.Errorf("node %d was not looked up within 5 minutes", i)
			}
		}
	})
}

// What is denied, differs or is in doubt is looked at once in 5 minutes, as ever: what else is decided by such answers needs a second one soon.
func TestWhatIsNotSettledIsLookedAtAsBefore(t *testing.T) {
	notFound := func() (*cloudprovider.InstanceMetadata, error) { return nil, provider.ErrInstanceNotFound }
	for name, test := range map[string]struct {
		node   []edit
		answer func() (*cloudprovider.InstanceMetadata, error)
	}{
		"denied":       {answer: notFound},
		"no statement": {answer: func() (*cloudprovider.InstanceMetadata, error) { return nil, nil }},
		"in doubt":     {node: []edit{withID("other://1")}, answer: notFound},
		"a host name in place of all addresses": {answer: func() (*cloudprovider.InstanceMetadata, error) {
			return &cloudprovider.InstanceMetadata{ProviderID: "sim://n", NodeAddresses: addresses(hostName("n"))}, nil
		}},
		"a node IP that the cloud does not know": {
			node: []edit{withAnnotation(cloudproviderapi.AnnotationAlphaProvidedIPAddr, "10.9.9.9")}, answer: func() (*cloudprovider.InstanceMetadata, error) {
				return &cloudprovider.InstanceMetadata{ProviderID: "sim://n", NodeAddresses: addresses(internalIP("10.0.0.1"))}, nil
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.add("n", old, test.node...)
				r.says("n", test.answer)
				r.lead()
				time.Sleep(20 * time.Minute)
				if got := r.during("n", 2*time.Hour); got < 23 || got > 25 {
					t.Errorf("%d lookups within 2 hours, want one in 5 minutes", got)
				}
			})
		})
	}
}

// Nodes that may be ours are looked up within 5 minutes after a change of leader: when an instance is gone it is too late to prove its node ours.
func TestNodesInDoubtAreLookedUpFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 20
		r := newRig(t)
		for i := range nodes {
			r.add(fmt.Sprint("n-", i), old, withID(fmt.Sprint("bare-", i)))
			r.says(fmt.Sprint("n-", i), func() (*cloudprovider.InstanceMetadata, error) { return nil, provider.ErrInstanceNotFound })
		}
		r.lead()
		time.Sleep(5*time.Minute + time.Second)
		for i := range nodes {
			if r.count(fmt.Sprint("n-", i)) == 0 {
				t.Errorf("node %d was not looked up", i)
			}
		}
	})
}

// A label that follows its beta label needs no answer, so writing it is no need either, whatever the cloud says.
func TestALabelThatFollowsItsBetaLabelIsNoNeed(t *testing.T) {
	for name, zone := range map[string]string{"as before": "a", "otherwise": "b"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.add("n", old)
				r.lead()
				time.Sleep(30 * time.Minute)
				r.says("n", func() (*cloudprovider.InstanceMetadata, error) {
					return &cloudprovider.InstanceMetadata{ProviderID: "sim://n", Zone: zone, NodeAddresses: addresses(internalIP("10.0.0.1"))}, nil
				})
				r.change("n", withLabels(corev1.LabelTopologyZone, "wrong"))
				time.Sleep(time.Second)
				r.change("n", withLabels(corev1.LabelTopologyZone, "a"))
				if got := r.during("n", 4*time.Minute); got != 0 {
					t.Errorf("%d lookups because of our own write, want none", got)
				}
			})
		})
	}
}

// A node that was registered without an external cloud provider, or lost its taint to another component, is told and counted, and not written.
func TestANodeThatNoManagerInitialized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := ledForLong(t)
		events := record.NewFakeRecorder(10_000)
		r.refresher.recorder = events
		r.add("missed", time.Hour, withID(""))
		r.says("missed", func() (*cloudprovider.InstanceMetadata, error) {
			return &cloudprovider.InstanceMetadata{ProviderID: "sim://missed", Zone: "b"}, nil
		})
		r.during("missed", time.Hour)
		if got := len(events.Events); got < 1 || got > 6 {
			t.Fatalf("%d events within an hour, want some", got)
		}
		if event := <-events.Events; !strings.Contains(event, "Warning NeverInitialized") || !strings.Contains(event, "--cloud-provider=external") {
			t.Errorf("the event is %q", event)
		}
		if got := testutil.ToFloat64(r.refresher.metrics.missed); got != 1 {
			t.Errorf("%v nodes are counted, want one", got)
		}
		r.change("missed", withID("sim://missed"))
		r.during("missed", time.Hour)
		if got := testutil.ToFloat64(r.refresher.metrics.missed); got != 0 {
			t.Errorf("%v nodes are counted although it has its ID", got)
		}
	})
}

// A machine is made again under the name of its node, and the kubelet goes on reporting: the node is told, once, and counted.
func TestAReadyNodeWhoseInstanceIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := ledForLong(t)
		events := record.NewFakeRecorder(10_000) // a full recorder would block the refresher
		r.refresher.recorder = events
		r.add("remade", time.Hour, readyNow(corev1.ConditionTrue))
		r.add("dead", time.Hour, readyNow(corev1.ConditionFalse))
		for _, name := range []string{"remade", "dead"} {
			r.says(name, func() (*cloudprovider.InstanceMetadata, error) { return nil, cloudprovider.InstanceNotFound })
		}
		r.during("remade", time.Hour)
		if got := len(events.Events); got < 1 || got > 6 {
			t.Fatalf("%d events within an hour, want some", got)
		}
		if event := <-events.Events; !strings.Contains(event, "Warning InstanceNotFound") || !strings.Contains(event, "sim://remade") || !strings.Contains(event, "delete the Node") {
			t.Errorf("the event is %q", event)
		}
		if got := testutil.ToFloat64(r.refresher.metrics.denied); got != 1 {
			t.Errorf("%v nodes are counted, want the one that reports", got)
		}
		r.says("remade", func() (*cloudprovider.InstanceMetadata, error) {
			return &cloudprovider.InstanceMetadata{ProviderID: "sim://remade"}, nil
		})
		r.during("remade", time.Hour)
		if got := testutil.ToFloat64(r.refresher.metrics.denied); got != 0 {
			t.Errorf("%v nodes are counted although the cloud has the instance", got)
		}
	})
}
