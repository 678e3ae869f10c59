package conformance_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestExampleProvider builds the module of docs/how-to/write-a-provider.md, with its program, and runs its suite. Nothing of it
// may be skipped: the module chooses the rules about what its cloud has.
func TestExampleProvider(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and tests a module of its own, which -short leaves out")
	}
	for _, args := range [][]string{{"build", "-o", t.TempDir(), "./..."}, {"test", "-count=1", "-v", "./..."}} {
		command := exec.CommandContext(t.Context(), "go", args...)
		command.Env = append(os.Environ(), "CGO_ENABLED=0") // as programs are shipped, so the build cache has it
		command.Dir = "../../examples/provider"
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s in examples/provider: %v\n%s", args[0], err, output)
		}
		if args[0] != "test" {
			continue
		}
		for _, ran := range []string{"instances-stopped-exist", "balancer-concurrent"} {
			if !strings.Contains(string(output), "--- PASS: TestConformance/"+ran) {
				t.Errorf("the suite of examples/provider has not passed %s:\n%s", ran, output)
			}
		}
		if strings.Contains(string(output), "--- SKIP") {
			t.Errorf("the suite of examples/provider leaves something out:\n%s", output)
		}
	}
}
