package config

import (
	"os"
	"os/exec"
	"testing"
)

// TestReferenceIsUpToDate looks that the page and the JSON schema in docs/reference show the types as they are.
func TestReferenceIsUpToDate(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "-C", "../../../dev/tools/schema", "run", ".", "--check", "providers/metal/config")
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // as programs are shipped: the build cache has it
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
