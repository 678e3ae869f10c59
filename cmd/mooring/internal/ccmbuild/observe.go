package ccmbuild

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
	"github.com/mooring-ccm/mooring/internal/version/stamp"
)

// observe looks at what the plan depends on: the go tool, directories, versions. It changes nothing. The request comes back
// with absolute directories, and with versions where a replacement left them open.
func (b *builder) observe(ctx context.Context, request Request) (Request, Found, error) {
	found := Found{Directories: map[string]LocalPackage{}}
	var err error
	if found.GoVersion, err = b.goVersion(ctx); err != nil {
		return request, found, err
	}
	if err := b.checkPlatforms(ctx, request.Platforms); err != nil {
		return request, found, err
	}
	if request.Replacements, err = b.completeReplacements(ctx, request.Replacements); err != nil {
		return request, found, err
	}
	for _, asked := range request.Packages {
		if asked.Dir == "" {
			continue
		}
		local, err := b.localPackage(ctx, asked.Dir)
		if err != nil {
			return request, found, &SourceError{Dir: asked.Dir, Err: err}
		}
		found.Directories[asked.Dir] = local
	}
	if request.Replacements, err = b.takeReplacements(ctx, request, found); err != nil {
		return request, found, err
	}
	for _, local := range found.Directories {
		b.noteIgnored(ctx, request, local)
	}
	checkout, err := findCheckout(b.options.Dir)
	if err != nil {
		return request, found, err
	}
	build, _ := debug.ReadBuildInfo()
	if found.Mooring, err = chooseMooring(request, found.Directories, checkout, build); err != nil {
		return request, found, &SourceError{Err: err}
	}
	if found.Mooring.Dir != "" {
		found.Revision = revisionOf(ctx, found.Mooring.Dir)
	}
	return request, found, nil
}

// goVersion asks the go tool for its release.
func (b *builder) goVersion(ctx context.Context) (string, error) {
	output, err := b.goTool(ctx, b.workspace, "", "env", "GOVERSION")
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrPermission) {
		return "", &ToolchainError{Want: minGo, Err: err}
	}
	return strings.TrimSpace(output), err
}

// checkPlatforms has the go tool refuse platforms that it does not build for before anything is downloaded.
func (b *builder) checkPlatforms(ctx context.Context, asked []Platform) error {
	for _, platform := range asked {
		options := gobuild.Options{Dir: b.workspace, Env: append(slices.Clone(b.env), "GOOS="+platform.OS, "GOARCH="+platform.Arch)}
		if _, err := gobuild.Run(ctx, options, []string{"build", "unsafe"}, func(string) bool { return false }); err != nil {
			return fmt.Errorf("--platform %s: %w; \"go tool dist list\" shows all", platform, err)
		}
	}
	return nil
}

// completeReplacements makes directories absolute, checks that they hold modules, and looks up the newest version where none
// was asked for.
func (b *builder) completeReplacements(ctx context.Context, asked []Replacement) ([]Replacement, error) {
	var complete []Replacement
	for _, r := range asked {
		switch {
		case r.Dir != "":
			r.Dir = b.absolute(r.Dir)
			if _, err := os.Stat(filepath.Join(r.Dir, "go.mod")); err != nil {
				return nil, &SourceError{Dir: r.Dir, Err: fmt.Errorf("no module is there to replace %s: %w", r.Module, err)}
			}
			if module := moduleIn(r.Dir); within(module, r.Module) { // what was named is a package of it
				r.Module = module
			}
		case r.NewVersion == "":
			query := r.NewModule + "@latest"
			output, err := b.goTool(ctx, b.workspace, "looking up "+query, "list", "-m", "-f", "{{.Version}}", query)
			if err != nil {
				return nil, explain(err, Workspace{Get: []string{query}}, Picked{})
			}
			r.NewVersion = strings.TrimSpace(output)
		}
		complete = append(complete, r)
	}
	return complete, nil
}

