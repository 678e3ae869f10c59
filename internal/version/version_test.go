package version

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
)

// TestInfoOfEachKindOfBuild reads what Go records of the ways in which people build.
func TestInfoOfEachKindOfBuild(t *testing.T) {
	libraries := []*debug.Module{{Path: "k8s.io/component-base", Version: "v0.36.3"}}
	mooring := func(version string, replace *debug.Module) []*debug.Module {
		return append([]*debug.Module{{Path: Module, Version: version, Replace: replace}}, libraries...)
	}
	for name, c := range map[string]struct {
		build                 debug.BuildInfo
		release, commit, date string
		stamped               string
		want                  Info
	}{
		"go install": {
			build: debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v0.1.0", Sum: "h1:x"}, Deps: libraries},
			want:  Info{Version: "v0.1.0", Commit: Unknown, Kubernetes: "v1.36.3"},
		},
		"go build in a changed checkout": {
			build: debug.BuildInfo{
				Main: debug.Module{Path: Module, Version: "v0.0.0-20261122100000-0123456789ab+dirty"}, Deps: libraries,
				Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}, {Key: "vcs.time", Value: "2026-11-22T10:00:00Z"}},
			},
			want: Info{Version: "v0.0.0-20261122100000-0123456789ab+dirty", Commit: "0123456789abcdef-dirty", Date: "2026-11-22T10:00:00Z", Kubernetes: "v1.36.3"},
		},
		"go build without a repository": {
			build: debug.BuildInfo{Main: debug.Module{Path: Module, Version: "(devel)"}, Deps: libraries},
			want:  Info{Version: Unknown, Commit: Unknown, Kubernetes: "v1.36.3"},
		},
		"make release": {
			build:   debug.BuildInfo{Main: debug.Module{Path: Module, Version: "(devel)"}, Deps: libraries},
			release: "v0.1.0", commit: "0123456789abcdef", date: "2026-11-22T10:00:00Z",
			want: Info{Version: "v0.1.0", Commit: "0123456789abcdef", Date: "2026-11-22T10:00:00Z", Kubernetes: "v1.36.3"},
		},
		"a vendor's program": {
			build: debug.BuildInfo{
				Main: debug.Module{Path: "example.com/ccm", Version: "v2.0.0"}, Deps: mooring("v0.1.0", nil),
				Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "of the vendor"}},
			},
			want: Info{Version: "v0.1.0", Commit: Unknown, Program: "example.com/ccm@v2.0.0", Kubernetes: "v1.36.3"},
		},
		"a vendor's program with a fork of Mooring": {
			build: debug.BuildInfo{
				Main: debug.Module{Path: "example.com/ccm", Version: "(devel)"},
				Deps: mooring("v0.1.0", &debug.Module{Path: "example.com/fork", Version: "v0.1.1"}),
			},
			want: Info{Version: "v0.1.1", Commit: Unknown, Program: "example.com/ccm@unknown", Kubernetes: "v1.36.3"},
		},
		"a vendor's program with a version of its own": {
			build:   debug.BuildInfo{Main: debug.Module{Path: "example.com/ccm", Version: "(devel)"}, Deps: mooring("v0.1.0", nil)},
			stamped: "v2.1.0",
			want:    Info{Version: "v0.1.0", Commit: Unknown, Stamped: "v2.1.0", Program: "example.com/ccm@v2.1.0", Kubernetes: "v1.36.3"},
		},
		"libraries that have the version of a release of ours": {
			build:   debug.BuildInfo{Main: debug.Module{Path: Module, Version: "(devel)"}, Deps: libraries},
			release: "v0.1.0", stamped: "v1.36.3+mooring-v0.1.0",
			want: Info{Version: "v0.1.0", Commit: Unknown, Kubernetes: "v1.36.3"},
		},
		"mooring build with a checkout": {
			build: debug.BuildInfo{
				Main: debug.Module{Path: "cloud-controller-manager", Version: "(devel)"},
				Deps: mooring("v0.0.0", &debug.Module{Path: "./replaced/1"}),
			},
			release: "0123456", commit: "0123456789abcdef-dirty",
			want: Info{Version: "0123456", Commit: "0123456789abcdef-dirty", Program: "cloud-controller-manager@unknown", Kubernetes: "v1.36.3"},
		},
		"nothing recorded": {want: Info{Version: Unknown, Commit: Unknown, Kubernetes: "v0.0.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Go, c.want.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
			if diff := cmp.Diff(c.want, of(&c.build, c.release, c.commit, c.date, stampOr(c.stamped))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// stampOr is what the libraries say of themselves without a version from the linker.
func stampOr(stamped string) string {
	if stamped == "" {
		return "v0.0.0-master+$Format:%H$"
	}
	return stamped
}

func TestStringBeginsAsTheReference(t *testing.T) {
	info := Info{
		Version: "v0.1.1-0.2+dirty", Commit: "0123", Date: "2026-11-22T10:00:00Z", Kubernetes: "v1.36.3", Go: "go1.26.8", Platform: "linux/amd64", Program: "example.com/ccm@v2",
	}
	want := "Kubernetes v1.36.3+mooring-v0.1.1-0.2-dirty\nMooring v0.1.1-0.2+dirty, commit 0123 of 2026-11-22T10:00:00Z, built with go1.26.8 for linux/amd64\nin example.com/ccm@v2"
	if info.String() != want {
		t.Errorf("have\n%s\nwant\n%s", info, want)
	}
}

func TestUserAgent(t *testing.T) {
	config := AddUserAgent(&rest.Config{}, "node-controller")
	if !strings.HasPrefix(config.UserAgent, "version.test/") || !strings.HasSuffix(config.UserAgent, " mooring/unknown/node-controller") ||
		strings.Contains(config.UserAgent, "$Format") {
		t.Errorf("the user agent is %q", config.UserAgent)
	}
}
