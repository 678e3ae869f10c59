package harness

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// module is Mooring's.
const module = "github.com/mooring-ccm/mooring"

// BuildDaemon builds the daemon as it is shipped, but for its version. It works from other modules too. Lines get its progress, unless they
// are nil.
func BuildDaemon(ctx context.Context, output string, lines io.Writer) error {
	return Build(ctx, "cloud-controller-manager", output, lines)
}

// Build is BuildDaemon for a program of cmd.
func Build(ctx context.Context, name, output string, lines io.Writer) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("find %s, which has %s: %w", module, name, err)
	}
	return gobuild.Build(ctx, gobuild.Options{
		Dir: strings.TrimSpace(string(root)), Package: "./cmd/" + name, Output: output, Display: progress.New(lines),
		Flags: gobuild.Shipped(os.Getenv("GOFLAGS"), ""),
	})
}
