package config

import (
	"os"
	"os/exec"
	"testing"
)

// TestReferenceIsUpToDate looks that the page in docs/reference shows the options as they are.
func TestReferenceIsUpToDate(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "run", "../../../dev/docgen/openstackoptions", "--check")
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // as programs are shipped: the build cache has it
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