// localPackage asks the go tool which package a directory holds. It leaves that directory's go.mod as it is.
func (b *builder) localPackage(ctx context.Context, dir string) (LocalPackage, error) {
	absolute := b.absolute(dir)
	if info, err := os.Stat(absolute); err != nil {
		return LocalPackage{}, err
	} else if !info.IsDir() {
		return LocalPackage{}, errors.New("is a file")
	}
	output, err := b.goTool(ctx, absolute, "", "list", "-find", "-mod=readonly", "-json=ImportPath,Name,Module", ".")
	if err != nil {
		return LocalPackage{}, explain(err, Workspace{}, Picked{})
	}
	var listed struct {
		ImportPath, Name string
		Module           *struct{ Path, Dir string }
	}
	if err := json.Unmarshal([]byte(output), &listed); err != nil {
		return LocalPackage{}, fmt.Errorf("reading what the go tool says of it: %w", err)
	}
	switch {
	case listed.Module == nil:
		return LocalPackage{}, errors.New("belongs to no module; run go mod init there")
	case listed.Name == "main":
		return LocalPackage{}, fmt.Errorf("%s is a program, which cannot be imported", listed.ImportPath)
	}
	source := Source{Module: listed.Module.Path, Version: directoryVersion, Dir: listed.Module.Dir}
	return LocalPackage{Path: listed.ImportPath, Source: source}, nil
}

// takeReplacements returns the replacements with the directives of the modules that are asked for by ReplacesOf. What is asked for itself wins. A
// directory counts only where the module is one, too: elsewhere it is not there.
func (b *builder) takeReplacements(ctx context.Context, request Request, found Found) ([]Replacement, error) {
	all := request.Replacements
	for _, asked := range request.ReplacesOf {
		file, dir, err := b.goModOf(ctx, asked, request, found)
		if err != nil {
			return nil, fmt.Errorf("reading the replace directives of %s: %w", asked, err)
		}
		output, err := b.goTool(ctx, b.elsewhere, "", "mod", "edit", "-json", file)
		if err != nil {
			return nil, fmt.Errorf("reading the replace directives of %s: %w", asked, err)
		}
		taken := 0
		for _, replacement := range replacementsIn(output) {
			if _, twice := replacedBy(all, replacement.Module); twice || replacement.Module == Module || replacement.Dir != "" && dir == "" {
				continue
			}
			if replacement.Dir != "" && !filepath.IsAbs(replacement.Dir) {
				replacement.Dir = filepath.Join(dir, replacement.Dir)
			}
			all = append(all, replacement)
			taken++
		}
		b.note("%d modules are replaced as in the go.mod of %s", taken, asked)
	}
	return all, nil
}

// goModOf returns the go.mod of a module, and its directory if it is one of this machine. Without a version it is the one of the package that is
// asked for, or the newest.
func (b *builder) goModOf(ctx context.Context, asked string, request Request, found Found) (file, dir string, err error) {
	path, version, _ := strings.Cut(asked, "@")
	for _, local := range found.Directories {
		if local.Source.Module == path && version == "" {
			return filepath.Join(local.Source.Dir, "go.mod"), local.Source.Dir, nil
		}
	}
	for _, one := range request.Packages {
		if version == "" && one.Path != "" && within(path, one.Path) {
			version = one.Version
		}
	}
	query := path + "@" + cmp.Or(version, "latest")
	output, err := b.goTool(ctx, b.elsewhere, "looking up "+query, "mod", "download", "-json", query)
	var downloaded struct{ GoMod, Error string }
	switch parsed := json.Unmarshal([]byte(output), &downloaded); {
	case err != nil && downloaded.Error == "":
		return "", "", explain(err, Workspace{Get: []string{query}}, Picked{})
	case parsed != nil:
		return "", "", fmt.Errorf("reading what the go tool says of it: %w", parsed)
	case downloaded.GoMod == "":
		return "", "", errors.New(cmp.Or(downloaded.Error, "it has no go.mod"))
	}
	return downloaded.GoMod, "", nil
}

