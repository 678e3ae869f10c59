package power

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

var (
	// ErrUnverified says that a controller does not say which system it manages, so it is not told to turn it off.
	ErrUnverified = errors.New("the BMC gives no system UUID that is known to be the machine's")
	// ErrCannotTurnOff says that a controller has no way to turn its machine off.
	ErrCannotTurnOff = errors.New("the BMC has no way to turn the machine off")
	// ErrCannotTurnOn says that a controller has no way to turn its machine on.
	ErrCannotTurnOn = errors.New("the BMC has no way to turn the machine on")
)

// confirmEvery is how long a machine that was turned off is left alone between two readings.
const confirmEvery = ConfirmAfter / 2

// change is what a controller is told to do with the power of its machine.
type change int

const (
	// byForce takes the power away without asking the operating system.
	byForce change = iota
	// softly asks the operating system to shut down.
	softly
	// turningOn gives power.
	turningOn
)

// String says what it does, for errors.
func (c change) String() string {
	return map[change]string{byForce: "turning the machine off", softly: "shutting the machine down", turningOn: "turning the machine on"}[c]
}

// impossible is why a controller that has no way to do it does not.
func (c change) impossible() error {
	if c == turningOn {
		return ErrCannotTurnOn
	}
	return ErrCannotTurnOff
}

// switched is a protocol that can turn a machine off and on.
type switched interface {
	Reader
	// change changes the power of the system, if it has a UUID. It compares that itself, as late as the protocol allows.
	change(ctx context.Context, what change, systemUUID string) error
}

// TurnOff turns a machine off by force, and returns nil once its controller has said twice, ConfirmAfter apart, that it is off. All
// readings and the command are of the system that has the machine's UUID, or where the inventory has none the node's; otherwise the
// error is ErrUnverified or a *WrongSystemError, and nothing was turned off. It takes until the deadline of ctx at most.
func TurnOff(ctx context.Context, machine *config.Machine, nodeUUID string) error {
	return withController(ctx, machine, nodeUUID, func(c controller) error {
		begun := time.Now()
		reading, err := c.read(ctx)
		switch {
		case err != nil:
			return err
		case reading.State == Off:
			return confirm(ctx, c.reader, machine.Name, history{}.read(reading, begun, time.Hour))
		}
		if err := c.tell(ctx, byForce); err != nil {
			return err
		}
		return confirm(ctx, c.reader, machine.Name, history{})
	})
}

// ShutDown asks the operating system of a machine that is not off to shut down. It returns when the controller has taken that, not
// when the machine is off. What TurnOff says of systems, errors and the deadline holds here, too.
func ShutDown(ctx context.Context, machine *config.Machine, nodeUUID string) error {
	return tellUnless(ctx, machine, nodeUUID, softly, Off)
}

// TurnOn turns a machine on that is not on. It returns when the controller has taken that, not when the machine has booted. What
// TurnOff says of systems, errors and the deadline holds here, too; there is no node yet that could name the system.
func TurnOn(ctx context.Context, machine *config.Machine) error {
	return tellUnless(ctx, machine, "", turningOn, On)
}

// tellUnless tells the controller of a machine to do something, unless it says that the machine is in that state already.
func tellUnless(ctx context.Context, machine *config.Machine, nodeUUID string, what change, already State) error {
	return withController(ctx, machine, nodeUUID, func(c controller) error {
		reading, err := c.read(ctx)
		if err != nil || reading.State == already {
			return err
		}
		return c.tell(ctx, what)
	})
}

// controller is a management controller that may change the power of a machine.
type controller struct {
	machine  *config.Machine
	protocol Reader
	reader   Reader
}

// withController calls a function with the controller of a machine.
func withController(ctx context.Context, machine *config.Machine, nodeUUID string, call func(controller) error) error {
	target, err := turnOffTarget(machine, nodeUUID)
	if err != nil {
		return err
	}
	protocol, err := newProtocol(target)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = protocol.Close(ctx) // the controller ends a forgotten session by itself
	}()
	return call(controller{target, protocol, verifying{protocol, target}})
}

// read returns what the controller says, if it names the machine.
func (c controller) read(ctx context.Context) (Reading, error) {
	reading, err := c.reader.Read(ctx)
	switch {
	case err != nil:
		return Reading{}, fmt.Errorf("reading the power state of machine %s: %w", c.machine.Name, err)
	case !reading.Verified:
		return Reading{}, fmt.Errorf("machine %s: %w", c.machine.Name, ErrUnverified)
	}
	return reading, nil
}

// tell tells the controller to do something.
func (c controller) tell(ctx context.Context, what change) error {
	able, ok := c.protocol.(switched)
	if !ok {
		return fmt.Errorf("machine %s: %w", c.machine.Name, what.impossible())
	}
	if err := able.change(ctx, what, c.machine.BMCSystemUUID()); err != nil {
		return fmt.Errorf("%s, %s: %w", what, c.machine.Name, err)
	}
	return nil
}

// turnOffTarget returns the machine with the credentials that may turn it off and on, and with the UUID that its controller has to give.
func turnOffTarget(machine *config.Machine, nodeUUID string) (*config.Machine, error) {
	if machine.BMC == nil {
		return nil, fmt.Errorf("machine %s has no BMC: %w", machine.Name, ErrCannotTurnOff)
	}
	target, bmc := *machine, *machine.BMC
	target.BMC = &bmc
	if bmc.PowerOffCredentials != nil {
		bmc.Credentials = bmc.PowerOffCredentials
	}
	own, known := config.KnownUUID(nodeUUID)
	inventory, written := config.KnownUUID(machine.SystemUUID)
	switch {
	case known && written && own != inventory:
		return nil, &WrongSystemError{
			Machine: machine.Name, Source: SourceInventory, UUID: machine.SystemUUID, Reference: SourceNode, Want: nodeUUID,
		}
	case known && !written:
		target.SystemUUID = nodeUUID
	}
	return &target, nil
}

// confirm reads until the controller has confirmed that the machine is off. A reading that fails is repeated: a controller may be
// busy with what it was told.
func confirm(ctx context.Context, reader Reader, machine string, known history) error {
	tick := time.NewTicker(confirmEvery)
	defer tick.Stop()
	for known.reading.State != Off || !known.confirmed() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("machine %s was told to turn off and has not been confirmed to be: %w", machine, ctx.Err()), known.err)
		}
		begun := time.Now()
		reading, err := reader.Read(ctx)
		var wrong *WrongSystemError
		switch {
		case errors.As(err, &wrong):
			return err
		case err != nil:
			known = known.failed(err)
		case !reading.Verified:
			return fmt.Errorf("machine %s, after it was told to turn off: %w", machine, ErrUnverified)
		default:
			known = known.read(reading, begun, time.Hour)
		}
	}
	return nil
}
