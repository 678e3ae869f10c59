package ccmbuild

import (
	"strings"

	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
	"github.com/mooring-ccm/mooring/internal/version/stamp"
)

// Compile is one run of go build.
type Compile struct {
	Platform Platform
	Env      []string
	Flags    []string
}

// planCompile returns how to build for a platform. Nothing of this machine gets into the result: no path, no C library unless
// that was asked for, no state of a repository that the workspace happens to be in. Goflags is the value of GOFLAGS.
func planCompile(request Request, platform Platform, linker, goflags string) Compile {
	c := Compile{
		Platform: platform,
		Env:      []string{"GOOS=" + platform.OS, "GOARCH=" + platform.Arch, "CGO_ENABLED=0"},
		Flags:    append([]string{"-trimpath", "-buildvcs=false"}, gobuild.Shipped(goflags, linker)...),
	}
	if request.CGO {
		c.Env[2] = "CGO_ENABLED=1"
	}
	if platform.Variant != "" {
		c.Env = append(c.Env, "GOARM="+strings.TrimPrefix(platform.Variant, "v"))
	}
	return c
}

// linkerFlags stamp the version that --version, metrics and the user agent show.
func linkerFlags(modules []ModuleVersion, found Found) string {
	kubernetes := KubernetesVersion(modules)
	if kubernetes == "" {
		return ""
	}
	return stamp.Stamp{
		Release: found.MooringVersion(), Commit: found.Revision.String(), Date: found.Revision.Date, Kubernetes: kubernetes,
	}.LinkerFlags()
}
