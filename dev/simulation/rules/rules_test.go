package rules_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/simulation/double"
	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/rules"
)

// world is a draw with a node and a Service.
func world(events ...draw.Event) draw.Draw {
	return draw.Draw{Nodes: []draw.Node{{Name: "n"}, {Name: "m"}}, Services: []draw.Service{{Name: "s"}}, Events: events}
}

// hanging is a world with a plugin some of whose calls hang, and hung such a call about another Service, from the second minute to the fourth.
func hanging(event draw.Event, characters ...draw.Character) draw.Draw {
	d := world(event)
	d.Plugin.Characters = append(characters, draw.Hanging)
	return d
}

func hung(method string) *double.Call {
	return &double.Call{Method: method, Object: "other", Began: 2 * time.Minute, Ended: 4*time.Minute - time.Second, Overlap: 1, Err: errors.New("reset")}
}

// good is what a manager does that breaks no rule.
func good() double.Record {
	return double.Record{
		Length:      20 * time.Minute,
		Initialized: map[string]time.Duration{"n": time.Second, "m": time.Second},
		Removed:     map[string]time.Duration{"m": 3 * time.Minute},
		Created:     map[string]int{"s": 1},
		Calls: []*double.Call{
			{Method: "InstanceMetadata", Object: "n", Began: 0, Ended: time.Second, Overlap: 1},
			{Method: "EnsureLoadBalancer", Object: "s", Began: 4 * time.Minute, Ended: 4*time.Minute + time.Second, Overlap: 1, Port: 8000, Targets: []string{"m"}},
			{Method: "EnsureLoadBalancer", Object: "s", Began: time.Second, Ended: 2 * time.Second, Overlap: 1, Port: 80, Targets: []string{"n", "m"}},
		},
		Writes:  []double.Write{{At: time.Second, Resource: "nodes", Object: "n"}},
		History: double.History{Samples: []double.Sample{{At: 12 * time.Minute}, {At: 13 * time.Minute}}},
	}
}

// node is a node with taints.
func node(ready bool, taints ...string) *corev1.Node {
	status := corev1.ConditionUnknown
	if ready {
		status = corev1.ConditionTrue
	}
	node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
	for _, key := range taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key})
	}
	return node
}

// deletion is the history of a node that is not Ready for half a minute, or until Mooring deletes it.
func deletion(back bool) []double.Change[corev1.Node] {
	changes := []double.Change[corev1.Node]{{At: time.Minute, Object: "n", Before: node(true), After: node(false)}}
	if back {
		changes = append(changes, double.Change[corev1.Node]{At: 90 * time.Second, Object: "n", Before: node(false), After: node(true)})
	}
	return append(changes, double.Change[corev1.Node]{At: 2 * time.Minute, Object: "n", Ours: true, Before: node(back)})
}

// exists is an answer about the node.
func exists(answer string, at time.Duration) *double.Call {
	return &double.Call{Method: "InstanceExists", Object: "n", Began: at, Ended: at, Overlap: 1, Answer: answer}
}

// update is a call of that name that failed, and asked the question after it. remade is an Ensure that makes another load balancer, because the cloud
// denies the one that is there.
func update(targets ...string) *double.Call {
	return &double.Call{
		Method: "UpdateLoadBalancer", Object: "s", Began: 14 * time.Minute, Ended: 14 * time.Minute, Overlap: 1, Targets: targets, Err: errors.New("failed"),
	}
}

func asked(answer string) *double.Call {
	return &double.Call{Method: "GetLoadBalancer", Object: "s", Began: 14 * time.Minute, Ended: 14 * time.Minute, Overlap: 1, Answer: answer}
}

func remade(address string) *double.Call {
	return &double.Call{
		Method: "EnsureLoadBalancer", Object: "s", Began: 15 * time.Minute, Ended: 15 * time.Minute, Overlap: 1, Port: 8000, Address: address, Denied: true,
	}
}

// serving is a Service with an address and a port.
func serving(address string, port int32) *corev1.Service {
	service := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: port}}}}
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	return service
}

// relabel is the history of a label that Mooring writes and replaces, or that others write and Mooring replaces.
func relabel(key, value string, ours bool) []double.Change[corev1.Node] {
	with := func(value string) *corev1.Node {
		node := node(true)
		node.Labels = map[string]string{key: value}
		return node
	}
	return []double.Change[corev1.Node]{
		{At: time.Minute, Object: "n", Ours: ours, Before: with("before"), After: with(value)},
		{At: 2 * time.Minute, Object: "n", Ours: true, Before: with(value), After: with("cloud")},
	}
}

// TestWrites has writes of Mooring that break no rule.
func TestWrites(t *testing.T) {
	initialized := node(true)
	initialized.Labels = map[string]string{corev1.LabelTopologyZone: "cloud"}
	initialized.Spec.ProviderID = "double://n"
	initialized.Annotations = map[string]string{"mooring.dev/proven": "yes"}
	byHand := node(true, cloudproviderapi.TaintExternalCloudProvider)
	byHand.Labels = map[string]string{corev1.LabelTopologyZone: "by-hand"}
	for _, test := range []struct {
		name   string
		record func(*double.Record)
	}{
		{"a silent node whose instance is denied is deleted", func(r *double.Record) {
			r.NodeChanges, r.Calls = deletion(false), append(r.Calls, exists(double.No, 80*time.Second))
		}},
		{"a zone that Mooring wrote is corrected", func(r *double.Record) {
			r.NodeChanges = relabel(corev1.LabelTopologyZone, "old", true)[1:]
			r.NodeChanges = append([]double.Change[corev1.Node]{{
				At: time.Minute, Object: "n", Ours: true, Before: node(true), After: r.NodeChanges[0].Before,
			}}, r.NodeChanges...)
		}},
		{"a node is initialized", func(r *double.Record) {
			r.NodeChanges = []double.Change[corev1.Node]{{At: time.Minute, Object: "n", Ours: true, Before: byHand, After: initialized}}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			record := good()
			test.record(&record)
			reference := good()
			reference.Calls = record.Calls
			if findings := rules.Check(world(), reference, record); len(findings) > 0 {
				t.Errorf("found %v", findings)
			}
		})
	}
}

// allowance is what a manager may do in a draw, and what it may not.
type allowance struct {
	name, rule         string
	draw               draw.Draw
	reference, mooring func(*double.Record)
	// broken makes of it what breaks the rule.
	broken func(*draw.Draw, *double.Record)
}

