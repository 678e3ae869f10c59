// Package migration moves a cluster from the reference cloud controller manager to Mooring and back, with the same plugin, the same
// cloud config and the same flags, and shows what that does to load balancers, routes and nodes.
package migration_test

import (
	"os"
	"testing"

	"github.com/mooring-ccm/mooring/ccm"
	theReference "github.com/mooring-ccm/mooring/dev/reference"
)

// asProgram is the environment variable that makes this executable one of the two managers, with its arguments.
const asProgram = "MOORING_TEST_AS_PROGRAM"

// The managers, as values of asProgram.
const (
	reference = "reference"
	mooring   = "mooring"
)

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case mooring:
		ccm.Main()
	case reference:
		theReference.Main()
	default:
		os.Exit(m.Run())
	}
}
