package runner

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// daemonPackage is the manager that runs are made with.
const daemonPackage = "github.com/mooring-ccm/mooring/dev/chaos/daemon"

// Build builds the manager that runs are made with, as it is in this checkout or, with an overlay file of the go command, changed.
func Build(ctx context.Context, path, overlay string) error {
	args := []string{"build", "-trimpath", "-o", path}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	command := exec.CommandContext(ctx, "go", append(args, daemonPackage)...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build the manager for a run: %w\n%s", err, output)
	}
	return nil
}
