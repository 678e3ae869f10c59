package nodegroup

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
)

// fixture is machines as they really are, with a leader that plans by what it sees of them, and an observer that knows nothing of plans.
type fixture struct {
	t        *rapid.T
	now      time.Time
	begun    time.Time
	limits   limits
	record   recordedIntents
	told     map[string]commands
	machines []*real

	// size is what the observer saw last, and mayShrink that it may have become smaller on purpose since.
	size      int
	mayShrink bool
}

// real is one machine.
type real struct {
	id                      string
	on                      bool
	since                   time.Time
	node, ready, tainted    bool
	maintenance             bool
	refuses, hangs, ignores bool
	// turnedOn is when we last gave it power.
	turnedOn time.Time
}

func newFixture(t *rapid.T) *fixture {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	count := rapid.IntRange(1, 6).Draw(t, "machines")
	w := &fixture{
		t: t, now: start, begun: start, told: map[string]commands{},
		limits: limits{
			name: "g", max: rapid.IntRange(1, count).Draw(t, "maximum"), shutDown: 5 * time.Minute, wake: 10 * time.Minute,
			minCycle: rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "minimum of a cycle"),
		},
	}
	w.record, _ = decode("", start)
	for i := range count {
		on := rapid.Bool().Draw(t, "is on")
		w.machines = append(w.machines, &real{id: fmt.Sprintf("m%d", i), on: on, since: start, node: on, ready: on})
	}
	w.size = count
	w.mayShrink = true // machines that are off and have no node are found to be asleep
	return w
}

// facts are what the leader sees.
func (w *fixture) facts() []facts {
	var all []facts
	for _, m := range w.machines {
		f := facts{id: m.id, name: m.id, providerID: m.id, maintenance: m.maintenance, intent: intent{Want: awake}}
		if one, ok := w.record.intents[m.id]; ok {
			f.intent, f.recorded = one, true
		}
		if !m.hangs {
			f.power, f.powerSince, f.powerSeen = nodestate.Off, m.since, w.now
			if m.on {
				f.power = nodestate.On
			}
		}
		if m.node {
			f.node = nodeFacts{count: 1, name: m.id, needed: m.ready && !m.tainted}
		}
		all = append(all, w.told[m.id].of(f))
	}
	return all
}

// apply records changes, as a store of text does.
func (w *fixture) apply(made changes) {
	next := w.record.with(made, func(string) bool { return true })
	text, err := next.encode()
	if err != nil {
		w.t.Fatal(err)
	}
	if w.record, err = decode(text, w.now); err != nil {
		w.t.Fatal(err)
	}
	for id, one := range made {
		if !w.record.intents[id].same(one) {
			w.t.Fatalf("%+v was recorded as %+v", one, w.record.intents[id])
		}
		w.told[id] = w.told[id].forNew(one)
	}
}

// pass is one pass of the leader, with its commands.
func (w *fixture) pass() {
	made, actions := advance(w.facts(), w.limits, w.begun, w.now)
	w.apply(made)
	for _, action := range actions {
		told := w.told[action.machine.id]
		err := w.command(action)
		if action.kind == turnOn {
			told.turnedOn = w.now
		}
		switch {
		case err != nil:
			told.refused = refusal{code: "bmc-refused", message: err.Error(), definite: true, failures: told.refused.failures + 1}
			told.notBefore = w.now.Add(minBackoff)
		case action.kind == shutDown:
			told.asked = w.now
		default:
			told.refused, told.notBefore = refusal{}, w.now.Add(repeatAfter)
		}
		w.told[action.machine.id] = told
	}
	w.observe()
}

// command is a machine's BMC. The observer stands beside it.
func (w *fixture) command(a action) error {
	m := w.machines[slices.IndexFunc(w.machines, func(m *real) bool { return m.id == a.machine.id })]
	if m.maintenance {
		w.t.Fatalf("%s is under maintenance and was told: %s", m.id, a.kind)
	}
	if a.kind != turnOn && m.node && m.ready && !m.tainted {
		w.t.Fatalf("the node of %s is ready and has no taint, and it was told: %s", m.id, a.kind)
	}
	switch {
	case m.refuses || m.hangs:
		return errors.New("no")
	case a.kind == turnOn && !m.on:
		if !m.turnedOn.IsZero() && w.now.Sub(m.turnedOn) < w.limits.minCycle {
			w.t.Fatalf("%s was turned on at %s and again at %s", m.id, m.turnedOn, w.now)
		}
		m.turnedOn = w.now
		m.set(true, w.now)
	case a.kind == shutDown && m.on && !m.ignores, a.kind == turnOff && m.on:
		if a.kind == turnOff && w.now.Sub(w.record.intents[m.id].Since) < w.limits.shutDown {
			w.t.Fatalf("%s was turned off by force at %s, although it was to be off since %s only", m.id, w.now, w.record.intents[m.id].Since)
		}
		m.set(false, w.now)
	}
	return nil
}

// set changes the power of a machine. Its kubelet falls silent with it.
func (m *real) set(on bool, now time.Time) {
	if m.on != on {
		m.on, m.since = on, now
		m.ready = m.ready && on
	}
}

