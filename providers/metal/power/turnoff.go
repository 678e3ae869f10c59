package power

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

var (
	// ErrUnverified says that a controller does not say which system it manages, so that it is not told to turn it off.
	ErrUnverified = errors.New("the BMC gives no system UUID that is known to be the machine's")
	// ErrCannotTurnOff says that a controller has no way to turn its machine off.
	ErrCannotTurnOff = errors.New("the BMC has no way to turn the machine off")
)

// confirmEvery is how long a machine that was turned off is left alone between two readings.
const confirmEvery = ConfirmAfter / 2

// switched is a protocol that can turn a machine off.
type switched interface {
	Reader
	// powerOff turns off the system, by force, if it has a UUID. It compares that itself, as late as the protocol allows.
	powerOff(ctx context.Context, systemUUID string) error
}

// TurnOff turns a machine off by force, and returns nil once its controller has said twice, ConfirmAfter apart, that it is off. All
// readings and the command are of the system that has the machine's UUID, or where the inventory has none the node's; otherwise the
// error is ErrUnverified or a *WrongSystemError, and nothing was turned off. It takes until the deadline of ctx at most.
func TurnOff(ctx context.Context, machine *config.Machine, nodeUUID string) error {
	target, err := turnOffTarget(machine, nodeUUID)
	if err != nil {
		return err
	}
	protocol, err := newProtocol(target)
	if err != nil {
		return err
	}
	reader := verifying{protocol, target}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = protocol.Close(ctx) // the controller ends a forgotten session by itself
	}()
	begun := time.Now()
	reading, err := reader.Read(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("reading the power state of machine %s: %w", machine.Name, err)
	case !reading.Verified:
		return fmt.Errorf("machine %s: %w", machine.Name, ErrUnverified)
	case reading.State == Off:
		return confirm(ctx, reader, machine.Name, history{}.read(reading, begun, time.Hour))
	}
	able, ok := protocol.(switched)
	if !ok {
		return fmt.Errorf("machine %s: %w", machine.Name, ErrCannotTurnOff)
	}
	if err := able.powerOff(ctx, target.BMCSystemUUID()); err != nil {
		return fmt.Errorf("turning off machine %s: %w", machine.Name, err)
	}
	return confirm(ctx, reader, machine.Name, history{})
}

// turnOffTarget returns the machine with the credentials that may turn it off, and with the UUID that its controller has to give.
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