// noteIgnored warns of the replace directives of a directory's go.mod, which its author is used to and which count only while
// that module is the main one. Mooring's is left out: its sources are chosen anyway.
func (b *builder) noteIgnored(ctx context.Context, request Request, local LocalPackage) {
	output, err := b.goTool(ctx, b.elsewhere, "", "mod", "edit", "-json", filepath.Join(local.Source.Dir, "go.mod"))
	if err != nil {
		return // What is wrong with the file is reported when it is built.
	}
	var ignored []Replacement
	for _, replacement := range replacementsIn(output) {
		_, asked := replacedBy(request.Replacements, replacement.Module)
		if asked || replacement.Module == Module {
			continue
		}
		if replacement.Dir != "" && !filepath.IsAbs(replacement.Dir) {
			replacement.Dir = filepath.Join(local.Source.Dir, replacement.Dir)
		}
		ignored = append(ignored, replacement)
	}
	if len(ignored) > maxIgnored {
		b.note("warning: %s/go.mod replaces %d modules, and Go does not apply that here; add --replaces-of %s, or --replace for each that the build "+
			"needs, such as --replace %s", local.Source.Dir, len(ignored), local.Source.Module, ignored[0])
		return
	}
	for _, replacement := range ignored {
		b.note("warning: %s/go.mod replaces %s, and Go does not apply that here; add --replace %s if the build needs it",
			local.Source.Dir, replacement.Module, replacement)
	}
}

// maxIgnored is how many replace directives have a warning of their own. A fork of Kubernetes has some thirty.
const maxIgnored = 3

func (b *builder) absolute(dir string) string {
	if filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return filepath.Join(b.options.Dir, dir)
}

// findCheckout returns the directory at or above dir that is Mooring's module, or an empty one.
func findCheckout(dir string) (string, error) {
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("looking for a checkout of Mooring: %w", err)
		}
		if moduleOf(content) == Module {
			if info, err := os.Stat(filepath.Join(dir, "ccm")); err == nil && info.IsDir() { // More than a go.mod alone.
				return dir, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", nil
		}
		dir = filepath.Dir(dir)
	}
}

// moduleIn returns the path of the module in a directory, or nothing.
func moduleIn(dir string) string {
	content, _ := os.ReadFile(filepath.Join(dir, "go.mod")) // who needs the module says so when it is missing
	return moduleOf(content)
}

// moduleOf returns the path of the module of a go.mod, or nothing.
func moduleOf(content []byte) string {
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "module" {
			return fields[1]
		}
	}
	return ""
}

// chooseMooring returns where Mooring's own sources come from: what the request says, else the checkout that a package of the
// request or the working directory is in, else the release that this program is.
func chooseMooring(request Request, directories map[string]LocalPackage, checkout string, build *debug.BuildInfo) (Source, error) {
	if r, replaced := replacedBy(request.Replacements, Module); replaced && r.Module == Module {
		return Source{Module: Module, Version: directoryVersion, Dir: r.Dir}, nil
	}
	if request.MooringVersion != "" {
		return Source{Module: Module, Version: request.MooringVersion}, nil
	}
	for _, local := range directories {
		if local.Source.Module == Module {
			return local.Source, nil
		}
	}
	if checkout != "" {
		return Source{Module: Module, Version: directoryVersion, Dir: checkout}, nil
	}
	if build == nil {
		return Source{}, errors.New("this program has no build information")
	}
	for _, module := range append([]*debug.Module{&build.Main}, build.Deps...) {
		// What has a sum was downloaded, so it can be again. A build from a checkout has none.
		if module.Path == Module && module.Replace == nil && module.Sum != "" {
			return Source{Module: Module, Version: module.Version}, nil
		}
	}
	return Source{}, errors.New("this program is no release, and the working directory is in no checkout")
}

// revisionOf asks git for the state of a directory. Without git or a repository there is none, which is no error.
func revisionOf(ctx context.Context, dir string) Revision {
	found, ok := stamp.RevisionOf(ctx, dir)
	if !ok {
		return Revision{}
	}
	return Revision{Name: found.Name, Commit: found.Commit, Date: found.Date, Dirty: found.Dirty}
}
