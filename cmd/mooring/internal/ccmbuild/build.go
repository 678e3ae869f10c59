package ccmbuild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// Options say what to build and where to put it.
type Options struct {
	Request Request
	// Dir is the directory that relative directories of the request begin at, and where a checkout of Mooring is looked for. It
	// must be absolute.
	Dir string
	// Output is the file to write the program to, for the only platform. Empty writes none.
	Output string
	// Lock is a file with what is to be built from. If there is none yet, it is written; if there is, nothing else is built from.
	Lock string
	// Sources is a directory to write the program's module to, instead of building it. It must be empty, or not there yet.
	Sources string
	// Image says which image to write. An empty file writes none.
	Image ImageOptions
	// Progress gets what is being done, as lines or in place on a terminal. Nil gets nothing.
	Progress io.Writer
}

// ImageOptions say which image to write.
type ImageOptions struct {
	// File is the tarball. The list of modules is written beside it, with .spdx.json instead of .tar.
	File string
	// Certificates is a file of PEM root certificates. Empty takes those of this machine.
	Certificates string
	// Labels are added to the labels that the build knows, and override them.
	Labels map[string]string
	// Reference is the name and tag under which engines load the image. It may be empty.
	Reference string
	// Created is the time in the image. The zero value is the beginning of 1970.
	Created time.Time
}

// Result is what was built.
type Result struct {
	// Program and Image are the files that were written, empty if they were not asked for.
	Program, Image, SBOM string
	// Lock is the file that what was built from is locked in, and Sources the directory of the module that was written.
	Lock, Sources string
	// Digest is the digest of the image, or of the index if there are several platforms.
	Digest string
	// Providers are the program's providers by the names for --cloud-provider. Empty for the shipped program.
	Providers []string
	// Mooring and Kubernetes are the versions that it was built with, and Go the release of the go tool.
	Mooring, Kubernetes, Go string
	// Modules are all modules in it.
	Modules []ModuleVersion
}

// builder is one run of Build.
type builder struct {
	options Options
	display *progress.Display
	env     []string
	// lock is what to build from, nil without.
	lock Lock
	// certificates are the root certificates for the image.
	certificates []byte
	// raised says which version of the plugins' contract was picked instead of which, if it is not the one that Mooring requires.
	raised string
	// workspace is the directory of the module, elsewhere an empty one outside any module, scratch for what is built,
	// goTemp for the files of the go tool.
	workspace, elsewhere, scratch, goTemp string
}

