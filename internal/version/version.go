// Package version says which Mooring this program is: by what the linker was given, or else by what Go records of every build. So it
// is right for a release, for `make build`, for `go install MODULE@VERSION`, for `go build` in a checkout, and for a vendor's program that
// imports Mooring. Only `go build -buildvcs=false` leaves it Unknown.
package version

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/client-go/rest"
	libraries "k8s.io/component-base/version"

	"github.com/mooring-ccm/mooring/internal/version/stamp"
)

// Module is the path of Mooring's module.
const Module = stamp.Module

// Unknown stands for a version or a commit that the build has not recorded, as in a test.
const Unknown = "unknown"

// What a build from a directory gives to the linker, because Go records nothing of it: `go build -ldflags "-X PACKAGE.release=v0.1.0"`.
var (
	// release is the version of Mooring.
	release string
	// commit is the full ID of the commit, with -dirty behind it if files differed.
	commit string
	// date is when that commit was made, as RFC 3339 has it.
	date string
)

// Info is what is known of this program.
type Info struct {
	// Version is the version of Mooring, such as v0.1.0, or a pseudo-version of Go for a build between releases.
	Version string `json:"version"`
	// Commit is the ID of Mooring's commit, with -dirty behind it if files differed; Unknown if Mooring was downloaded as a module.
	Commit string `json:"commit"`
	// Date is when that commit was made, as RFC 3339 has it; empty if that is not known.
	Date string `json:"date,omitempty"`
	// Stamped is the version that a vendor gave to the linker for its own program, as programs of Kubernetes are given theirs (-X
	// k8s.io/component-base/version.gitVersion=v1.2.3); empty if there is none.
	Stamped string `json:"stamped,omitempty"`
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
	return of(build, release, commit, date, libraries.Get().GitVersion)
}

// String is Info as --version prints it: the first line is the reference's, with Mooring's version behind a plus as distributions of
// Kubernetes have theirs.
func (i Info) String() string {
	commit := i.Commit
	if i.Date != "" {
		commit += " of " + i.Date
	}
	text := fmt.Sprintf("Kubernetes %s\nMooring %s, commit %s, built with %s for %s", i.GitVersion(), i.Version, commit, i.Go, i.Platform)
	if i.Program != "" {
		text += "\nin " + i.Program
	}
	return text
}

// GitVersion is the vendor's own version. Without one, it is the version of the libraries with Mooring's as build metadata (semver.org, rule 10).
func (i Info) GitVersion() string {
	if i.Stamped != "" {
		return i.Stamped
	}
	return stamp.GitVersion(i.Kubernetes, i.Version)
}

// of puts together what the linker was given, which wins, and what Go has recorded.
func of(build *debug.BuildInfo, release, commit, date, stamped string) Info {
	info := Info{
		Version: release, Commit: commit, Date: date, Kubernetes: kubernetes(build.Deps),
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if build.Main.Path == Module {
		info.Version = cmp.Or(info.Version, recorded(build.Main.Version))
		if info.Commit == "" {
			info.Commit, info.Date = revision(build.Settings)
		}
	} else if build.Main.Path != "" {
		info.Program = build.Main.Path + "@" + cmp.Or(recorded(build.Main.Version), Unknown)
		info.Version = cmp.Or(info.Version, recorded(versionOf(build.Deps, Module)))
	}
	if stamped != "" && !strings.Contains(stamped, "$Format") && !strings.HasPrefix(stamped, "v0.0.0-master") && !strings.Contains(stamped, "+mooring-") {
		info.Stamped = stamped
		info.Program = strings.Replace(info.Program, "@"+Unknown, "@"+stamped, 1)
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

// revision is the commit that Go has recorded for a build in a checkout, and when it was made.
func revision(settings []debug.BuildSetting) (commit, date string) {
	values := map[string]string{}
	for _, setting := range settings {
		values[setting.Key] = setting.Value
	}
	commit = values["vcs.revision"]
	if commit != "" && values["vcs.modified"] == "true" {
		commit += "-dirty"
	}
	return commit, values["vcs.time"]
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

// UserAgent is what this program calls itself in requests, in the form of client-go's, whose own names a version only if the linker
// was given one: "cloud-controller-manager/v0.1.0 (linux/amd64) mooring/0123456789ab".
func UserAgent() string {
	info := Get()
	program := Unknown
	if len(os.Args) > 0 && os.Args[0] != "" {
		program = filepath.Base(os.Args[0])
	}
	return fmt.Sprintf("%s/%s (%s/%s) mooring/%s", program, info.Version, runtime.GOOS, runtime.GOARCH, short(info.Commit))
}

// short is as much of a commit's ID as identifies the commit.
func short(commit string) string { return commit[:min(len(commit), 12)] }

// AddUserAgent sets the user agent of a client to this program's with a name for the client behind a slash, and returns config. It
// stands in for rest.AddUserAgent.
func AddUserAgent(config *rest.Config, name string) *rest.Config {
	config.UserAgent = UserAgent() + "/" + name
	return config
}

// Register registers the version of this program as a metric, by the convention of Prometheus for such metrics. The libraries'
// own kubernetes_build_info has a version only if the linker was given one.
func Register(registerer prometheus.Registerer) {
	info := Get()
	promauto.With(registerer).NewGaugeVec(prometheus.GaugeOpts{
		Name: "mooring_build_info",
		Help: "Always 1. Its labels name the version of Mooring, its commit, the version of Kubernetes whose libraries are in it, the release of Go, and a vendor's program.",
	}, []string{"version", "revision", "kubernetes", "goversion", "program"}).
		WithLabelValues(info.Version, info.Commit, info.Kubernetes, info.Go, info.Program).Set(1)
}
