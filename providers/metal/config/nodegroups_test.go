package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/providers/internal/strict"
)

// groupedMachines are four machines that can be in groups, one that has no BMC, and one whose BMC only says whether it is on.
const groupedMachines = `
inventory:
  defaults: {bmc: {credentials: {username: a, passwordFile: b}}}
  machines:
  - {name: n1, zone: z, machineType: big, labels: {role: worker}, systemUUID: 4c4c4544-0051-3510-8052-000000000001, addresses: [{address: 10.0.0.1}], bmc: {redfish: {endpoint: "https://10.0.9.1"}}}
  - {name: n2, zone: z, machineType: big, labels: {role: worker}, systemUUID: 4c4c4544-0051-3510-8052-000000000002, addresses: [{address: 10.0.0.2}], bmc: {ipmi: {address: 10.0.9.2}}}
  - {name: n3, zone: y, machineType: big, maintenance: true, systemUUID: 4c4c4544-0051-3510-8052-000000000003, addresses: [{address: 10.0.0.3}], bmc: {command: {argv: [/a], powerOn: [/b], powerOff: [/c], shutDown: [/d]}}}
  - {name: n4, zone: y, machineType: small, systemUUID: 4c4c4544-0051-3510-8052-000000000004, addresses: [{address: 10.0.0.4}], bmc: {ipmi: {address: 10.0.9.4}}}
  - {name: bare, zone: x, addresses: [{address: 10.0.0.5}]}
  - {name: mute, zone: w, addresses: [{address: 10.0.0.6}], bmc: {command: {argv: [/a]}}}
`

func TestNodeGroups(t *testing.T) {
	c, err := Read(strings.NewReader(head+groupedMachines+`
nodeGroups:
- name: workers
  machines: {labels: {role: worker}, machineTypes: [big]}
  minSize: 1
  capacity: {cpu: "64", memory: 256Gi, pods: "110", nvidia.com/gpu: "2"}
  labels: {a: b}
  taints: [{key: c, value: d, effect: NoSchedule}]
  options: {scaleDownUnneededTime: 20m, scaleDownUtilizationThreshold: 0.4}
- {name: rest, machines: {zones: [y]}, maxSize: 1, minCycleTime: 0s, shutDownTimeout: 1m, wakeTimeout: 20m}
`), "")
	if err != nil {
		t.Fatal(err)
	}
	workers, rest := c.NodeGroups[0], c.NodeGroups[1]
	if workers.MaxSize != 2 || workers.MinCycleTime.Duration != time.Hour || workers.ShutDownTimeout.Duration != 5*time.Minute ||
		workers.WakeTimeout.Duration != 10*time.Minute || rest.MaxSize != 1 || rest.MinCycleTime.Duration != 0 {
		t.Errorf("groups %+v", c.NodeGroups)
	}
	if c.NodeGroupLease != (NodeGroupLease{"kube-system", "mooring-metal-node-groups"}) {
		t.Errorf("the Lease is %+v", c.NodeGroupLease)
	}
	for i, want := range []string{"[n1 n2]", "[n3 n4]"} {
		var names []string
		for _, machine := range c.MachinesOf(&c.NodeGroups[i]) {
			names = append(names, machine.Name)
		}
		if got := fmt.Sprint(names); got != want {
			t.Errorf("%s has %s, want %s", c.NodeGroups[i].Name, got, want)
		}
	}
}

