package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// referenceModule holds the reference cloud controller manager.
const referenceModule = "k8s.io/cloud-provider"

// Programs returns the folder with the managers of some variants: the one that is given, or else one below out, in which they are built.
func Programs(ctx context.Context, module, out, given string, variants []figures.Variant, display *progress.Display) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	programs, err := filepath.Abs(filepath.Join(out, "programs"))
	if err != nil {
		return "", err
	}
	return programs, Build(ctx, module, programs, variants, display)
}

// Build compiles the managers of some variants, as they would be shipped: without the race detector. They go to a directory.
func Build(ctx context.Context, module, into string, variants []figures.Variant, display *progress.Display) error {
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	built := map[string]bool{}
	for _, variant := range variants {
		program := variant.Program
		if built[program] {
			continue
		}
		built[program] = true
		err := gobuild.Build(ctx, gobuild.Options{
			Dir: module, Package: "./cmd/" + program, Output: filepath.Join(into, program), Display: display,
		})
		if err != nil {
			return fmt.Errorf("build the manager %s: %w", program, err)
		}
	}
	return nil
}

// referenceVersion is the version of the reference that this program, and with it the manager, is built with.
func referenceVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, dependency := range info.Deps {
		if dependency.Path == referenceModule {
			return dependency.Path + " " + dependency.Version
		}
	}
	return ""
}
