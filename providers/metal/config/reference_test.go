package config

import (
	"os"
	"os/exec"
	"testing"
)

// TestReferenceIsUpToDate looks that docs/reference/metal-config.md shows the types as they are.
func TestReferenceIsUpToDate(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "run", "./internal/configdoc", "--check", "--file", "../../../docs/reference/metal-config.md")
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // as programs are shipped, so that the build cache has it
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
