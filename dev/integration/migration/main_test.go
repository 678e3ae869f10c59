// Package migration moves a cluster from the reference cloud controller manager to Mooring and back, with the same plugin, the same
// cloud config and the same flags, and shows what that does to load balancers, routes and nodes.
package migration_test

import (
	"os"
	"testing"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/dev/program"
	theReference "github.com/mooring-ccm/mooring/dev/reference"
)

// The managers, as values of program.SelfEnv.
const (
	reference = "reference"
	mooring   = "mooring"
)

func TestMain(m *testing.M) {
	switch os.Getenv(program.SelfEnv) {
	case mooring:
		ccm.Main()
	case reference:
		theReference.Main()
	default:
		os.Exit(m.Run())
	}
}
