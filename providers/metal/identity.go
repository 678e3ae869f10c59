package metal

import (
	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/machines/power"
)

// identified compares what is known of the power of a machine with the system UUID of its node, which the kubelet reads from the
// SMBIOS of the very machine. It verifies a controller whose machine has no systemUUID in the inventory, and shows a node that runs
// on another machine than the inventory says: of that one, the controller says nothing.
func identified(observed power.Observation, machine *config.Machine, node *v1.Node) power.Observation {
	own := node.Status.NodeInfo.SystemUUID
	canonical, known := config.KnownUUID(own)
	if !known {
		return observed
	}
	wrong := &power.WrongSystemError{Machine: machine.Name, Reference: power.SourceNode, Want: own}
	if inventory, ok := config.KnownUUID(machine.SystemUUID); ok && inventory != canonical {
		wrong.Source, wrong.UUID = power.SourceInventory, machine.SystemUUID
		return power.Observation{Seen: observed.Seen, Err: wrong}
	}
	if machine.BMCSystemUUID() != "" || !observed.System.Known() {
		return observed
	}
	if !observed.System.Is(own) {
		wrong.Source, wrong.UUID = power.SourceBMC, observed.System.String()
		return power.Observation{Seen: observed.Seen, Err: wrong}
	}
	observed.Verified, observed.Trusted = true, true
	return observed
}