// allowances are what looked like a broken rule, and what the reference's source does as well.
var allowances = []allowance{
	{
		name: "a write for each address that the plugin returns, where the reference compares what it handed out with itself", rule: "6",
		draw: world(), mooring: func(r *double.Record) {
			for i := range 10 {
				at := 5*time.Minute + time.Duration(i)*time.Second
				address := string(rune('a' + i))
				r.Calls = append(r.Calls, &double.Call{Method: "EnsureLoadBalancer", Object: "s", Began: at, Ended: at, Overlap: 1, Address: address})
				r.Writes = append(r.Writes, double.Write{At: at, Resource: "services", Object: "s"})
			}
		},
		broken: func(_ *draw.Draw, r *double.Record) {
			for _, call := range r.Calls {
				call.Address = "a"
			}
		},
	},
	{
		name: "three writes for each time that a Service has a load balancer, where the reference compares what it handed out with itself", rule: "6",
		draw: world(), mooring: func(r *double.Record) {
			for i := range 3 {
				at := 5*time.Minute + time.Duration(i)*time.Minute
				r.Calls = append(r.Calls,
					&double.Call{Method: "EnsureLoadBalancerDeleted", Object: "s", Began: at, Ended: at, Overlap: 1},
					&double.Call{Method: "EnsureLoadBalancer", Object: "s", Began: at, Ended: at, Overlap: 1})
				for range 4 {
					r.Writes = append(r.Writes, double.Write{At: at, Resource: "services", Object: "s"})
				}
			}
		},
		broken: func(_ *draw.Draw, r *double.Record) {
			for _, call := range r.Calls {
				if call.Method == "EnsureLoadBalancerDeleted" {
					call.Err = errors.New("failed")
				}
			}
		},
	},
	{
		name: "a write for each initialization of a node, where the reference never manages it", rule: "6", draw: world(),
		mooring: func(r *double.Record) {
			for i := range 6 {
				at := 5*time.Minute + time.Duration(i)*time.Minute
				tainted := node(true, cloudproviderapi.TaintExternalCloudProvider)
				r.NodeChanges = append(r.NodeChanges, double.Change[corev1.Node]{At: at, Object: "n", Ours: true, Before: tainted, After: node(true)})
				r.Writes = append(r.Writes, double.Write{At: at, Resource: "nodes", Object: "n"})
			}
		},
		broken: func(_ *draw.Draw, r *double.Record) {
			for i := range r.NodeChanges {
				r.NodeChanges[i].Before = r.NodeChanges[i].After
			}
		},
	},
	{
		name: "a write for each label that is undone, where the reference never initializes the node", rule: "6",
		draw:      world(draw.Event{At: time.Minute, Kind: draw.HandLabel, Object: "n"}, draw.Event{At: 2 * time.Minute, Kind: draw.HandLabel, Object: "n"}),
		reference: func(r *double.Record) { delete(r.Initialized, "n") },
		mooring: func(r *double.Record) {
			for i := range 5 {
				r.Writes = append(r.Writes, double.Write{At: time.Duration(i) * 30 * time.Second, Resource: "nodes", Object: "n"})
			}
		},
		broken: func(d *draw.Draw, _ *double.Record) { d.Events = nil },
	},
	{
		name: "events for calls that come later than the reference's", rule: "6-events", draw: world(),
		reference: func(r *double.Record) { r.Events = make([]double.EventWrite, 20) },
		mooring: func(r *double.Record) {
			for i := range 6 {
				at := 16*time.Minute + time.Duration(i)*time.Second
				r.Calls = append(r.Calls, &double.Call{Method: "UpdateLoadBalancer", Object: "s", Began: at, Ended: at, Overlap: 1})
				r.Events = append(r.Events, double.EventWrite{At: at, Object: "s"})
			}
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls = good().Calls },
	},
	{
		name: "an event for a route that is not created and one for a node that is deleted", rule: "6-events", draw: world(),
		mooring: func(r *double.Record) {
			r.NodeChanges = deletion(false)
			r.Calls = append(r.Calls, exists(double.No, 80*time.Second), &double.Call{Method: "CreateRoute", Object: "n", Overlap: 1, Err: errors.New("failed")})
			for range 6 {
				r.Events = append(r.Events, double.EventWrite{Object: "n"})
			}
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-1].Err = nil },
	},
	{
		name: "a denial by name of a node without an ID, with the old interfaces", rule: "2b-deleted", draw: world(),
		mooring: func(r *double.Record) {
			r.NodeChanges = deletion(false)
			r.Calls = append(r.Calls, &double.Call{Method: "InstanceID", Object: "n", Began: 80 * time.Second, Ended: 80 * time.Second, Overlap: 1,
				Err: cloudprovider.InstanceNotFound})
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-1].Err = errors.New("failed") },
	},
	{
		name: "writes to a node and to another one of its name", rule: "6", draw: world(),
		mooring: func(r *double.Record) {
			r.NodeChanges = []double.Change[corev1.Node]{{Object: "n", After: node(true)}, {At: 3 * time.Minute, Object: "n", After: node(true)}}
			for i := range 8 {
				r.Writes = append(r.Writes, double.Write{At: time.Duration(i) * time.Minute, Resource: "nodes", Object: "n"})
			}
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.NodeChanges = r.NodeChanges[:1] },
	},
	{
		name: "a node whose instance is deleted before its time is up", rule: "1", draw: world(draw.Event{At: 5 * time.Second, Kind: draw.Leave, Object: "n"}),
		mooring: func(r *double.Record) { delete(r.Initialized, "n") },
		broken:  func(d *draw.Draw, _ *double.Record) { d.Events[0].At = time.Minute },
	},
	{
		name: "a node that is too young to be deleted", rule: "3", draw: world(draw.Event{At: 5 * time.Second, Kind: draw.Leave, Object: "m"}),
		reference: func(r *double.Record) { r.Removed["m"] = time.Minute },
		mooring: func(r *double.Record) {
			delete(r.Initialized, "m")
			r.Removed["m"] = 2*time.Minute + 10*time.Second
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Initialized["m"] = time.Second },
	},
	{
		name: "a node that has been silent for long when its instance goes", rule: "3", draw: world(draw.Event{At: 2 * time.Minute, Kind: draw.Leave, Object: "m"}),
		mooring: func(r *double.Record) {
			r.NodeChanges = []double.Change[corev1.Node]{{At: 2 * time.Minute, Object: "m", Before: node(true), After: node(false)}}
			affirmed := exists(double.Yes, 4*time.Minute)
			affirmed.Object = "m"
			r.Calls = append(r.Calls, affirmed)
			r.Removed["m"] = 4*time.Minute + 45*time.Second
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.NodeChanges[0].At = 4*time.Minute - time.Second },
	},
	{
		name: "a node that a replica which lags affirms", rule: "3",
		draw: draw.Draw{Plugin: draw.Plugin{Characters: []draw.Character{draw.Replicas}, Lag: 90 * time.Second}, Nodes: world().Nodes, Services: world().Services,
			Events: []draw.Event{{At: 2 * time.Minute, Kind: draw.Leave, Object: "m"}}},
		mooring: func(r *double.Record) { r.Removed["m"] = 3*time.Minute + 40*time.Second },
		broken:  func(d *draw.Draw, _ *double.Record) { d.Plugin.Lag = 0 },
	},
	{
		name: "a write of the reference in the place of Mooring", rule: "6-idle", draw: world(),
		mooring: func(r *double.Record) {
			r.Writes = append(r.Writes, double.Write{At: 15 * time.Minute, Object: "m"})
			r.Calls[2].Other = true
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[2].Other = false },
	},
	{
		name: "a node beyond the limit of the nodes that have joined", rule: "3", draw: draw.Draw{
			Nodes:    []draw.Node{{Name: "n"}, {Name: "m"}, {Name: "o"}, {Name: "p", Joins: 10 * time.Minute}},
			Services: world().Services, Events: []draw.Event{{At: 2 * time.Minute, Kind: draw.Leave, Object: "m"}, {At: 2 * time.Minute, Kind: draw.Leave, Object: "o"}},
		},
		mooring: func(r *double.Record) { r.Removed["m"] = 10 * time.Minute },
		broken:  func(d *draw.Draw, _ *double.Record) { d.Nodes[3].Joins = 0 },
	},
	{
		name: "a node that is kept because the cloud denies a node that is ready", rule: "3",
		draw: draw.Draw{Plugin: draw.Plugin{Characters: []draw.Character{draw.Denying}}, Nodes: world().Nodes, Services: world().Services,
			Events: []draw.Event{{At: 2 * time.Minute, Kind: draw.Leave, Object: "m"}}},
		mooring: func(r *double.Record) {
			r.Calls = append(r.Calls, exists(double.No, 3*time.Minute+10*time.Second))
			r.Removed["m"] = 3*time.Minute + 28*time.Second
		},
		broken: func(d *draw.Draw, _ *double.Record) { d.Plugin.Characters = nil },
	},
	{
		name: "addresses that an answer lacked, a status period after the disturbances", rule: "6-idle",
		draw: draw.Draw{Plugin: draw.Plugin{Characters: []draw.Character{draw.PartialSuccess}}, Nodes: world().Nodes, Services: world().Services},
		mooring: func(r *double.Record) {
			r.Writes = append(r.Writes, double.Write{At: 14*time.Minute + 50*time.Second, Resource: "nodes", Object: "m"})
		},
		broken: func(d *draw.Draw, _ *double.Record) { d.Plugin.Characters = nil },
	},
	{
		name: "a node that one process has heard denied before another one leads", rule: "3",
		draw: world(draw.Event{At: 2 * time.Minute, Kind: draw.Leave, Object: "m"},
			draw.Event{At: 3*time.Minute + time.Second, Kind: draw.LeaseLost}),
		mooring: func(r *double.Record) { r.Removed["m"] = 3*time.Minute + 35*time.Second },
		broken:  func(d *draw.Draw, _ *double.Record) { d.Events = d.Events[:1] },
	},
	{
		name: "a node that a process has heard denied which its kubelet starts again after a pause", rule: "3",
		draw: world(draw.Event{At: time.Minute, Kind: draw.Crash}, draw.Event{At: 90 * time.Second, Kind: draw.Restart},
			draw.Event{At: 2 * time.Minute, Kind: draw.Leave, Object: "m"}, draw.Event{At: 3*time.Minute + time.Second, Kind: draw.Restart}),
		mooring: func(r *double.Record) { r.Removed["m"] = 3*time.Minute + 55*time.Second },
		broken:  func(d *draw.Draw, _ *double.Record) { d.Events = d.Events[2:] },
	},
	{
		name: "a node that two processes have heard denied before a third one leads", rule: "3",
		draw: world(draw.Event{At: 2 * time.Minute, Kind: draw.Leave, Object: "m"},
			draw.Event{At: 3*time.Minute + time.Second, Kind: draw.LeaseLost}, draw.Event{At: 3*time.Minute + 20*time.Second, Kind: draw.LeaseLost}),
		mooring: func(r *double.Record) { r.Removed["m"] = 3*time.Minute + 55*time.Second },
		broken:  func(d *draw.Draw, _ *double.Record) { d.Events = d.Events[:2] },
	},
	{
		name: "a node whose second question hangs", rule: "3", draw: world(draw.Event{At: 2 * time.Minute, Kind: draw.Leave, Object: "m"}),
		mooring: func(r *double.Record) {
			hung := &double.Call{Method: "InstanceExists", Object: "m", Began: 3 * time.Minute, Ended: 6 * time.Minute, Overlap: 1, Err: errors.New("lost")}
			r.Calls = append(r.Calls, hung)
			r.Removed["m"] = 6*time.Minute + 25*time.Second
		},
		broken: func(_ *draw.Draw, r *double.Record) {
			r.Calls[len(r.Calls)-1].Err, r.Calls[len(r.Calls)-1].Ended = nil, 3*time.Minute
		},
	},
	{
		name: "a node whose question waits for one that hangs", rule: "3",
		draw: draw.Draw{
			Plugin: draw.Plugin{Characters: []draw.Character{draw.Hanging}}, Nodes: world().Nodes, Services: world().Services,
			Events: []draw.Event{{At: 2 * time.Minute, Kind: draw.Leave, Object: "m"}},
		},
		mooring: func(r *double.Record) {
			hung := &double.Call{Method: "InstanceExists", Object: "n", Began: 3 * time.Minute, Ended: 10 * time.Minute, Overlap: 1, Err: errors.New("lost")}
			r.Calls = append(r.Calls, hung)
			r.Removed["m"] = 4*time.Minute + 20*time.Second
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Removed["m"] += time.Minute },
	},
	{
		name: "a node whose question waits for one that hangs, about a machine that may be off", rule: "3",
		draw: hanging(draw.Event{At: 2 * time.Minute, Kind: draw.Leave, Object: "m"}),
		mooring: func(r *double.Record) {
			hung := &double.Call{Method: "InstanceShutdown", Object: "n", Began: 3 * time.Minute, Ended: 10 * time.Minute, Overlap: 1, Err: errors.New("lost")}
			r.Calls = append(r.Calls, hung)
			r.Removed["m"] = 4*time.Minute + 20*time.Second
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-1].Method = "InstanceMetadata" },
	},
	{
		name: "a node of many machines that go at once, some of whose nodes are still Ready", rule: "3",
		draw: world(draw.Event{At: 2 * time.Minute, Kind: draw.Leave, Object: "m"}),
		mooring: func(r *double.Record) {
			r.NodeChanges = []double.Change[corev1.Node]{{At: time.Second, Object: "n", After: node(true)}}
			r.Calls = append(r.Calls, exists(double.No, 3*time.Minute+5*time.Second))
			r.Removed["m"] = 3*time.Minute + 40*time.Second
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.NodeChanges[0].After = node(false) },
	},
	{
		name: "a node that the reference initializes in the place of Mooring", rule: "1", draw: world(),
		mooring: func(r *double.Record) {
			r.Initialized["n"] = time.Minute
			r.Calls = append(r.Calls, &double.Call{Method: "InstanceMetadata", Object: "n", Began: 59 * time.Second, Ended: 59 * time.Second, Overlap: 1, Other: true})
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-1].Other = false },
	},
	{
		name: "an address that the reference has not written in the place of Mooring", rule: "13", draw: world(),
		mooring: func(r *double.Record) {
			r.Open = []double.Fault{{Rule: "13", Object: "s", Text: "the Service has status [] and its load balancer address a"}}
			r.Calls[2].Other = true
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[2].Other = false },
	},
	{
		name: "a node for which the plugin has not yet let all calls in", rule: "13",
		draw: draw.Draw{Plugin: draw.Plugin{Characters: []draw.Character{draw.OldInterfaces, draw.RefusingLimiter}}, Nodes: world().Nodes, Services: world().Services},
		mooring: func(r *double.Record) {
			r.Open = []double.Fault{{Rule: "13", Object: "m"}}
			r.Calls = append(r.Calls, &double.Call{Method: "NodeAddresses", Object: "m", Began: r.Length - 2*time.Minute, Ended: r.Length - 2*time.Minute, Overlap: 1, Err: errors.New("refused")})
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-1].Err = nil },
	},
	{
		name: "a node whose list fails", rule: "3", draw: world(draw.Event{At: 2 * time.Minute, Kind: draw.Leave, Object: "m"}),
		mooring: func(r *double.Record) {
			failed := &double.Call{Method: "ListInstances", Began: 3*time.Minute + 8*time.Second, Ended: 3*time.Minute + 8*time.Second, Overlap: 1, Err: errors.New("refused")}
			r.Calls = append(r.Calls, failed)
			r.Removed["m"] = 3*time.Minute + 28*time.Second
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-1].Err = nil },
	},
	{
		name: "a new node whose question waits for one that hangs", rule: "1",
		draw: draw.Draw{
			Plugin: draw.Plugin{Characters: []draw.Character{draw.Hanging}}, Nodes: append(world().Nodes, draw.Node{Name: "o"}), Services: world().Services,
		},
		mooring: func(r *double.Record) {
			hung := &double.Call{Method: "InstanceMetadata", Object: "o", Began: time.Second, Ended: 10 * time.Minute, Overlap: 1, Err: errors.New("lost")}
			r.Calls = append(r.Calls, hung)
			r.Initialized["n"] = time.Minute + 10*time.Second
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Initialized["n"] += time.Minute },
	},
	{
		name: "a node that lists which lag affirm", rule: "3",
		draw: draw.Draw{
			Plugin: draw.Plugin{Characters: []draw.Character{draw.Declaring, draw.Lagging}, Lag: time.Minute}, Nodes: world().Nodes, Services: world().Services,
			Events: []draw.Event{{At: 2*time.Minute + 50*time.Second, Kind: draw.Leave, Object: "m"}},
		},
		mooring: func(r *double.Record) { r.Removed["m"] = 4 * time.Minute },
		broken:  func(d *draw.Draw, _ *double.Record) { d.Plugin.Characters = d.Plugin.Characters[:1] },
	},
	{
		name: "a retry that misses the moment from which the cloud affirms the instance", rule: "1",
		draw:      draw.Draw{Plugin: draw.Plugin{Characters: []draw.Character{draw.Denying}}, Nodes: world().Nodes, Services: world().Services},
		reference: func(r *double.Record) { r.Initialized["n"] = 40 * time.Second },
		mooring:   func(r *double.Record) { r.Initialized["n"] = time.Minute },
		broken:    func(d *draw.Draw, _ *double.Record) { d.Plugin.Characters = nil },
	},
	{
		name: "a node that is excluded just before the load balancer goes", rule: "4-excluded",
		draw: world(draw.Event{At: 2 * time.Minute, Kind: draw.Exclude, Object: "n"},
			draw.Event{At: 2*time.Minute + time.Second, Kind: draw.TypeChange, Object: "s", For: time.Minute}),
		reference: func(r *double.Record) { r.Calls[1].Began, r.Calls[1].Ended = 2*time.Minute, 2*time.Minute+time.Second },
		broken:    func(d *draw.Draw, _ *double.Record) { d.Events = d.Events[:1] },
	},
	{
		name: "a node that is excluded, where the limiter refuses the reference's call", rule: "4-excluded",
		draw: draw.Draw{Plugin: draw.Plugin{Characters: []draw.Character{draw.RefusingLimiter}}, Nodes: world().Nodes, Services: world().Services,
			Events: []draw.Event{{At: 3 * time.Minute, Kind: draw.Exclude, Object: "n"}}},
		reference: func(r *double.Record) {
			r.Calls[1].Began, r.Calls[1].Ended, r.Calls[1].Err = 3*time.Minute, 3*time.Minute, errors.New("refused")
		},
		broken: func(d *draw.Draw, _ *double.Record) { d.Plugin.Characters = nil },
	},
	{
		name: "a call about the instance that took a node's name, while one about the instance before does not return", rule: "8-repeated",
		draw: world(draw.Event{At: 2 * time.Minute, Kind: draw.Replaced, Object: "n"}),
		mooring: func(r *double.Record) {
			r.Calls = append(r.Calls,
				&double.Call{Method: "InstanceTypeByProviderID", Object: "n", Began: time.Minute, Ended: 10 * time.Minute, Overlap: 1},
				&double.Call{Method: "InstanceTypeByProviderID", Object: "n", Began: 8 * time.Minute, Ended: 8 * time.Minute, Overlap: 1, Repeated: true})
		},
		broken: func(d *draw.Draw, _ *double.Record) { d.Events = nil },
	},
	{
		name: "what the reference has not done in the place of Mooring two minutes after the disturbances", rule: "13-early", draw: world(),
		mooring: func(r *double.Record) {
			r.Samples[1].Open = []double.Fault{{Rule: "13", Object: "s", At: 13 * time.Minute}}
			r.Calls[2].Other = true
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[2].Other = false },
	},
	{
		name: "what the reference has not done in the place of Mooring, where chance decides", rule: "13",
		draw: draw.Draw{Plugin: draw.Plugin{Characters: []draw.Character{draw.RefusingLimiter}}, Nodes: world().Nodes, Services: world().Services},
		mooring: func(r *double.Record) {
			r.Open = []double.Fault{{Rule: "13", Object: "s"}}
			r.Calls[2].Other = true
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[2].Other = false },
	},
	{
		name: "a port that the Service has already", rule: "13-port", draw: world(draw.Event{At: 3 * time.Minute, Kind: draw.PortChange, Object: "s", Number: 80}),
		reference: func(r *double.Record) { r.Calls[1].Port = 80 },
		broken:    func(_ *draw.Draw, r *double.Record) { r.Calls[2].Port = 8000 },
	},
	{
		name: "a port that changes while a change of another Service's targets hangs, where the plugin declares one place for both", rule: "13-port",
		draw:      hanging(draw.Event{At: 3 * time.Minute, Kind: draw.PortChange, Object: "s", Number: 8000}, draw.Declaring),
		reference: func(r *double.Record) { r.Calls[1].Began, r.Calls[1].Ended = 3*time.Minute, 3*time.Minute+time.Second },
		mooring:   func(r *double.Record) { r.Calls = append(r.Calls, hung("UpdateLoadBalancer")) },
		broken:    func(d *draw.Draw, _ *double.Record) { d.Plugin.Characters = d.Plugin.Characters[1:] },
	},
	{
		name: "a node that is excluded while the Service has no load balancer", rule: "4-excluded",
		draw:      world(draw.Event{At: 3 * time.Minute, Kind: draw.Exclude, Object: "n"}),
		reference: func(r *double.Record) { r.Calls[1].Began, r.Calls[1].Ended = 3*time.Minute, 3*time.Minute+time.Second },
		mooring: func(r *double.Record) {
			deleted := &double.Call{Method: "EnsureLoadBalancerDeleted", Object: "s", Began: 2 * time.Minute, Ended: 2 * time.Minute, Overlap: 1}
			r.Calls = append(r.Calls, deleted)
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-1].Err = errors.New("refused") },
	},
	{
		name: "a node that is excluded after Mooring has deleted it", rule: "4-excluded", draw: world(draw.Event{At: 3 * time.Minute, Kind: draw.Exclude, Object: "m"}),
		reference: func(r *double.Record) {
			r.Calls[1].Began, r.Calls[1].Ended, r.Calls[1].Targets = 3*time.Minute, 3*time.Minute+time.Second, []string{"n"}
		},
		mooring: func(r *double.Record) { r.Calls = slices.Delete(r.Calls, 1, 2) },
		broken:  func(_ *draw.Draw, r *double.Record) { delete(r.Removed, "m") },
	},
	{
		name: "a node that is excluded while a change of another Service's targets hangs", rule: "4-excluded",
		draw:      hanging(draw.Event{At: 3 * time.Minute, Kind: draw.Exclude, Object: "n"}),
		reference: func(r *double.Record) { r.Calls[1].Began, r.Calls[1].Ended = 3*time.Minute, 3*time.Minute+time.Second },
		mooring:   func(r *double.Record) { r.Calls = append(r.Calls, hung("UpdateLoadBalancer")) },
		broken:    func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-1].Method = "EnsureLoadBalancer" },
	},
	{
		name: "a node that is excluded while a change of targets hangs in this process", rule: "4-excluded",
		draw:      hanging(draw.Event{At: 3 * time.Minute, Kind: draw.Exclude, Object: "n"}),
		reference: func(r *double.Record) { r.Calls[1].Began, r.Calls[1].Ended = 3*time.Minute, 3*time.Minute+time.Second },
		mooring:   func(r *double.Record) { r.Calls = append(r.Calls, hung("UpdateLoadBalancer")) },
		broken: func(_ *draw.Draw, r *double.Record) {
			r.Calls = append(r.Calls, &double.Call{Method: "InstanceMetadata", Object: "n", Process: 2, Began: 150 * time.Second, Ended: 150 * time.Second, Overlap: 1})
		},
	},
	{
		name: "a port that changes while another Service is ensured and that hangs", rule: "13-port",
		draw:      hanging(draw.Event{At: 3 * time.Minute, Kind: draw.PortChange, Object: "s", Number: 8000}),
		reference: func(r *double.Record) { r.Calls[1].Began, r.Calls[1].Ended = 3*time.Minute, 3*time.Minute+time.Second },
		mooring:   func(r *double.Record) { r.Calls = append(r.Calls, hung("EnsureLoadBalancer")) },
		broken:    func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-1].Method = "UpdateLoadBalancer" },
	},
	{
		name: "a node that is excluded while a request about the Service times out", rule: "4-excluded",
		draw: world(draw.Event{At: 160 * time.Second, Kind: draw.Timeouts, Object: "s"},
			draw.Event{At: 3 * time.Minute, Kind: draw.Exclude, Object: "n"}),
		reference: func(r *double.Record) { r.Calls[1].Began, r.Calls[1].Ended = 3*time.Minute, 3*time.Minute+time.Second },
		mooring: func(r *double.Record) {
			r.Calls[1].Began, r.Calls[1].Ended = 200*time.Second, 201*time.Second
			r.Refused = map[string][]time.Duration{"s": {199 * time.Second}}
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Refused["s"][0] = 3*time.Minute - time.Second },
	},
	{
		name: "three lookups of load balancers, where the plugin declares calls at the same time", rule: "7-overlap",
		draw: draw.Draw{Plugin: draw.Plugin{Characters: []draw.Character{draw.Declaring}}, Nodes: world().Nodes, Services: world().Services},
		mooring: func(r *double.Record) {
			r.Calls = append(r.Calls, &double.Call{Method: "GetLoadBalancer", Object: "s", Overlap: 3})
		},
		broken: func(d *draw.Draw, _ *double.Record) { d.Plugin.Characters = nil },
	},
	{
		name: "events of each process about what goes on failing", rule: "6-events", draw: world(),
		mooring: func(r *double.Record) {
			r.Starts, r.Events = []time.Duration{0, 5 * time.Minute}, make([]double.EventWrite, 8)
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Starts = r.Starts[:1] },
	},
	{
		name: "what a question that hung until the end of the disturbances would have told", rule: "6-idle",
		draw: draw.Draw{Plugin: draw.Plugin{Characters: []draw.Character{draw.Hanging}}, Nodes: world().Nodes, Services: world().Services},
		mooring: func(r *double.Record) {
			r.Calls = append(r.Calls, &double.Call{Method: "InstanceMetadata", Object: "m", Began: time.Minute, Ended: 10 * time.Minute, Err: errors.New("reset")})
			r.Writes = append(r.Writes, double.Write{At: 14*time.Minute + 50*time.Second, Resource: "nodes", Object: "m"})
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-1].Ended = 9 * time.Minute },
	},
	{
		name: "a new name of an instance, of which the first question after it has not heard because it failed", rule: "6-idle",
		draw: world(draw.Event{At: 6 * time.Minute, Kind: draw.Renamed, Object: "m"}),
		mooring: func(r *double.Record) {
			at := 9*time.Minute + 50*time.Second
			r.Calls = append(r.Calls, &double.Call{Method: "InstanceMetadata", Object: "m", Began: at, Ended: at, Overlap: 1, Err: errors.New("failed")})
			r.Writes = append(r.Writes, double.Write{At: at + 5*time.Minute, Resource: "nodes", Object: "m"})
		},
		broken: func(_ *draw.Draw, r *double.Record) {
			before := r.Calls[len(r.Calls)-1]
			before.Began, before.Ended = 5*time.Minute, 5*time.Minute
		},
	},
	{
		name: "what a check says of a load balancer that a deletion took late", rule: "6-idle",
		draw: draw.Draw{Plugin: draw.Plugin{Characters: []draw.Character{draw.EventualDeletion}}, Nodes: world().Nodes, Services: world().Services,
			Events: []draw.Event{{At: time.Minute, Kind: draw.TypeChange, Object: "s", For: time.Minute}}},
		mooring: func(r *double.Record) {
			r.Calls = append(r.Calls, &double.Call{Method: "GetLoadBalancer", Object: "s", Began: 14 * time.Minute, Ended: 14 * time.Minute, Overlap: 1, Answer: double.No})
			r.Writes = append(r.Writes, double.Write{At: 15 * time.Minute, Resource: "services", Object: "s"})
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-1].Answer = double.Yes },
	},
	{
		name: "an update that the reference gives up in the place of Mooring, because the cloud denies it the load balancer", rule: "13", draw: world(),
		mooring: func(r *double.Record) {
			r.Open = []double.Fault{{Rule: "13", Object: "s", Targets: []string{"o"}}}
			r.Calls = append(r.Calls, update("n", "m", "o"), asked(double.No))
			for _, call := range r.Calls[3:] {
				call.Denied, call.Other = true, true
			}
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[3].Denied = false },
	},
	{
		name: "a target that such an update takes away", rule: "13", draw: world(),
		mooring: func(r *double.Record) {
			r.Open = []double.Fault{{Rule: "13", Object: "s", Targets: []string{"n"}}}
			r.Calls = append(r.Calls, update("m"), asked(double.No))
			for _, call := range r.Calls[3:] {
				call.Denied, call.Other = true, true
			}
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Open[0].Targets = []string{"m"} },
	},
	{
		name: "a load balancer that the cloud denies to the Ensure after an update that failed", rule: "5-second", draw: world(),
		mooring: func(r *double.Record) {
			r.Created["s"] = 2
			r.Calls = append(r.Calls, update("n", "m", "o"), asked(""), asked(double.Yes), remade("b"))
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[4].Answer = double.No },
	},
	{
		name: "a load balancer that the cloud denies to the Ensure after a change", rule: "5-second", draw: world(),
		mooring: func(r *double.Record) {
			r.Created["s"] = 2
			r.ServiceChanges = []double.Change[corev1.Service]{{At: 15 * time.Minute, Object: "s", Before: serving("a", 80), After: serving("a", 8000)}}
			r.Calls = append(r.Calls, remade("b"))
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.ServiceChanges[0].At = 0 },
	},
	{
		name: "a load balancer that the cloud denies to the Ensure after a port that changed as the Ensure before began", rule: "5-second", draw: world(),
		mooring: func(r *double.Record) {
			r.Created["s"] = 2
			r.ServiceChanges = []double.Change[corev1.Service]{{At: time.Second, Object: "s", Before: serving("a", 80), After: serving("a", 8000)}}
			r.Calls = append(r.Calls, remade("b"))
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-1].Port = r.Calls[2].Port },
	},
	{
		name: "a load balancer that the cloud denies to the first Ensure of a process", rule: "5-second", draw: world(),
		mooring: func(r *double.Record) {
			r.Created["s"] = 2
			r.Calls = append(r.Calls, remade("b"))
			r.Calls[3].Process = 1
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[3].Process = 0 },
	},
	{
		name: "a load balancer that the cloud denies to the Ensure after one that failed", rule: "5-second", draw: world(),
		mooring: func(r *double.Record) {
			r.Created["s"] = 2
			r.Calls[2].Err = errors.New("failed")
			r.Calls = append(r.Calls, remade("b"))
		},
		broken: func(_ *draw.Draw, r *double.Record) {
			succeeded := *r.Calls[2]
			succeeded.Err = nil
			r.Calls[2] = &succeeded
		},
	},
	{
		name: "a load balancer that the cloud denies to the Ensure after a write that the API server refused", rule: "5-second", draw: world(),
		mooring: func(r *double.Record) {
			r.Created["s"] = 2
			r.Calls, r.Refused = append(r.Calls, remade("b")), map[string][]time.Duration{"s": {2 * time.Second}}
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[3].Denied = false },
	},
	{
		name: "the address of a load balancer that was made because the cloud denied the first one", rule: "5-address", draw: world(),
		mooring: func(r *double.Record) {
			r.Created["s"] = 2
			r.Calls = append(r.Calls, update("n", "m", "o"), asked(double.Yes), remade("b"))
			r.Faults = []double.Fault{{Rule: "5-address", Object: "s", At: 16 * time.Minute}}
			r.ServiceChanges = []double.Change[corev1.Service]{{At: 16 * time.Minute, Object: "s", Ours: true, Before: serving("a", 80), After: serving("b", 80)}}
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.ServiceChanges[0].After = serving("c", 80) },
	},
	{
		name: "the address of a load balancer that a deletion took late, and that was denied for ten minutes", rule: "5-address",
		draw: draw.Draw{Plugin: draw.Plugin{Characters: []draw.Character{draw.EventualDeletion}}, Nodes: world().Nodes, Services: world().Services,
			Events: []draw.Event{{At: time.Minute, Kind: draw.TypeChange, Object: "s", For: time.Minute}}},
		mooring: func(r *double.Record) {
			made := remade("b")
			made.Denied = false
			r.Calls = append(r.Calls,
				&double.Call{Method: "GetLoadBalancer", Object: "s", Began: 4 * time.Minute, Ended: 4 * time.Minute, Overlap: 1, Answer: double.No}, made)
			r.Faults = []double.Fault{{Rule: "5-address", Object: "s", At: 16 * time.Minute}}
			r.ServiceChanges = []double.Change[corev1.Service]{{At: 16 * time.Minute, Object: "s", Ours: true, Before: serving("a", 80), After: serving("b", 80)}}
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-2].Ended = 6 * time.Minute },
	},
	{
		name: "a load balancer that a deletion took late, and that is denied for less than ten minutes at the end", rule: "13",
		draw: draw.Draw{Plugin: draw.Plugin{Characters: []draw.Character{draw.EventualDeletion}}, Nodes: world().Nodes, Services: world().Services,
			Events: []draw.Event{{At: time.Minute, Kind: draw.TypeChange, Object: "s", For: time.Minute}}},
		mooring: func(r *double.Record) {
			r.Open = []double.Fault{{Rule: "13", Object: "s"}}
			r.Calls = append(r.Calls, &double.Call{Method: "GetLoadBalancer", Object: "s", Began: 9 * time.Minute, Ended: 9 * time.Minute, Overlap: 1, Answer: double.No})
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-1].Ended = 6 * time.Minute },
	},
	{
		name: "a load balancer that a deletion took late, and that the reference, in the place of Mooring, does not make again", rule: "13",
		draw: draw.Draw{Plugin: draw.Plugin{Characters: []draw.Character{draw.EventualDeletion}}, Nodes: world().Nodes, Services: world().Services,
			Events: []draw.Event{{At: time.Minute, Kind: draw.TypeChange, Object: "s", For: time.Minute}}},
		mooring: func(r *double.Record) {
			r.Open = []double.Fault{{Rule: "13", Object: "s"}}
			r.Calls = append(r.Calls,
				&double.Call{Method: "GetLoadBalancer", Object: "s", Began: 6 * time.Minute, Ended: 6 * time.Minute, Overlap: 1, Answer: double.No, Other: true})
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-1].Other = false },
	},
	{
		name: "a node that the reference initializes after another process has taken its lease", rule: "1", draw: world(draw.Event{At: 3 * time.Minute, Kind: draw.LeaseLost}),
		reference: func(r *double.Record) {
			r.Initialized["n"] = 3*time.Minute + 5*time.Second
			r.Calls = append(r.Calls, &double.Call{Method: "InstanceMetadata", Object: "n", Process: 1, Began: 4 * time.Minute, Overlap: 1})
		},
		mooring: func(r *double.Record) { r.Initialized["n"] = 4*time.Minute + 10*time.Second },
		broken:  func(d *draw.Draw, _ *double.Record) { d.Events[0].At = 2 * time.Minute },
	},
	{
		name: "a node that joins while two processes end, one after the other", rule: "1",
		draw:      world(draw.Event{At: 2*time.Minute + 5*time.Second, Kind: draw.LeaseLost}, draw.Event{At: 2*time.Minute + 15*time.Second, Kind: draw.LeaseLost}),
		reference: func(r *double.Record) { r.Initialized["n"] = 2 * time.Minute },
		mooring:   func(r *double.Record) { r.Initialized["n"] = 2*time.Minute + 45*time.Second },
		broken:    func(d *draw.Draw, _ *double.Record) { d.Events = d.Events[:1] },
	},
	{
		name: "a node that joins before a process ends which its kubelet starts again after a pause", rule: "1",
		draw: world(draw.Event{At: time.Minute, Kind: draw.Crash}, draw.Event{At: 90 * time.Second, Kind: draw.Restart},
			draw.Event{At: 2*time.Minute + 5*time.Second, Kind: draw.Restart}),
		reference: func(r *double.Record) { r.Initialized["n"] = 2 * time.Minute },
		mooring:   func(r *double.Record) { r.Initialized["n"] = 2*time.Minute + 45*time.Second },
		broken:    func(d *draw.Draw, _ *double.Record) { d.Events = d.Events[2:] },
	},
	{
		name: "a node that is excluded after another process has taken the lease of the reference, which goes on for a while", rule: "4-excluded",
		draw: world(draw.Event{At: 3 * time.Minute, Kind: draw.LeaseLost}, draw.Event{At: 3*time.Minute + 2*time.Second, Kind: draw.Exclude, Object: "n"}),
		reference: func(r *double.Record) {
			r.Calls[1].Began, r.Calls[1].Ended = 3*time.Minute+2*time.Second, 3*time.Minute+3*time.Second
			r.Calls = append(r.Calls, &double.Call{Method: "InstanceMetadata", Object: "n", Process: 1, Began: 4 * time.Minute, Overlap: 1})
		},
		mooring: func(r *double.Record) {
			r.Calls[1].Began, r.Calls[1].Ended = 4*time.Minute+10*time.Second, 4*time.Minute+11*time.Second
		},
		broken: func(d *draw.Draw, _ *double.Record) { d.Events[0].At = 2 * time.Minute },
	},
	{
		name: "a node that is excluded before two processes end, one after the other", rule: "4-excluded",
		draw: world(draw.Event{At: 3 * time.Minute, Kind: draw.Exclude, Object: "n"}, draw.Event{At: 3*time.Minute + time.Second, Kind: draw.LeaseLost},
			draw.Event{At: 3*time.Minute + 15*time.Second, Kind: draw.LeaseLost}),
		reference: func(r *double.Record) { r.Calls[1].Began, r.Calls[1].Ended = 3*time.Minute, 3*time.Minute+time.Second },
		mooring: func(r *double.Record) {
			r.Calls[1].Began, r.Calls[1].Ended = 3*time.Minute+40*time.Second, 3*time.Minute+41*time.Second
		},
		broken: func(d *draw.Draw, _ *double.Record) { d.Events = d.Events[:2] },
	},
	{
		name: "a node that is excluded while many Services are made", rule: "4-excluded",
		draw: world(draw.Event{At: 3 * time.Minute, Kind: draw.Exclude, Object: "n"}, draw.Event{At: 3 * time.Minute, Kind: draw.Bulk, For: 10 * time.Second}),
		reference: func(r *double.Record) {
			r.Calls[1].Began, r.Calls[1].Ended = 3*time.Minute, 3*time.Minute+10*time.Second
		},
		mooring: func(r *double.Record) {
			r.Calls[1].Began, r.Calls[1].Ended = 3*time.Minute+30*time.Second, 3*time.Minute+31*time.Second
			r.Calls = append(r.Calls, &double.Call{Method: "EnsureLoadBalancer", Object: "other", Began: 3 * time.Minute, Ended: 3*time.Minute + 10*time.Second, Overlap: 1})
		},
		broken: func(_ *draw.Draw, r *double.Record) { r.Calls[len(r.Calls)-1].Object = "s" },
	},
}

