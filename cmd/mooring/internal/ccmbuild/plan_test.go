package ccmbuild

import (
	"errors"
	"go/format"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var release = Found{Mooring: Source{Module: Module, Version: "v0.1.0"}}

func TestPlanWorkspace(t *testing.T) {
	request := Request{
		Packages: []Package{
			{Path: "example.com/far/a", Version: "v1.0.0"}, {Dir: "./near"}, {Path: "example.com/moved/p"}, {Path: "example.com/any"},
		},
		Replacements: []Replacement{
			{Module: "example.com/moved", Dir: "/srv/moved"}, {Module: "k8s.io/api", NewModule: "example.com/api", NewVersion: "v0.1.0"},
		},
	}
	found := release
	found.Directories = map[string]LocalPackage{
		"./near": {Path: "example.com/near/p", Source: Source{Module: "example.com/near", Version: directoryVersion, Dir: "/srv/near"}},
	}
	w, err := planWorkspace(request, found)
	if err != nil {
		t.Fatal(err)
	}
	want := Workspace{
		Links:   map[string]string{"replaced/1": "/srv/moved", "replaced/2": "/srv/near"},
		Imports: []string{"example.com/far/a", "example.com/near/p", "example.com/moved/p", "example.com/any"},
		Get: []string{
			Module + "@v0.1.0", "example.com/far/a@v1.0.0", "example.com/any", "example.com/moved@v0.0.0", "example.com/near@v0.0.0",
		},
		Target: "cloud-controller-manager",
		Files: map[string]string{"go.mod": `module cloud-controller-manager

go 1.26.0

require example.com/moved v0.0.0

require example.com/near v0.0.0

require github.com/mooring-ccm/mooring v0.1.0

replace example.com/moved => ./replaced/1

replace example.com/near => ./replaced/2

replace k8s.io/api => example.com/api v0.1.0
`},
	}
	sources := maps.Clone(w.Files)
	delete(w.Files, "main.go")
	delete(w.Files, "probe/main.go")
	if diff := cmp.Diff(want, w); diff != "" {
		t.Errorf("workspace (-want +got):\n%s", diff)
	}
	for _, name := range []string{"main.go", "probe/main.go"} {
		formatted, err := format.Source([]byte(sources[name]))
		if err != nil || string(formatted) != sources[name] {
			t.Errorf("%s is not as gofmt has it: %v\n%s", name, err, sources[name])
		}
		for _, path := range w.Imports {
			if !strings.Contains(sources[name], "\t_ \""+path+"\"\n") {
				t.Errorf("%s does not import %s", name, path)
			}
		}
	}
}

func TestPlanWorkspaceRefuses(t *testing.T) {
	for name, request := range map[string]Request{
		"a package twice": {Packages: []Package{{Path: "example.com/a"}, {Path: "example.com/a", Version: "v1.0.0"}}},
		"two replacements": {
			Packages:     []Package{{Path: "example.com/a"}},
			Replacements: []Replacement{{Module: "example.com/b", Dir: "/1"}, {Module: "example.com/b", Dir: "/2"}},
		},
	} {
		if w, err := planWorkspace(request, release); err == nil {
			t.Errorf("%s: %+v", name, w)
		}
	}
}

// After the modules of Kubernetes are aligned, there is nothing more to align.
func TestPlanAlignment(t *testing.T) {
	modules := []ModuleVersion{
		{Path: "k8s.io/api", Version: "v0.37.1"}, {Path: "k8s.io/client-go", Version: "v0.36.3"},
		{Path: "k8s.io/kms", Version: "v0.37.0"},
		{Path: "k8s.io/cloud-provider-aws", Version: "v1.37.0"}, {Path: "k8s.io/utils", Version: "v0.0.0-20260101000000-0123456789ab"},
		{Path: "k8s.io/apiserver", Version: "v0.36.3", Dir: "/srv/apiserver"}, {Path: "example.com/api", Version: "v0.1.0"},
		{Path: "k8s.io/klog/v2", Version: "v2.140.0"},
	}
	if got, want := planAlignment(modules), []string{"k8s.io/client-go@v0.37.1"}; !slices.Equal(got, want) {
		t.Errorf("raised %v, want %v", got, want)
	}
	modules[1].Version = "v0.37.1"
	if got := planAlignment(modules); got != nil {
		t.Errorf("raised %v after all are aligned", got)
	}
}

func TestLinkerFlags(t *testing.T) {
	modules := []ModuleVersion{{Path: "k8s.io/component-base", Version: "v0.36.3"}}
	found := Found{
		Mooring:  Source{Module: Module, Dir: "/srv"},
		Revision: Revision{Name: "v0.1.0-3-g0123_x-dirty", Commit: "0123", Dirty: true},
	}
	flags := linkerFlags(modules, found)
	for _, want := range []string{
		"-X k8s.io/component-base/version.gitVersion=v1.36.3+mooring-v0.1.0-3-g0123-x-dirty", "version.gitMinor=36",
		"-X k8s.io/client-go/pkg/version.gitCommit=0123", "gitTreeState=dirty",
	} {
		if !strings.Contains(flags, want) {
			t.Errorf("no %q in %s", want, flags)
		}
	}
	if flags := linkerFlags(nil, found); flags != "" {
		t.Errorf("without libraries of Kubernetes: %s", flags)
	}
	flags = linkerFlags(modules, release)
	if !strings.Contains(flags, "gitVersion=v1.36.3+mooring-v0.1.0 ") || !strings.Contains(flags, "gitTreeState=archive") {
		t.Errorf("of a release: %s", flags)
	}
}

// A program without component-base, as a tool may be, has the version of the contract.
func TestKubernetesVersion(t *testing.T) {
	contract := ModuleVersion{Path: "k8s.io/cloud-provider", Version: "v0.36.3"}
	for want, modules := range map[string][]ModuleVersion{
		"v1.36.3": {{Path: "k8s.io/klog/v2", Version: "v2.140.0"}, contract},
		"v1.36.4": {contract, {Path: "k8s.io/component-base", Version: "v0.36.4"}},
		"":        {{Path: "k8s.io/cloud-provider-aws", Version: "v1.37.0"}},
	} {
		if got := KubernetesVersion(modules); got != want {
			t.Errorf("%v: %q, want %q", modules, got, want)
		}
	}
}

func TestPlanCompile(t *testing.T) {
	c := planCompile(Request{}, Platform{OS: "linux", Arch: "arm", Variant: "v7"}, "-X a.b=c", "-modcacherw")
	if want := []string{"GOOS=linux", "GOARCH=arm", "CGO_ENABLED=0", "GOARM=7"}; !slices.Equal(c.Env, want) {
		t.Errorf("environment %v, want %v", c.Env, want)
	}
	if !slices.Contains(planCompile(Request{CGO: true}, Platform{}, "", "").Env, "CGO_ENABLED=1") {
		t.Error("with --cgo it is off")
	}
}

func TestCheckAsked(t *testing.T) {
	checkout := Found{Mooring: Source{Dir: "/srv"}}
	asking := func(version string) Request {
		return Request{Packages: []Package{{Path: "example.com/a/p", Version: version}}}
	}
	picked := Picked{
		Modules: []ModuleVersion{{Path: "example.com/a", Version: "v1.3.0"}, {Path: Module, Version: "v0.2.0"}},
		Holder:  map[string]int{"example.com/a/p": 0},
	}
	for name, c := range map[string]struct {
		request Request
		found   Found
		module  string
	}{
		"another version": {asking("v1.2.0"), checkout, "example.com/a"},
		"that version":    {asking("v1.3.0"), checkout, ""},
		"a branch":        {asking("main"), checkout, ""},
		"another Mooring": {Request{}, release, Module},
	} {
		err := checkAsked(c.request, c.found, picked)
		var conflict *VersionConflictError
		if errors.As(err, &conflict) != (c.module != "") || conflict != nil && conflict.Module != c.module {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChooseMooring(t *testing.T) {
	downloaded := &debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v0.3.0", Sum: "h1:x"}}
	linked := &debug.BuildInfo{
		Deps: []*debug.Module{{Path: "example.com/x", Sum: "h1:y"}, {Path: Module, Version: "v0.4.0", Sum: "h1:x"}},
	}
	checkout := &debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v0.3.1-0.20260101000000-0123456789ab+dirty"}}
	inside := map[string]LocalPackage{"./providers/x": {Source: Source{Module: Module, Version: directoryVersion, Dir: "/there"}}}
	for name, c := range map[string]struct {
		request     Request
		directories map[string]LocalPackage
		checkout    string
		build       *debug.BuildInfo
		want        Source
	}{
		"a replacement first": {
			Request{MooringVersion: "v0.2.0", Replacements: []Replacement{{Module: Module, Dir: "/fork"}}}, inside, "/here", downloaded,
			Source{Module: Module, Version: directoryVersion, Dir: "/fork"},
		},
		"then a version":       {Request{MooringVersion: "v0.2.0"}, nil, "/here", downloaded, Source{Module: Module, Version: "v0.2.0"}},
		"a package's own":      {Request{}, inside, "/here", downloaded, inside["./providers/x"].Source},
		"then the checkout":    {Request{}, nil, "/here", downloaded, Source{Module: Module, Version: directoryVersion, Dir: "/here"}},
		"then what this is":    {Request{}, nil, "", downloaded, Source{Module: Module, Version: "v0.3.0"}},
		"or is linked with":    {Request{}, nil, "", linked, Source{Module: Module, Version: "v0.4.0"}},
		"but no private build": {Request{}, nil, "", checkout, Source{}},
		"and nothing unknown":  {Request{}, nil, "", nil, Source{}},
	} {
		got, err := chooseMooring(c.request, c.directories, c.checkout, c.build)
		if got != c.want || (err == nil) != (c.want != Source{}) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

func TestPackageOf(t *testing.T) {
	for function, want := range map[string]string{
		"example.com/a/b.init.0.func1":       "example.com/a/b",
		"gopkg.in/my%2ecloud.New":            "gopkg.in/my.cloud",
		"k8s.io/c/pkg/v1.(*Cloud).build-fm":  "k8s.io/c/pkg/v1",
		"main.main.func1":                    "main",
		"example.com/x.y/z.newCloud[...].fn": "example.com/x.y/z",
	} {
		if got := packageOf(function); got != want {
			t.Errorf("%s is of %s, want %s", function, got, want)
		}
	}
}
