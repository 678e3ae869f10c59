package ccmbuild

import (
	"cmp"
	"strings"

	"github.com/mooring-ccm/mooring/internal/version"
)

// Compile is one run of go build.
type Compile struct {
	Platform Platform
	Env      []string
	Flags    []string
}

// planCompile returns how to build for a platform. Nothing of this machine gets into the result: no path, no C library unless
// that was asked for, no state of a repository that the workspace happens to be in.
func planCompile(request Request, platform Platform, linker string) Compile {
	c := Compile{
		Platform: platform,
		Env:      []string{"GOOS=" + platform.OS, "GOARCH=" + platform.Arch, "CGO_ENABLED=0"},
		Flags:    []string{"-trimpath", "-buildvcs=false", "-ldflags=" + linker},
	}
	if request.CGO {
		c.Env[2] = "CGO_ENABLED=1"
	}
	if platform.Variant != "" {
		c.Env = append(c.Env, "GOARM="+strings.TrimPrefix(platform.Variant, "v"))
	}
	return c
}

// linkerFlags leave out what only debuggers read, and stamp the version that --version, metrics and the user agent show: that
// of the Kubernetes libraries, with Mooring's behind a plus, as distributions of Kubernetes do. Feature gates read the first
// part, so it has to be Kubernetes' own.
func linkerFlags(modules []ModuleVersion, found Found) string {
	flags := "-s -w"
	kubernetes := KubernetesVersion(modules)
	if kubernetes == "" {
		return flags
	}
	flags += " " + version.LinkerFlags(found.MooringVersion(), found.Revision.String())
	state := "archive"
	if found.Revision.Commit != "" {
		state = map[bool]string{true: "dirty", false: "clean"}[found.Revision.Dirty]
	}
	parts := strings.Split(strings.TrimPrefix(kubernetes, "v"), ".")
	values := []string{
		"gitVersion=" + kubernetes + "+mooring-" + strings.Map(inBuildMetadata, found.MooringVersion()),
		"gitMajor=" + parts[0], "gitMinor=" + parts[1],
		"gitCommit=" + cmp.Or(found.Revision.Commit, "unknown"), "gitTreeState=" + state,
	}
	for _, value := range values {
		flags += " -X k8s.io/component-base/version." + value + " -X k8s.io/client-go/pkg/version." + value
	}
	return flags
}

// inBuildMetadata keeps what may stand behind the plus of a semantic version (semver.org, rule 10).
func inBuildMetadata(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
		return r
	}
	return '-'
}
