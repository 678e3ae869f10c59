package power

import (
	"context"
	"errors"
	"fmt"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// Reader asks one management controller. It is used by one goroutine at a time.
type Reader interface {
	// Read asks for the power state, by the deadline of ctx. Its error never holds a password. It is a *WrongSystemError if the controller
	// belongs to another machine.
	Read(ctx context.Context) (Reading, error)
	// Close gives back what the controller keeps for the reader, such as a session. The reader is no longer used.
	Close(ctx context.Context) error
}

// Reading is what a controller says.
type Reading struct {
	// State is the power state, by this reading alone.
	State State
	// System is the system whose state it is, if the controller says it.
	System SystemUUID
	// Verified says that this is the system that the inventory says the machine is.
	Verified bool
}

// NewReader returns what asks the management controller of a machine of a config that was loaded.
func NewReader(machine *config.Machine) (Reader, error) {
	reader, err := newProtocol(machine)
	if err != nil {
		return nil, err
	}
	return verifying{reader, machine}, nil
}

// newProtocol returns what speaks to the management controller.
func newProtocol(machine *config.Machine) (Reader, error) {
	switch bmc := machine.BMC; {
	case bmc == nil:
		return nil, fmt.Errorf("machine %s has no BMC", machine.Name)
	case bmc.Redfish != nil:
		return newRedfish(*bmc.Redfish, bmc.Credentials, machine.BMCSystemUUID()), nil
	case bmc.IPMI != nil:
		return newIPMI(*bmc.IPMI, bmc.Credentials), nil
	case bmc.Command != nil:
		return newCommand(*bmc.Command, machine), nil
	default:
		return nil, fmt.Errorf("the BMC of machine %s has none of redfish, ipmi and command", machine.Name)
	}
}

// protocol names how a machine's controller is asked, for metrics.
func protocol(bmc *config.BMC) string {
	switch {
	case bmc.Redfish != nil:
		return "redfish"
	case bmc.IPMI != nil:
		return "ipmi"
	default:
		return "command"
	}
}

// errCredentials says that the controller does not let us ask.
var errCredentials = errors.New("the controller refuses the credentials")
