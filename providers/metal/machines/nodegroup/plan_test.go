package nodegroup

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
)

// noon is the time of these tests.
func noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

// resting is a machine that was off for so many hours, and was last turned on an hour before that.
func resting(id string, hours int, edits ...func(*facts)) facts {
	since := noon().Add(-time.Duration(hours) * time.Hour)
	m := facts{
		id: id, name: id, recorded: true, power: nodestate.Off, powerSince: since, powerSeen: noon(),
		intent: intent{Want: asleep, Since: since, Off: since, Cycle: since.Add(-time.Hour)},
	}
	for _, edit := range edits {
		edit(&m)
	}
	return m
}

func limitsOfTests() limits {
	return limits{name: "g", max: 10, minCycle: 4 * time.Hour, shutDown: time.Minute, wake: 10 * time.Minute}
}

// The machine that was off for longest comes first, one whose BMC does not answer after all others, then machines that have to rest.
func TestWhichMachinesWake(t *testing.T) {
	machines := []facts{
		resting("young", 2), resting("a", 5), resting("younger", 1), resting("c", 7),
		resting("mute", 9, func(m *facts) { m.power = nodestate.Unknown }),
		resting("fenced", 8, func(m *facts) { m.intent.Held = "fenced" }),
		resting("repair", 8, func(m *facts) { m.maintenance = true }),
		resting("registered", 8, func(m *facts) { m.node = nodeFacts{count: 1, name: "x"} }),
		resting("marked", 8, func(m *facts) { m.node = nodeFacts{count: 1, name: "x", held: "out of service"} }),
		resting("garbled", 8, func(m *facts) { m.unreadable = true }),
		resting("stopping", 8, func(m *facts) { m.intent.Off = time.Time{} }),
	}
	for delta, want := range []string{1: "[c]", 2: "[a c]", 3: "[a c mute]", 4: "[a c mute young]", 5: "[a c mute young younger]"} {
		if delta == 0 {
			continue
		}
		made, err := increase(machines, limitsOfTests(), delta, noon())
		if got := fmt.Sprint(slices.Sorted(maps.Keys(made))); got != want || err != nil {
			t.Errorf("%d: %s, %v; want %s", delta, got, err, want)
		}
		for id, next := range made {
			if rests := strings.HasPrefix(id, "young"); next.begun() == rests || next.Want != awake || !next.Waking {
				t.Errorf("%s: %+v", id, next)
			}
		}
	}
	made, err := increase(machines, limitsOfTests(), 7, noon())
	if len(made) != 5 || !errors.Is(err, errNotEnough) || !strings.Contains(err.Error(), "5 of 7 are turned on; of the others, 1 fenced, "+
		"1 old node still there, 1 out of service, 1 record unreadable, 1 still going to sleep, 1 under maintenance") {
		t.Errorf("%v, %v", made, err)
	}
}

// A machine that rests is an error of the kind out of resources until it has, and is turned on then.
func TestMachinesThatRest(t *testing.T) {
	m := resting("a", 1)
	made, err := increase([]facts{m}, limitsOfTests(), 1, noon())
	if err != nil {
		t.Fatal(err)
	}
	m.intent = made["a"]
	status := statusOf([]facts{m}, limitsOfTests(), noon())
	if status.TargetSize != 1 || len(status.Instances) != 1 || status.Instances[0].Error == nil || !status.Instances[0].Error.OutOfResources {
		t.Errorf("%+v", status)
	}
	if made, actions := advance([]facts{m}, limitsOfTests(), noon(), noon().Add(time.Hour)); len(made)+len(actions) != 0 {
		t.Errorf("%v, %v", made, actions)
	}
	later := noon().Add(2 * time.Hour)
	made, _ = advance([]facts{m}, limitsOfTests(), noon(), later)
	if m.intent = made["a"]; !m.intent.Cycle.Equal(later) {
		t.Fatalf("%+v", made)
	}
	if made, actions := advance([]facts{m}, limitsOfTests(), noon(), later); len(made) != 0 || len(actions) != 1 || actions[0].kind != turnOn {
		t.Errorf("%v, %v", made, actions)
	}
}