func TestAllowances(t *testing.T) {
	for _, test := range allowances {
		t.Run(test.name, func(t *testing.T) {
			reference, mooring := good(), good()
			for record, change := range map[*double.Record]func(*double.Record){&reference: test.reference, &mooring: test.mooring} {
				if change != nil {
					change(record)
				}
			}
			// What is due for these calls, rule 7 says of the same calls by the reference.
			reference.Calls = append(reference.Calls, mooring.Calls...)
			if findings := rules.Check(test.draw, reference, mooring); len(findings) > 0 {
				t.Errorf("found %v", findings)
			}
			test.broken(&test.draw, &mooring)
			if findings := rules.Check(test.draw, reference, mooring); len(findings) != 1 || findings[0].Rule != test.rule {
				t.Errorf("found %v, want rule %s", findings, test.rule)
			}
		})
	}
}

func TestRules(t *testing.T) {
	late := draw.Event{At: 3 * time.Minute, Kind: draw.PortChange, Object: "s", Number: 8000}
	exclude := draw.Event{At: 3 * time.Minute, Kind: draw.Exclude, Object: "n"}
	leave := draw.Event{At: time.Minute, Kind: draw.Leave, Object: "m"}
	for _, test := range []struct {
		rule   string
		event  draw.Event
		broken func(*double.Record)
	}{
		{"1", late, func(r *double.Record) { r.Initialized["n"] = time.Minute }},
		{"1", late, func(r *double.Record) { delete(r.Initialized, "n") }},
		{"2a-deleted", late, func(r *double.Record) { r.Faults = []double.Fault{{Rule: "2a-deleted", Object: "n"}} }},
		{"2b-deleted", late, func(r *double.Record) { r.NodeChanges = deletion(true) }},
		{"2b-deleted", late, func(r *double.Record) { r.NodeChanges = deletion(false) }},
		{"2b-deleted", late, func(r *double.Record) {
			r.NodeChanges = deletion(false)
			r.Calls = append(r.Calls, exists(double.No, 80*time.Second), exists(double.Yes, 85*time.Second))
		}},
		{"2b-tainted", late, func(r *double.Record) {
			r.NodeChanges = []double.Change[corev1.Node]{
				{At: time.Minute, Object: "n", Before: node(true), After: node(false)},
				{At: 2 * time.Minute, Object: "n", Ours: true, Before: node(false), After: node(false, cloudproviderapi.TaintNodeShutdown)},
			}
		}},
		{"2b-untainted", late, func(r *double.Record) {
			r.NodeChanges = []double.Change[corev1.Node]{
				{At: time.Minute, Object: "n", Ours: true, Before: node(false, cloudproviderapi.TaintNodeShutdown), After: node(false)},
			}
		}},
		{"3", leave, func(r *double.Record) { delete(r.Removed, "m") }},
		{"4", late, func(r *double.Record) { r.Calls[1].Missing = []string{"n"} }},
		{"4-excluded", exclude, func(r *double.Record) {
			r.Calls[1].Targets = []string{"n", "m"}
		}},
		{"5-second", late, func(r *double.Record) { r.Created["s"] = 2 }},
		{"6", late, func(r *double.Record) {
			for range 5 {
				r.Writes = append(r.Writes, r.Writes[0])
			}
		}},
		{"6-idle", late, func(r *double.Record) { r.Writes = append(r.Writes, double.Write{At: 15 * time.Minute, Object: "m"}) }},
		{"6-events", late, func(r *double.Record) { r.Events = make([]double.EventWrite, 5) }},
		{"7-count", late, func(r *double.Record) {
			for range 100 {
				r.Calls = append(r.Calls, &double.Call{Method: "EnsureLoadBalancerDeleted", Object: "s", Overlap: 1})
			}
		}},
		{"7-overlap", late, func(r *double.Record) { r.Calls[0].Overlap = 3 }},
		{"8-ended", late, func(r *double.Record) { r.Calls[0].Withdrawn = time.Second }},
		{"8-repeated", late, func(r *double.Record) { r.Calls[0].Repeated = true }},
		{"9", late, func(r *double.Record) { r.Calls[0].Shared = "its node is shared" }},
		{"10", late, func(r *double.Record) { r.NodeChanges = relabel(corev1.LabelTopologyZone, "by-hand", false) }},
		{"10", late, func(r *double.Record) { r.NodeChanges = relabel("example.com/label", "theirs", false) }},
		{"10", late, func(r *double.Record) {
			after := node(true)
			after.Status.Conditions[0].Reason = "KubeletReady"
			r.NodeChanges = []double.Change[corev1.Node]{{At: time.Minute, Object: "n", Ours: true, Before: node(true), After: after}}
		}},
		{"10", late, func(r *double.Record) {
			after := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
			r.ServiceChanges = []double.Change[corev1.Service]{{At: time.Minute, Object: "s", Ours: true, Before: &corev1.Service{}, After: after}}
		}},
		{"11", late, func(r *double.Record) { r.Ends = []string{errors.New("fatal").Error()} }},
		{"13", late, func(r *double.Record) { r.Open = []double.Fault{{Rule: "13", Object: "s"}} }},
		{"13-early", late, func(r *double.Record) {
			r.Samples[1].Open = []double.Fault{{Rule: "13", Object: "s", At: 13 * time.Minute}}
		}},
		{"13-port", late, func(r *double.Record) { r.Calls[1].Port = 80 }},
	} {
		t.Run(test.rule, func(t *testing.T) {
			d := world(test.event)
			if findings := rules.Check(d, good(), good()); len(findings) > 0 {
				t.Fatalf("a good record breaks %v", findings)
			}
			broken := good()
			test.broken(&broken)
			findings := rules.Check(d, good(), broken)
			if len(findings) != 1 || findings[0].Rule != test.rule {
				t.Errorf("found %v", findings)
			}
		})
	}
}
