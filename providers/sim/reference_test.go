package sim

import (
	"os"
	"os/exec"
	"testing"
)

// TestReferenceIsUpToDate looks that the JSON schema in docs/reference shows the config as it is.
func TestReferenceIsUpToDate(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "-C", "../../dev/tools/schema", "run", ".", "--check", "providers/sim")
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // as programs are shipped, so the build cache has it
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