// What a BMC refuses is an error of the instance: at once if it stays, and after some attempts if it may pass.
func TestErrorsOfInstances(t *testing.T) {
	waking := intent{Want: awake, Since: noon(), Cycle: noon(), Waking: true}
	for name, test := range map[string]struct {
		edit func(*facts)
		at   time.Duration
		want string
	}{
		"nothing":                    {func(*facts) {}, time.Minute, ""},
		"refused":                    {func(m *facts) { m.refused = refusal{code: "bmc-refused", definite: true, failures: 1} }, 0, "bmc-refused"},
		"a first timeout":            {func(m *facts) { m.refused = refusal{code: "bmc-timeout", failures: 2} }, 0, ""},
		"a third timeout":            {func(m *facts) { m.refused = refusal{code: "bmc-timeout", failures: 3} }, 0, "bmc-timeout"},
		"never on":                   {func(*facts) {}, 10 * time.Minute, codeTimeout},
		"on":                         {func(m *facts) { m.power = nodestate.On }, time.Hour, ""},
		"maintenance":                {func(m *facts) { m.maintenance = true }, 0, codeMaintenance},
		"a record that is no intent": {func(m *facts) { m.unreadable = true }, 0, codeUnreadable},
		"a machine that does not stop": {func(m *facts) {
			m.intent = intent{Want: asleep, Since: noon()}
			m.refused = refusal{code: "bmc-unable", definite: true}
		}, 0, "bmc-unable"},
	} {
		m := facts{id: "a", name: "a", recorded: true, intent: waking}
		test.edit(&m)
		got := ""
		if shown := errorOf(m, limitsOfTests(), noon().Add(test.at)); shown != nil {
			got = shown.Code
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Time for a shutdown counts from when this leader asked, or else from when it leads: a change of the leader shortens it never.
func TestForceComesLate(t *testing.T) {
	l := limitsOfTests()
	m := facts{id: "a", name: "a", recorded: true, power: nodestate.On, intent: intent{Want: asleep, Since: noon().Add(-time.Hour)}}
	for name, test := range map[string]struct {
		asked, begun time.Time
		want         kind
		none         bool
	}{
		"a new leader asks":   {begun: noon().Add(-time.Second), want: shutDown},
		"who was asked waits": {asked: noon().Add(-time.Second), begun: noon().Add(-time.Hour), none: true},
		"its time is over":    {asked: noon().Add(-time.Minute), begun: noon().Add(-time.Hour), want: turnOff},
		"it cannot be asked":  {begun: noon().Add(-time.Minute), want: turnOff},
	} {
		m.asked = test.asked
		_, actions := advance([]facts{m}, l, test.begun, noon())
		if len(actions) == 0 != test.none || len(actions) > 0 && actions[0].kind != test.want {
			t.Errorf("%s: %v", name, actions)
		}
	}
}

// A cycle counts from when the machine came on, however long its BMC took, and to the last moment at which it may have.
func TestCyclesCountFromPower(t *testing.T) {
	came := noon().Add(3 * time.Minute)
	m := facts{id: "a", recorded: true, power: nodestate.On, powerSince: came, intent: intent{Want: awake, Waking: true, Since: noon(), Cycle: noon()}}
	made, _ := advance([]facts{m}, limitsOfTests(), noon(), came)
	if got := made["a"]; got.Waking || !got.Cycle.Equal(came) {
		t.Errorf("%+v", got)
	}
	m.power = nodestate.Unknown
	made, err := decrease([]facts{m}, limitsOfTests(), 1, came)
	if got := made["a"]; err != nil || got.Want != asleep || !got.Cycle.Equal(came) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Who turns on a machine that sleeps has decided. One of which nothing is recorded sleeps if it is off and has no node.
func TestOthersDecide(t *testing.T) {
	registered := func(m *facts) { m.node = nodeFacts{count: 1, name: "a"} }
	for name, test := range map[string]struct {
		machine facts
		want    want
	}{
		"turned on":              {resting("a", 1, func(m *facts) { m.power = nodestate.On }), awake},
		"a kubelet that reports": {resting("a", 1, func(m *facts) { m.node = nodeFacts{count: 1, name: "a", needed: true} }), awake},
		"still off":              {resting("a", 1), ""},
		"off, and no node":       {resting("a", 1, func(m *facts) { m.recorded, m.intent = false, intent{Want: awake} }), asleep},
		"off, and a node":        {resting("a", 1, registered, func(m *facts) { m.recorded, m.intent = false, intent{Want: awake} }), ""},
		"off after a power cut":  {resting("a", 1, func(m *facts) { m.intent = intent{Want: awake} }), ""},
	} {
		made, actions := advance([]facts{test.machine}, limitsOfTests(), noon(), noon())
		if got := made["a"].Want; got != test.want || len(actions) != 0 {
			t.Errorf("%s: %q and %v, want %q", name, got, actions, test.want)
		}
	}
}

// A call that names one machine that must stay on changes nothing.
func TestRemoveIsWhole(t *testing.T) {
	idle := facts{id: "a", name: "a", power: nodestate.On, intent: intent{Want: awake}, node: nodeFacts{count: 1, name: "a", held: "fenced"}}
	busy := facts{id: "b", name: "b", power: nodestate.On, intent: intent{Want: awake}, node: nodeFacts{count: 1, name: "b", needed: true}}
	if made, err := remove([]facts{idle, busy}, []string{"a", "b"}, noon()); !errors.Is(err, errNotToBeTurnedOff) || len(made) != 0 {
		t.Errorf("%v, %v", made, err)
	}
	made, err := remove([]facts{idle, busy, resting("c", 1)}, []string{"a", "c"}, noon())
	if err != nil || len(made) != 1 || made["a"].Want != asleep || made["a"].Held != "fenced" {
		t.Errorf("%v, %v", made, err)
	}
	if _, err := decrease([]facts{idle, busy}, limitsOfTests(), 1, noon()); !errors.Is(err, provider.ErrNodeGroupSize) {
		t.Errorf("a decrease by machines that run: %v", err)
	}
}
