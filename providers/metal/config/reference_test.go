package config

import (
	"os/exec"
	"testing"
)

// TestReferenceIsUpToDate looks that docs/reference/metal-config.md shows the types as they are.
func TestReferenceIsUpToDate(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "run", "./internal/configdoc", "--check", "--file", "../../../docs/reference/metal-config.md")
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
