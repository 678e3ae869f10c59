package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/mooring-ccm/mooring/localcluster/gobuild"
	"github.com/mooring-ccm/mooring/localcluster/progress"
)

// referenceModule holds the reference cloud controller manager.
const referenceModule = "k8s.io/cloud-provider"

// Build compiles both managers, as they would be shipped: without the race detector. They go to a directory.
func Build(ctx context.Context, module, into string, display *progress.Display) error {
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	for _, program := range []string{referenceProgram, mooringProgram} {
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
