package ccmbuild

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
)

// fails builds what must fail, with an error of a type and with texts in its message.
func fails[E error](s stand, o Options, want ...string) E {
	s.t.Helper()
	_, err := Build(s.t.Context(), o)
	var typed E
	if !errors.As(err, &typed) {
		s.t.Fatalf("error is no %T: %v", typed, err)
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			s.t.Errorf("the error does not say %q: %v", text, err)
		}
	}
	s.leavesNothing()
	if _, err := os.Stat(s.path(o.Output)); o.Output == "out/program" && !errors.Is(err, os.ErrNotExist) {
		s.t.Errorf("there is a program: %v", err)
	}
	return typed
}

func TestNoSuchModuleOrPackage(t *testing.T) {
	isolate(t, modules{"example.com/known@v1.0.0": {"go.mod": goMod("example.com/known"), "p.go": "package known\n"}})
	s := newStand(t)
	missing := fails[*NoModuleError](s, s.options("example.com/nowhere/at/all@v1.0.0"), "example.com/nowhere/at/all@v1.0.0")
	want := []string{"example.com/nowhere/at/all", "example.com/nowhere/at", "example.com/nowhere", "example.com"}
	if !slices.Equal(missing.Tried, want) {
		t.Errorf("tried %v, want %v", missing.Tried, want)
	}
	fails[*NoModuleError](s, s.options("example.com/nowhere"), "example.com/nowhere")
	fails[*NoModuleError](s, s.options("example.com/known@v9.0.0"), "example.com/known@v9.0.0")
	for _, version := range []string{"", "@v1.0.0"} {
		absent := fails[*NoPackageError](s, s.options("example.com/known/not/here"+version), "no package example.com/known/not/here")
		if absent.Module != "example.com/known" || absent.Version != "v1.0.0" {
			t.Errorf("module %s %s", absent.Module, absent.Version)
		}
	}
	o := s.options("example.com/mycloud/nothing")
	o.Request.Replacements = append(o.Request.Replacements, Replacement{Module: "example.com/mycloud", Dir: "./mycloud"})
	fails[*NoPackageError](s, o, "example.com/mycloud/nothing")
}

func TestNoProvider(t *testing.T) {
	isolate(t, modules{"example.com/plain@v1.0.0": {"go.mod": goMod("example.com/plain"), "p.go": "package plain\n"}})
	s := newStand(t)
	fails[*NoProviderError](s, s.options("./mycloud/plain"), "no provider is registered by example.com/mycloud/plain")
	two := fails[*NoProviderError](s, s.options("example.com/plain", "./mycloud/sub"),
		"example.com/plain", "the others register mycloud")
	if !slices.Equal(two.Packages, []string{"example.com/plain"}) {
		t.Errorf("packages without a provider: %v", two.Packages)
	}
}

// A package that imports one that registers a provider is as good as that one.
func TestProviderThatIsImported(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	write(t, s.path("mycloud/plain/more.go"), "package plain\n\nimport _ \"example.com/mycloud/sub\"\n")
	if got := s.build(s.options("./mycloud/plain")).Providers; !slices.Equal(got, []string{"mycloud"}) {
		t.Errorf("providers %v", got)
	}
}

func TestVersionConflict(t *testing.T) {
	isolate(t, modules{
		"example.com/lib@v1.1.0": {"go.mod": goMod("example.com/lib"), "p.go": "package lib\n"},
		"example.com/lib@v1.2.0": {"go.mod": goMod("example.com/lib"), "p.go": "package lib\n"},
		"example.com/top@v1.0.0": {
			"go.mod": goMod("example.com/top", "require example.com/lib v1.2.0"),
			"p.go":   "package top\n\nimport _ \"example.com/lib\"\n",
		},
	})
	s := newStand(t)
	conflict := fails[*VersionConflictError](s, s.options("example.com/lib@v1.1.0", "example.com/top@v1.0.0"),
		"example.com/lib is asked for at v1.1.0", "example.com/top@v1.0.0 requires v1.2.0")
	if conflict.Module != "example.com/lib" || conflict.RequiredBy != "example.com/top@v1.0.0" {
		t.Errorf("conflict %+v", conflict)
	}
	write(t, s.path("mycloud/go.mod"), goMod("example.com/mycloud", contract, "require example.com/lib v1.2.0"))
	write(t, s.path("mycloud/sub/more.go"), "package sub\n\nimport _ \"example.com/lib\"\n")
	local := fails[*VersionConflictError](s, s.options("./mycloud/sub", "example.com/lib@v1.1.0"),
		"example.com/mycloud requires v1.2.0")
	if local.RequiredBy != "example.com/mycloud" {
		t.Errorf("required by %q: a directory has no version", local.RequiredBy)
	}
}

