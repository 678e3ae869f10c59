package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	metalpower "github.com/mooring-ccm/mooring/providers/metal/machines/power"
)

const (
	// commandTimeout is how long a BMC may take over one command, and over confirming that a machine is off.
	commandTimeout = 30 * time.Second
	// repeatAfter is how long a machine is left alone that its BMC was told to turn on or off.
	repeatAfter = 30 * time.Second
	// minBackoff and maxBackoff are how long a BMC is left alone after one command that failed, and after many.
	minBackoff, maxBackoff = 5 * time.Second, 5 * time.Minute
	// maxReason is how many bytes of what a BMC says are passed on.
	maxReason = 500
)

// The reasons of events on a Node, and on the Lease about machines that have no Node.
const (
	// ReasonShuttingDown says that the operating system of the node's machine was asked to shut down.
	ReasonShuttingDown = "MachineShuttingDown"
	// ReasonForcedOff says that the node's machine was turned off by force, because it did not shut down in time. It is a warning.
	ReasonForcedOff = "MachineForcedOff"
	// ReasonPowerChangeFailed says that a machine could not be turned on or off. It is a warning.
	ReasonPowerChangeFailed = "PowerChangeFailed"
)

// controllers are the management controllers of machines.
type controllers struct{}

func (controllers) TurnOn(ctx context.Context, m *config.Machine) error {
	return metalpower.TurnOn(ctx, m)
}

func (controllers) ShutDown(ctx context.Context, m *config.Machine) error {
	return metalpower.ShutDown(ctx, m, "")
}

func (controllers) TurnOff(ctx context.Context, m *config.Machine) error {
	return metalpower.TurnOff(ctx, m, "")
}

// commands are what became of commands to one BMC.
type commands struct {
	busy            bool
	notBefore       time.Time
	asked, turnedOn time.Time
	refused         refusal
	reported        string
}

// of adds them to what else is known of a machine.
func (c commands) of(f facts) facts {
	f.busy, f.notBefore, f.asked, f.told, f.refused = c.busy, c.notBefore, c.asked, c.turnedOn, c.refused
	return f
}

// forNew returns what still counts once a machine is to be something else.
func (c commands) forNew(next intent) commands {
	if next.Waking || next.Want == asleep && next.Off.IsZero() {
		return commands{busy: c.busy, turnedOn: c.turnedOn}
	}
	return c
}

// begin tells a BMC something, on a goroutine of its own: it may take long, and others are looked after meanwhile.
func (c *Controller) begin(ctx context.Context, action action) {
	c.mu.Lock()
	told := c.told[action.machine.id]
	told.busy = true
	c.told[action.machine.id] = told
	c.mu.Unlock()
	c.attempts.Go(func() {
		limited, cancel := context.WithTimeout(ctx, commandTimeout)
		defer cancel()
		c.finish(ctx, action, c.carryOut(limited, action))
	})
}

// carryOut tells a BMC something, if that is still what is recorded in the API server, and no node that is needed runs on the machine.
func (c *Controller) carryOut(ctx context.Context, action action) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("telling the BMC of machine %s: panic: %v", action.machine.name, value)
		}
	}()
	id := action.machine.id
	seen, err := c.look(ctx)
	if err != nil {
		return err
	}
	machine, grouped := seen.configs[id]
	stored, err := c.store.read(ctx, time.Now())
	if err != nil {
		return err
	}
	if recorded, ok := stored.intents[id]; !grouped || !ok || !recorded.same(action.machine.intent) {
		return errOutdated
	}
	if action.kind == turnOn {
		return c.options.BMC.TurnOn(ctx, machine)
	}
	live, err := c.lookAgain(ctx, seen.machines[id], machine)
	if err != nil {
		return err
	}
	if err := mayTurnOff(live); err != nil {
		return err
	}
	if action.kind == shutDown {
		return c.options.BMC.ShutDown(ctx, machine)
	}
	return c.options.BMC.TurnOff(ctx, machine)
}