// Everything that is wrong is said at once, each with its place.
func TestNodeGroupMistakes(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"one group": {`nodeGroups: [{name: A_b, machines: {names: [n1, n1, n9], zones: [nowhere], machineTypes: [huge]}, minSize: -1, maxSize: 7,
  capacity: {cpu: none, memory: "-1"}, labels: {"!": a}, taints: [{key: "", effect: Never}], minCycleTime: 1000h, shutDownTimeout: 1ms, wakeTimeout: 1s,
  options: {scaleDownUtilizationThreshold: 2, scaleDownUnneededTime: -1s, scaleDownUnreadyTime: -1s, maxNodeProvisionTime: -1s}}]`, []string{
			"nodeGroups[0].name", "nodeGroups[0].machines.names[1]", "nodeGroups[0].machines.names[2]", "nodeGroups[0].machines.zones[0]",
			"nodeGroups[0].machines.machineTypes[0]", "nodeGroups[0].minSize", "nodeGroups[0].maxSize", "nodeGroups[0].capacity[cpu]",
			"nodeGroups[0].capacity[memory]", "nodeGroups[0].capacity[pods]", "nodeGroups[0].labels", "nodeGroups[0].taints[0].key",
			"nodeGroups[0].taints[0].effect", "nodeGroups[0].minCycleTime", "nodeGroups[0].shutDownTimeout", "nodeGroups[0].wakeTimeout",
			"nodeGroups[0].options.scaleDownUtilizationThreshold", "nodeGroups[0].options.scaleDownUnneededTime",
			"nodeGroups[0].options.scaleDownUnreadyTime", "nodeGroups[0].options.maxNodeProvisionTime",
		}},
		"groups that overlap": {`nodeGroups: [{name: a, machines: {zones: [z]}}, {name: b, machines: {names: [n2, n4]}}, {name: a, machines: {names: [n3]}, minSize: 1}]`,
			[]string{"nodeGroups[1].machines: Invalid value: \"n2\": is in the group a, too", "nodeGroups[2].name"}},
		"a minimum above the maximum":  {`nodeGroups: [{name: a, machines: {zones: [z]}, minSize: 2, maxSize: 1}]`, []string{"nodeGroups[0].minSize"}},
		"a maximum above the machines": {`nodeGroups: [{name: a, machines: {zones: [z]}, maxSize: 3}]`, []string{"nodeGroups[0].maxSize"}},
		"a machine without a BMC":      {`nodeGroups: [{name: a, machines: {zones: [x]}}]`, []string{"inventory.machines[4].bmc"}},
		"a BMC that turns nothing on": {`nodeGroups: [{name: a, machines: {zones: [w]}}]`, []string{
			"inventory.machines[5].systemUUID", "inventory.machines[5].bmc.command.powerOn", "inventory.machines[5].bmc.command.powerOff",
		}},
		"nothing selected":        {`nodeGroups: [{name: a, machines: {}}]`, []string{"nodeGroups[0].machines", "nodeGroups[0].maxSize"}},
		"a Lease of nothing":      {`nodeGroupLease: {name: a}`, []string{"nodeGroupLease"}},
		"a Lease of a wrong name": {"nodeGroups: [{name: a, machines: {zones: [z]}}]\nnodeGroupLease: {name: A_, namespace: B_}", []string{"nodeGroupLease.namespace", "nodeGroupLease.name"}},
	} {
		t.Run(name, func(t *testing.T) {
			errs := Examine([]byte(head+groupedMachines+test.text+"\n"), "").Errors
			checkErrors(t, errs)
			var said []string
			for _, err := range strict.Merge(nil, errs) {
				said = append(said, err.Error())
			}
			text := strings.Join(said, "\n") + "\n"
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("%s is not said in:\n%s", want, text)
				}
			}
			for _, line := range said {
				known := false
				for _, want := range test.want {
					known = known || strings.HasPrefix(line, want)
				}
				if !known {
					t.Errorf("unexpected: %s", line)
				}
			}
		})
	}
}

// What is valid and hardly meant is said: a group that would not wake, and one that wears machines out.
func TestNodeGroupWarnings(t *testing.T) {
	found := Examine([]byte(head+groupedMachines+"nodeGroups: [{name: a, machines: {zones: [z]}, minCycleTime: 0s}, {name: b, machines: {zones: [y]}, minSize: 1}]\n"), "")
	var fields []string
	for _, warning := range found.Warnings {
		if strings.HasPrefix(warning.Field, "nodeGroups") {
			fields = append(fields, warning.Field)
		}
	}
	if got, want := fmt.Sprint(fields), "[nodeGroups[0].capacity nodeGroups[0].minCycleTime]"; got != want || len(found.Errors) > 0 {
		t.Errorf("warnings about %s, want %s; %v", got, want, found.Errors)
	}
}

// FuzzNodeGroups asserts of groups that are accepted what everything rests on: no machine is in two, each can be turned on and off by
// a BMC that names it, and the sizes are possible.
func FuzzNodeGroups(f *testing.F) {
	for _, text := range []string{
		"- {name: a, machines: {zones: [z]}}\n- {name: b, machines: {zones: [y], machineTypes: [small]}, minSize: 1, maxSize: 1}\n",
		"- {name: a, machines: {names: [n1]}}\n- {name: b, machines: {labels: {role: worker}}}\n", "- {name: a, machines: {zones: [x]}}\n", "[]", "- null\n",
		"- {name: a, machines: {zones: [z]}, capacity: {cpu: 1e3, memory: 1Ei, pods: 0}, taints: [{key: a/b, effect: NoExecute}], minCycleTime: 1ns}\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = head + groupedMachines + "nodeGroups:\n" + text
		if elsewhere.MatchString(text) {
			return
		}
		seen := Examine([]byte(text), "")
		checkErrors(t, seen.Errors)
		c, err := Read(strings.NewReader(text), "")
		if (err == nil) != (len(seen.Errors) == 0) {
			t.Fatalf("examined: %v; read: %v", seen.Errors, err)
		}
		if err != nil {
			return
		}
		member := map[string]string{}
		for i := range c.NodeGroups {
			group := &c.NodeGroups[i]
			machines := c.MachinesOf(group)
			if group.MinSize < 0 || group.MinSize > group.MaxSize || group.MaxSize > len(machines) || group.MaxSize < 1 || group.MinCycleTime.Duration < 0 {
				t.Errorf("group %+v of %d machines", group, len(machines))
			}
			for _, machine := range machines {
				if _, known := KnownUUID(machine.BMCSystemUUID()); machine.BMC == nil || !known || member[machine.Name] != "" {
					t.Errorf("machine %+v, also in %q", machine, member[machine.Name])
				}
				member[machine.Name] = group.Name
			}
		}
	})
}