func TestLostReplacement(t *testing.T) {
	isolate(t, modules{
		"example.com/lib@v1.2.0": {"go.mod": goMod("example.com/lib"), "p.go": "package lib\n"},
		"example.com/old@v1.0.0": {
			"go.mod": goMod("example.com/old", "require example.com/lib v0.0.0", "replace example.com/lib => example.com/lib v1.2.0",
				"replace example.com/here => ./here"),
			"p.go": "package old\n\nimport _ \"example.com/lib\"\n",
		},
	})
	s := newStand(t)
	lost := fails[*LostReplacementError](s, s.options("example.com/old@v1.0.0"), "requires example.com/lib@v0.0.0",
		"--replace example.com/lib=example.com/lib@v1.2.0")
	if len(lost.Flags) != 1 {
		t.Errorf("flags %v", lost.Flags)
	}
}

func TestDoesNotCompile(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	write(t, s.path("mycloud/sub/broken.go"),
		"package sub\n\nimport cloudprovider \"k8s.io/cloud-provider\"\n\nvar _ = cloudprovider.Gone\n")
	broken := fails[*CompileError](s, s.options("./mycloud/sub"),
		s.path("mycloud/sub/broken.go")+":5:23: undefined: cloudprovider.Gone",
		"example.com/mycloud => "+s.path("mycloud"), "k8s.io/cloud-provider => "+s.path("cloud-provider"))
	if len(broken.Lines) != 2 {
		t.Errorf("lines %q", broken.Lines)
	}
}

func TestDoesNotStart(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	write(t, s.path("mycloud/sub/again.go"), strings.ReplaceAll(registers("sub", "mycloud"), "build", "again"))
	fails[*ProbeError](s, s.options("./mycloud/sub"), `Cloud provider "mycloud" was registered twice`)
	write(t, s.path("mycloud/sub/again.go"), "package sub\n\nimport \"os\"\n\nfunc init() { os.Exit(0) }\n")
	fails[*ProbeError](s, s.options("./mycloud/sub"), "ended before it was asked")
}

func TestToolchain(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	write(t, s.path("new/go.mod"), "module example.com/new\n\ngo 1.99.0\n")
	write(t, s.path("new/p.go"), "package new\n")
	old := fails[*ToolchainError](s, s.options("./new"), "too old")
	if old.Want != "1.99.0" || !strings.HasPrefix(old.Have, "1.") {
		t.Errorf("have %q, want %q", old.Have, old.Want)
	}
	t.Setenv("PATH", t.TempDir())
	fails[*ToolchainError](s, s.options("./mycloud/sub"), "install Go "+minGo+" or newer")
}

func TestNetwork(t *testing.T) {
	isolate(t, nil)
	t.Setenv("GOPROXY", "off")
	s := newStand(t)
	fails[*gobuild.NetworkError](s, s.options("example.com/far/away"), "module proxy")
}

func TestOutputThatCannotBeWritten(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	for name, want := range map[string]string{
		"nowhere/program": "no such file or directory", "mycloud": "is a directory", "mycloud/go.mod/program": "not a directory",
	} {
		o := s.options("./mycloud/sub")
		o.Output = name
		if failed := fails[*OutputError](s, o, want); failed.File != s.path(name) {
			t.Errorf("file %s", failed.File)
		}
	}
	o := s.options("./mycloud/sub")
	o.Image.File = "nowhere/image.tar"
	for _, file := range []string{"nowhere/image.tar", "nowhere/image.spdx.json"} {
		fails[*OutputError](s, o, "cannot write "+s.path(file))
	}
}

func TestDirectoriesThatAreNone(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	write(t, s.path("program/go.mod"), goMod("example.com/program"))
	write(t, s.path("program/main.go"), "package main\n\nfunc main() {}\n")
	write(t, s.path("mycloud/empty/readme"), "")
	for dir, want := range map[string]string{
		"./nowhere": "no such file", "./mycloud/go.mod": "is a file", "./program": "cannot be imported", "./mycloud/empty": "no Go files",
	} {
		if failed := fails[*SourceError](s, s.options(dir), want); failed.Dir != dir {
			t.Errorf("directory %q, want %q", failed.Dir, dir)
		}
	}
	// The go tool would add a go directive to this one, if it might.
	const untidy = "module example.com/untidy\n\nreplace k8s.io/cloud-provider => ../cloud-provider\n\n" + contract + "\n"
	write(t, s.path("untidy/go.mod"), untidy)
	write(t, s.path("untidy/p.go"), "package untidy\n")
	fails[*SourceError](s, s.options("./untidy"), "go mod tidy")
	if content, err := os.ReadFile(s.path("untidy/go.mod")); err != nil || string(content) != untidy {
		t.Errorf("a go.mod that is not ours was changed: %v\n%s", err, content)
	}
	o := s.options("./mycloud/sub")
	o.Request.Replacements[0].Dir = "./mycloud/empty"
	fails[*SourceError](s, o, filepath.Join(s.dir, "mycloud/empty"), "no module is there")
	o = s.options("./mycloud/sub")
	o.Request.Replacements = o.Request.Replacements[1:]
	fails[*SourceError](s, o, "--mooring-version")
}

func TestReplacedByWhatCannotBeFound(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	o := s.options("./mycloud/sub")
	o.Request.Replacements = append(o.Request.Replacements, Replacement{Module: "example.com/lib", NewModule: "example.com/fork"})
	fails[*NoModuleError](s, o, "example.com/fork@latest")
}