// lookAgain returns what is known of a machine with its nodes as the API server has them now, not as they were delivered. What either
// says against turning the machine off counts.
func (c *Controller) lookAgain(ctx context.Context, f facts, m *config.Machine) (facts, error) {
	names := []string{m.Name}
	if f.node.name != "" && f.node.name != m.Name {
		names = append(names, f.node.name)
	}
	own, live, found := c.own(), nodeFacts{}, false
	for _, name := range names {
		node, err := c.sources.Client.Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return facts{}, fmt.Errorf("reading node %s: %w", name, err)
		case slices.Contains(c.options.MachinesOf(node), m.ID):
			live, found = live.with(node, own(node)), true
		}
	}
	if found && f.node.count == 1 && live.name == f.node.name {
		f.node = live // the cache is late: what is read is newer
		return f, nil
	}
	f.node = f.node.and(live)
	return f, nil
}

// and returns what both say.
func (f nodeFacts) and(other nodeFacts) nodeFacts {
	if other.name == "" {
		return f
	}
	both := nodeFacts{
		count: max(f.count, other.count), name: other.name, uid: other.uid, needed: f.needed || other.needed, controlPlane: f.controlPlane || other.controlPlane, own: f.own || other.own, held: f.held,
	}
	if other.held != "" {
		both.held = other.held
	}
	return both
}

// same reports whether two intents are one: times that were stored have no monotonic part.
func (i intent) same(other intent) bool {
	return i.Want == other.Want && i.Waking == other.Waking && i.Held == other.Held &&
		i.Since.Equal(other.Since) && i.Cycle.Equal(other.Cycle) && i.Off.Equal(other.Off)
}

// finish notes what became of a command.
func (c *Controller) finish(ctx context.Context, action action, err error) {
	log := logr.FromContextOrDiscard(ctx).WithValues("machine", action.machine.name)
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	told := c.told[action.machine.id]
	told.busy = false
	if action.kind == turnOn {
		told.turnedOn = now // it may have got there, whatever was answered
	}
	switch {
	case err != nil && ctx.Err() != nil: // this leader ends
	case err == nil:
		told.refused, told.reported, told.notBefore = refusal{}, "", now.Add(repeatAfter)
		if action.kind == shutDown {
			told.asked, told.notBefore = now, time.Time{}
		}
		c.metrics.commands.WithLabelValues(action.kind.String(), "succeeded").Inc()
		c.report(action)
		log.Info("The power of a machine of a node group was changed", "operation", action.kind.String())
	case errors.Is(err, errOutdated), errors.Is(err, errNotToBeTurnedOff), errors.Is(err, ErrNotLeading):
		c.loaded = c.loaded && !errors.Is(err, errOutdated) // it is read again before anything else is decided
		told.notBefore = now.Add(c.options.Period)
		c.metrics.commands.WithLabelValues(action.kind.String(), "outdated").Inc()
	default:
		class, lasting := metalpower.Classify(err)
		told.refused = refusal{code: class, message: message.Line(err.Error(), maxReason), definite: lasting, failures: told.refused.failures + 1}
		told.notBefore = now.Add(min(minBackoff<<min(told.refused.failures-1, 10), maxBackoff))
		c.metrics.commands.WithLabelValues(action.kind.String(), "failed").Inc()
		if told.reported != class {
			told.reported = class
			c.reportFailure(action, told.refused.message)
			log.Error(err, "The power of a machine of a node group could not be changed; trying again", "operation", action.kind.String())
		}
	}
	c.told[action.machine.id] = told
}

// report records on the node that its machine is turned off.
func (c *Controller) report(action action) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: action.machine.node.name, UID: action.machine.node.uid}}
	switch {
	case action.machine.node.name == "":
	case action.kind == shutDown:
		c.sources.Recorder.Event(node, v1.EventTypeNormal, ReasonShuttingDown, "The Cluster Autoscaler has removed the node; its machine was asked to shut down")
	case action.kind == turnOff:
		c.sources.Recorder.Event(node, v1.EventTypeWarning, ReasonForcedOff, "The machine did not shut down in time and was turned off by force")
	}
}

// reportFailure records on the Lease that a machine could not be turned on or off.
func (c *Controller) reportFailure(action action, why string) {
	if lease := c.recorded.version.Lease(); lease != nil {
		c.sources.Recorder.Eventf(lease, v1.EventTypeWarning, ReasonPowerChangeFailed, "Machine %s (%s): %s", action.machine.name, action.kind, why)
	}
}

// String names a kind in metrics, logs and events.
func (k kind) String() string {
	return map[kind]string{turnOn: "turn-on", shutDown: "shut-down", turnOff: "turn-off"}[k]
}
