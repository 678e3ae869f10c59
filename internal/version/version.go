// Package version says which Mooring this program is: by what the linker was given, or else by what Go records of every build. So it
// is right for a release, for `go install MODULE@VERSION`, for `go build` in a checkout, and for a vendor's program that imports
// Mooring.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Module is the path of Mooring's module.
const Module = "github.com/mooring-ccm/mooring"

// Unknown stands for a version or a commit that nobody has recorded, as in a test.
const Unknown = "unknown"

// What a build from a directory gives to the linker, because Go records nothing of it: `go build -ldflags "-X PACKAGE.release=v0.1.0"`.
var (
	// release is the version of Mooring.
	release string
	// commit is the full ID of the commit, with -dirty behind it if files differed.
	commit string
)

// LinkerFlags are the arguments of the linker that stamp a program with a version of Mooring, a commit (with -dirty behind it if
// files differed; empty if it is not known), and a version of Kubernetes. The libraries of Kubernetes get it with Mooring's behind a
// plus: feature gates read the first part, so it has to be Kubernetes' own.
func LinkerFlags(release, commit, kubernetes string) string {
	state, clean := "archive", strings.TrimSuffix(commit, "-dirty")
	if commit != "" {
		state = map[bool]string{true: "clean", false: "dirty"}[commit == clean]
	}
	parts := strings.SplitN(strings.TrimPrefix(kubernetes, "v")+".0", ".", 3)
	flags := []string{"-X " + Module + "/internal/version.release=" + release, "-X " + Module + "/internal/version.commit=" + commit}
	for _, value := range []string{
		"gitVersion=" + Info{Kubernetes: kubernetes, Version: release}.GitVersion(),
		"gitMajor=" + parts[0], "gitMinor=" + parts[1], "gitCommit=" + cmp.Or(clean, Unknown), "gitTreeState=" + state,
	} {
		flags = append(flags, "-X k8s.io/component-base/version."+value, "-X k8s.io/client-go/pkg/version."+value)
	}
	return strings.Join(flags, " ")
}

// Info is what is known of this program.
type Info struct {
	// Version is that of Mooring, such as v0.1.0, or a pseudo-version of Go for a build between releases.
	Version string `json:"version"`
	// Commit is the ID of Mooring's commit, with -dirty behind it if files differed; Unknown if Mooring was downloaded as a module.
	Commit string `json:"commit"`
	// Program is the main module with its version, if that is not Mooring: a vendor's.
	Program string `json:"program,omitempty"`
	// Kubernetes is the version of Kubernetes whose libraries are built in, such as v1.36.3.
	Kubernetes string `json:"kubernetes"`
	// Go is the release of Go, and Platform what the program was built for, as OS/ARCH.
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get returns what is known of this program.
func Get() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return of(build, release, commit)
}

// String is Info as --version prints it: the first line is the reference's, with Mooring's version behind a plus as distributions of
// Kubernetes have theirs.
func (i Info) String() string {
	text := fmt.Sprintf("Kubernetes %s\nMooring %s, commit %s, built with %s for %s", i.GitVersion(), i.Version, i.Commit, i.Go, i.Platform)
	if i.Program != "" {
		text += "\nin " + i.Program
	}
	return text
}

// GitVersion is the version of the libraries with that of Mooring as build metadata (semver.org, rule 10).
func (i Info) GitVersion() string {
	return i.Kubernetes + "+mooring-" + strings.Map(inBuildMetadata, i.Version)
}

// inBuildMetadata keeps what may stand behind the plus of a semantic version.
func inBuildMetadata(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
		return r
	}
	return '-'
}

// of puts together what the linker was given, which wins, and what Go has recorded.
func of(build *debug.BuildInfo, release, commit string) Info {
	info := Info{
		Version: release, Commit: commit, Kubernetes: kubernetes(build.Deps),
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if build.Main.Path == Module {
		info.Version = cmp.Or(info.Version, recorded(build.Main.Version))
		info.Commit = cmp.Or(info.Commit, revision(build.Settings))
	} else if build.Main.Path != "" {
		info.Program = build.Main.Path + "@" + cmp.Or(recorded(build.Main.Version), Unknown)
		info.Version = cmp.Or(info.Version, recorded(versionOf(build.Deps, Module)))
	}
	info.Version, info.Commit = cmp.Or(info.Version, Unknown), cmp.Or(info.Commit, Unknown)
	return info
}

// recorded is a version that Go has recorded, or nothing for the word that stands for none.
func recorded(version string) string {
	if version == "(devel)" {
		return ""
	}
	return version
}

// revision is the commit that Go has recorded for a build in a checkout.
func revision(settings []debug.BuildSetting) string {
	values := map[string]string{}
	for _, setting := range settings {
		values[setting.Key] = setting.Value
	}
	if values["vcs.revision"] != "" && values["vcs.modified"] == "true" {
		return values["vcs.revision"] + "-dirty"
	}
	return values["vcs.revision"]
}

// versionOf returns the version of a module that was built in, and nothing for one from a directory.
func versionOf(modules []*debug.Module, path string) string {
	for _, module := range modules {
		if module.Path != path {
			continue
		}
		if module.Replace != nil {
			return module.Replace.Version
		}
		return module.Version
	}
	return ""
}

// kubernetes is the version of Kubernetes whose libraries are among the modules: those of v1.36.3 have the version v0.36.3.
func kubernetes(modules []*debug.Module) string {
	for _, path := range []string{"k8s.io/component-base", "k8s.io/client-go", "k8s.io/cloud-provider"} {
		if rest, found := strings.CutPrefix(versionOf(modules, path), "v0."); found {
			return "v1." + rest
		}
	}
	return "v0.0.0"
}
