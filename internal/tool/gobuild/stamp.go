package gobuild

import (
	"context"

	"github.com/mooring-ccm/mooring/internal/version/stamp"
)

// Stamp returns the arguments of the linker that tell a program the version of the checkout that it is built from, for Shipped: Go itself
// records none with -buildvcs=false. Outside of a checkout of Mooring there are none.
func Stamp(ctx context.Context, dir string) string {
	revision, found := stamp.RevisionOf(ctx, dir)
	if !found {
		return ""
	}
	ignore := func(string) bool { return true }
	kubernetes, err := Run(ctx, Options{Dir: dir}, []string{"list", "-m", "-f", "{{.Version}}", "k8s.io/component-base"}, ignore)
	if err != nil {
		kubernetes = "" // a module without libraries of Kubernetes
	}
	return revision.Stamp(stamp.Kubernetes(kubernetes)).LinkerFlags()
}
