package power

import (
	"context"
	"errors"
	"fmt"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// Reader asks one management controller. It is used by one goroutine at a time.
type Reader interface {
	// Read asks for the power state, by the deadline of ctx. Its error never holds a password.
	Read(ctx context.Context) (State, error)
	// Close gives back what the controller keeps for the reader, such as a session. The reader is not used any more.
	Close(ctx context.Context) error
}

// NewReader returns what asks the management controller of a machine of a config that was loaded.
func NewReader(machine *config.Machine) (Reader, error) {
	switch bmc := machine.BMC; {
	case bmc == nil:
		return nil, fmt.Errorf("machine %s has no BMC", machine.Name)
	case bmc.Redfish != nil:
		return newRedfish(*bmc.Redfish, bmc.Credentials, machine.SystemUUID), nil
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