// observe looks at the group from outside.
func (w *fixture) observe() {
	status := statusOf(w.facts(), w.limits, w.now)
	alive := 0
	for _, instance := range status.Instances {
		if instance.State != provider.NodeGroupInstanceDeleting {
			alive++
		}
	}
	if status.TargetSize != alive {
		w.t.Fatalf("a size of %d, and instances %+v", status.TargetSize, status.Instances)
	}
	if status.TargetSize < w.size && !w.mayShrink {
		w.t.Fatalf("the size was %d and is %d, and no caller has asked for that", w.size, status.TargetSize)
	}
	w.size = status.TargetSize
}

func (w *fixture) increase(t *rapid.T) {
	delta, before := rapid.IntRange(1, 3).Draw(t, "delta"), w.size
	made, err := increase(w.facts(), w.limits, delta, w.now)
	w.apply(made)
	w.observe()
	switch {
	case before+delta > w.limits.max && (!errors.Is(err, provider.ErrNodeGroupSize) || len(made) > 0):
		t.Fatalf("beyond the maximum of %d: %v, %v", w.limits.max, made, err)
	case w.size > max(before, w.limits.max):
		t.Fatalf("a size of %d", w.size)
	case err == nil && w.size != before+delta:
		t.Fatalf("%d and %d are %d", before, delta, w.size)
	}
}

func (w *fixture) decrease(t *rapid.T) {
	delta, before := rapid.IntRange(1, 2).Draw(t, "delta"), w.size
	made, err := decrease(w.facts(), w.limits, delta, w.now)
	for id := range made {
		if m := w.machines[slices.IndexFunc(w.machines, func(m *real) bool { return m.id == id })]; m.on && !m.hangs {
			t.Fatalf("%s is on, and the target was lowered by it", id)
		}
	}
	w.mayShrink = true
	w.apply(made)
	w.observe()
	if w.mayShrink = false; err == nil && w.size != before-delta {
		t.Fatalf("%d less %d are %d", before, delta, w.size)
	}
}

// remove deletes a machine as the autoscaler does, or forgets the taint.
func (w *fixture) remove(t *rapid.T) {
	m := rapid.SampledFrom(w.machines).Draw(t, "machine")
	if m.node && rapid.IntRange(0, 3).Draw(t, "taint") > 0 {
		m.tainted = true
	}
	made, err := remove(w.facts(), []string{m.id}, w.now)
	if m.node && m.ready && !m.tainted && len(made) > 0 || (err != nil) != (len(made) == 0 && w.record.intents[m.id].Want != asleep) {
		t.Fatalf("%+v: %v, %v", m, made, err)
	}
	w.mayShrink = true
	w.apply(made)
	w.observe()
	w.mayShrink = false
}

// others do what neither the autoscaler nor the leader asked for.
func (w *fixture) others(t *rapid.T) {
	m := rapid.SampledFrom(w.machines).Draw(t, "machine")
	switch rapid.IntRange(0, 7).Draw(t, "event") {
	case 0:
		m.refuses = !m.refuses
	case 1:
		m.hangs = !m.hangs
	case 2:
		m.ignores = !m.ignores
	case 3:
		m.maintenance = !m.maintenance
	case 4: // a person presses the button
		if !m.maintenance && w.record.intents[m.id].Waking {
			return // who does it while we do, wears it out
		}
		m.set(!m.on, w.now)
	case 5: // a kubelet
		if m.on {
			m.node, m.ready, m.tainted = true, true, false
		}
	case 6: // the node lifecycle controller
		if !m.on {
			m.node, m.ready, m.tainted = false, false, false
		}
	case 7: // power cut
		for _, m := range w.machines {
			if !w.record.intents[m.id].Waking {
				m.set(false, w.now)
			}
		}
	}
}

// restart has another leader take over: nothing is left but the record.
func (w *fixture) restart(*rapid.T) { w.told, w.begun = map[string]commands{}, w.now }

func (w *fixture) wait(t *rapid.T) {
	for range rapid.IntRange(1, 20).Draw(t, "passes") {
		w.now = w.now.Add(rapid.SampledFrom([]time.Duration{2 * time.Second, 20 * time.Second, 3 * time.Minute}).Draw(t, "pause"))
		w.mayShrink = slices.ContainsFunc(w.machines, func(m *real) bool { // found to be asleep
			_, recorded := w.record.intents[m.id]
			return !recorded && !m.on && !m.node
		})
		w.pass()
		w.mayShrink = false
	}
}

// Whatever others do, no machine is turned off whose node is needed, none is turned on before it has rested, and a group has the size
// that was asked for. When everything works again, each machine becomes what it is to be.
func TestGroupsKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newFixture(t)
		w.pass()
		w.mayShrink = false
		t.Repeat(map[string]func(*rapid.T){
			"increase": w.increase, "decrease": w.decrease, "remove": w.remove, "others": w.others, "restart": w.restart, "wait": w.wait,
			"": func(*rapid.T) {},
		})
		for _, m := range w.machines {
			m.refuses, m.hangs, m.ignores, m.maintenance = false, false, false, false
		}
		for range 300 {
			w.mayShrink = true
			w.now = w.now.Add(20 * time.Second)
			w.pass()
		}
		for _, f := range w.facts() {
			if f.intent.Waking || f.intent.Want == asleep && (f.intent.Off.IsZero() || f.power != nodestate.Off) {
				t.Fatalf("%s never became what it is to be: %+v", f.id, f)
			}
		}
	})
}