// Build builds a program and an image, and puts them into place when everything has succeeded. Its error is one of this
// package's types where a caller can do something about it, a *gobuild.NetworkError or a *gobuild.DiskError. When ctx ends it
// ends the go tool and all compilers, removes its files and returns the cause.
func Build(ctx context.Context, options Options) (result Result, err error) {
	b := &builder{options: options, display: progress.New(options.Progress), env: environment(os.Getenv("GOFLAGS"))}
	if err := b.readLock(); err != nil {
		return Result{}, err
	}
	targets, err := b.targets()
	defer func() {
		for _, t := range targets {
			err = errors.Join(err, t.close())
		}
	}()
	if err != nil {
		return Result{}, err
	}
	// Where the go tool puts what it builds is where it can be run, if that is not the usual place.
	temp, err := os.MkdirTemp(os.Getenv("GOTMPDIR"), "mooring-build-")
	if err != nil {
		return Result{}, fmt.Errorf("directory for the build: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	for _, dir := range []struct {
		path *string
		name string
	}{{&b.workspace, "workspace"}, {&b.elsewhere, "elsewhere"}, {&b.scratch, "scratch"}, {&b.goTemp, "go"}} {
		*dir.path = filepath.Join(temp, dir.name)
		if err := os.Mkdir(*dir.path, 0o755); err != nil {
			return Result{}, fmt.Errorf("directory for the build: %w", err)
		}
	}
	// A go tool that is interrupted leaves files behind: here they go with the rest.
	b.env = append(b.env, "GOTMPDIR="+b.goTemp)
	result, err = b.build(ctx, targets)
	if err != nil {
		return Result{}, err
	}
	for _, t := range targets {
		if err := t.commit(); err != nil {
			return Result{}, err
		}
	}
	return result, nil
}

// environment is what the go tool runs with besides what is set. Versions may be added to the workspace's go.mod, whatever the
// user's flags say of go.mod files, and no go.work that happens to be above takes part.
func environment(flags string) []string {
	return []string{"GOFLAGS=" + strings.TrimSpace(flags+" -mod=mod"), "GOWORK=off", "GO111MODULE=on"}
}

// targets are the files to write. A file that the options do not request is absent.
func (b *builder) targets() (map[string]*target, error) {
	wanted := map[string]*target{}
	var errs []error
	for _, file := range []struct{ name, path string }{
		{"program", b.options.Output}, {"image", b.options.Image.File}, {"sbom", sbomFile(b.options.Image.File)},
		{"lock", b.options.Lock},
	} {
		if file.path == "" || file.name == "lock" && b.lock != nil {
			continue
		}
		t, err := newTarget(b.absolute(file.path))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		wanted[file.name] = t
	}
	return wanted, errors.Join(errs...)
}

// sbomFile is the name of the list of modules beside an image.
func sbomFile(image string) string {
	if image == "" {
		return ""
	}
	return strings.TrimSuffix(image, ".tar") + ".spdx.json"
}

// note writes a line among the progress.
func (b *builder) note(format string, args ...any) {
	if b.options.Progress != nil {
		_, _ = fmt.Fprintf(b.options.Progress, format+"\n", args...)
	}
}

// build does everything but put the files into place.
func (b *builder) build(ctx context.Context, targets map[string]*target) (Result, error) {
	if err := b.readCertificates(); err != nil {
		return Result{}, err
	}
	request, found, err := b.observe(ctx, b.options.Request)
	if err != nil {
		return Result{}, err
	}
	b.noteSource(found)
	workspace, err := planWorkspace(request, found)
	if err != nil {
		return Result{}, err
	}
	workspace.Get = b.lock.queries(workspace.Get)
	if err := b.write(workspace); err != nil {
		return Result{}, err
	}
	picked, err := b.resolve(ctx, request, found, workspace)
	if err != nil {
		return Result{}, err
	}
	if b.options.Sources != "" {
		return b.keep(ctx, found, workspace, picked)
	}
	var providers []string
	if !request.Shipped {
		if providers, err = b.probe(ctx, request, workspace, picked); err != nil {
			return Result{}, err
		}
	}
	programs, err := b.compile(ctx, request, found, workspace, picked)
	if err != nil {
		return Result{}, err
	}
	if err := b.checkLock(programs, targets["lock"]); err != nil {
		return Result{}, err
	}
	result := Result{
		Lock: b.options.Lock, Providers: providers, Mooring: found.MooringVersion(), Kubernetes: KubernetesVersion(picked.Modules), Go: found.GoVersion,
		Modules: picked.Modules,
	}
	if t := targets["program"]; t != nil {
		result.Program = b.options.Output
		if err := t.fill(programs[0].file, 0o755); err != nil {
			return Result{}, err
		}
	}
	if b.options.Image.File == "" {
		return result, nil
	}
	result.Image, result.SBOM = b.options.Image.File, sbomFile(b.options.Image.File)
	result.Digest, err = b.writeImage(ctx, imageInput{request, found, result, programs}, targets)
	return result, err
}

// noteSource says which Mooring is built, because it may be another than the one that runs.
func (b *builder) noteSource(found Found) {
	if found.Mooring.Dir != "" {
		b.note("Mooring: the sources in %s (%s)", found.Mooring.Dir, found.MooringVersion())
		return
	}
	b.note("Mooring: %s", found.MooringVersion())
}

// built is a program for a platform.
type built struct {
	platform Platform
	file     string
}

// compile builds the program for each platform.
func (b *builder) compile(ctx context.Context, request Request, found Found, w Workspace, picked Picked) ([]built, error) {
	platforms := request.Platforms
	if len(platforms) == 0 {
		platforms = []Platform{{OS: runtime.GOOS, Arch: runtime.GOARCH}}
	}
	var programs []built
	for _, platform := range platforms {
		plan := planCompile(request, platform, linkerFlags(picked.Modules, found), os.Getenv("GOFLAGS"))
		program := built{platform, filepath.Join(b.scratch, strings.ReplaceAll(platform.String(), "/", "-"))}
		err := gobuild.Build(ctx, gobuild.Options{
			Dir: b.workspace, Package: w.Target, Name: request.Program() + " for " + platform.String(), Output: program.file,
			Flags: plan.Flags, Env: slices.Concat(b.env, plan.Env), Display: b.display,
		})
		if err != nil {
			return nil, explain(err, w, picked)
		}
		programs = append(programs, program)
	}
	return programs, nil
}
