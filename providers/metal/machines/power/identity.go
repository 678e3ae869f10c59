package power

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// SystemUUID is what a controller says the UUID of its system is. The zero value says nothing: many controllers give none, or one
// that all boards of a kind have. Two are equal if they were given alike.
type SystemUUID struct {
	// text is the UUID as it was given, and reversed the one that it is if all its bytes are in the other order; empty where a
	// protocol leaves no doubt about that.
	text, reversed string
}

// newSystemUUID returns what a text says.
func newSystemUUID(text string) SystemUUID {
	if _, ok := config.KnownUUID(text); !ok {
		return SystemUUID{}
	}
	return SystemUUID{text: uuid.MustParse(text).String()}
}

// newSystemGUID returns what the 16 bytes of IPMI's Get System GUID say. The standard sends the least significant byte first (IPMI
// 2.0, 20.8 and 22.14), and firmware that does not keep to it sends the bytes as SMBIOS has them, in one order or the other.
func newSystemGUID(bytes [16]byte) SystemUUID {
	given := newSystemUUID(uuid.UUID(bytes).String())
	slices.Reverse(bytes[:])
	if reversed := newSystemUUID(uuid.UUID(bytes).String()); given != (SystemUUID{}) && reversed != (SystemUUID{}) {
		given.reversed = reversed.text
		return given
	}
	return SystemUUID{}
}

// Known reports whether it says anything.
func (u SystemUUID) Known() bool { return u.text != "" }

// Is reports whether it may be the system UUID of a machine, which config.CanonicalUUID compares.
func (u SystemUUID) Is(systemUUID string) bool {
	wanted, ok := config.KnownUUID(systemUUID)
	if !ok {
		return false
	}
	for _, text := range []string{u.text, u.reversed} {
		if given, ok := config.KnownUUID(text); ok && given == wanted {
			return true
		}
	}
	return false
}

// String returns the UUID as it was given.
func (u SystemUUID) String() string { return u.text }

// WrongSystemError says that two of the places that know a machine's system UUID, its inventory, its controller and its node, know
// different ones. The power state from the controller then belongs to another machine.
type WrongSystemError struct {
	// Machine is the name of the machine.
	Machine string
	// Source says that its system UUID is UUID, and Reference that it is Want.
	Source, UUID    string
	Reference, Want string
}

// Error names both UUIDs, and who says them.
func (e *WrongSystemError) Error() string {
	return fmt.Sprintf("wrong system: %s says that the system UUID of machine %s is %s, and %s that it is %s: "+
		"correct the machine's bmc or systemUUID", e.Source, e.Machine, e.UUID, e.Reference, e.Want)
}

// The places that know a system UUID, as errors name them.
const (
	SourceBMC       = "its BMC"
	SourceInventory = "the inventory"
	SourceNode      = "its node"
)

// verifying is a Reader that compares the system at every reading with the one that the inventory names.
type verifying struct {
	Reader
	machine *config.Machine
}

// Read returns what the controller says of the machine; a *WrongSystemError if the controller belongs to another one.
func (v verifying) Read(ctx context.Context) (Reading, error) {
	reading, err := v.Reader.Read(ctx)
	wanted := v.machine.BMCSystemUUID()
	_, identifies := config.KnownUUID(wanted)
	switch {
	case err != nil:
		return Reading{}, err
	case !reading.System.Known() || !identifies:
		return reading, nil
	case !reading.System.Is(wanted):
		return Reading{}, &WrongSystemError{
			Machine: v.machine.Name, Source: SourceBMC, UUID: reading.System.String(), Reference: SourceInventory, Want: wanted,
		}
	}
	reading.Verified = true
	return reading, nil
}
