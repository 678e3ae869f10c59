package ccmbuild

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
)

// write writes the workspace.
func (b *builder) write(w Workspace) error {
	for _, name := range slices.Sorted(maps.Keys(w.Files)) {
		file := filepath.Join(b.workspace, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("writing the program: %w", err)
		}
		if err := os.WriteFile(file, []byte(w.Files[name]), 0o644); err != nil {
			return fmt.Errorf("writing the program: %w", err)
		}
	}
	sums := map[string]bool{}
	for _, line := range b.lock.sums() {
		sums[line] = true
	}
	for _, name := range slices.Sorted(maps.Keys(w.Links)) {
		link := filepath.Join(b.workspace, name)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return fmt.Errorf("writing the program: %w", err)
		}
		if err := os.Symlink(w.Links[name], link); err != nil {
			return fmt.Errorf("writing the program: %w", err)
		}
		// Sums that a directory vouches for need not be asked for: what its module builds with is downloaded already.
		content, _ := os.ReadFile(filepath.Join(link, "go.sum"))
		for line := range strings.Lines(string(content)) {
			sums[strings.TrimSpace(line)] = true
		}
	}
	text := strings.Join(slices.Sorted(maps.Keys(sums)), "\n")
	if err := os.WriteFile(filepath.Join(b.workspace, "go.sum"), []byte(text+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing the program: %w", err)
	}
	return nil
}

// resolve has the go tool choose the version of every module, and returns its choice.
func (b *builder) resolve(ctx context.Context, request Request, found Found, w Workspace) (Picked, error) {
	if _, err := b.goTool(ctx, b.workspace, "resolving modules", append([]string{"get"}, w.Get...)...); err != nil {
		return Picked{}, b.withReplacements(ctx, explain(err, w, Picked{}))
	}
	if b.raised != "" {
		b.note("k8s.io/cloud-provider %s, which Mooring is tested with: a package asks for the newer one", b.raised)
	}
	picked, err := b.picked(ctx, w)
	if err != nil {
		return Picked{}, err
	}
	if raise := planAlignment(picked.Modules); len(raise) > 0 {
		b.note("Kubernetes libraries are raised to one version: %s", strings.Join(raise, ", "))
		args := slices.Concat([]string{"get"}, w.Get, raise)
		if _, err := b.goTool(ctx, b.workspace, "resolving modules again", args...); err != nil {
			return Picked{}, explain(err, w, picked)
		}
		if picked, err = b.picked(ctx, w); err != nil {
			return Picked{}, err
		}
	}
	return picked, checkAsked(request, found, picked)
}

// picked asks the go tool for the packages of the program and the modules that they are in.
func (b *builder) picked(ctx context.Context, w Workspace) (Picked, error) {
	output, err := b.goTool(ctx, b.workspace, "looking up packages", "list", "-deps", "-json=ImportPath,Module", w.Target)
	if err != nil {
		return Picked{}, b.withReplacements(ctx, explain(err, w, Picked{}))
	}
	return readPicked(output, w)
}

// readPicked reads the output of go list.
func readPicked(output string, w Workspace) (Picked, error) {
	picked := Picked{Holder: map[string]int{}}
	known := map[string]int{}
	decoder := json.NewDecoder(bytes.NewReader([]byte(output)))
	for {
		var listed struct {
			ImportPath string
			Module     *struct {
				Path, Version string
				Main          bool
				Replace       *struct{ Path, Version string }
			}
		}
		if err := decoder.Decode(&listed); errors.Is(err, io.EOF) {
			return picked, nil
		} else if err != nil {
			return Picked{}, fmt.Errorf("reading the list of packages: %w", err)
		}
		if listed.Module == nil || listed.Module.Main {
			continue
		}
		if _, seen := known[listed.Module.Path]; !seen {
			module := ModuleVersion{Path: listed.Module.Path, Version: listed.Module.Version}
			if by := listed.Module.Replace; by != nil && by.Version != "" {
				module.Version = by.Version
			} else if by != nil {
				module.Dir = w.Links[strings.TrimPrefix(by.Path, "./")]
			}
			known[listed.Module.Path] = len(picked.Modules)
			picked.Modules = append(picked.Modules, module)
		}
		picked.Holder[listed.ImportPath] = known[listed.Module.Path]
	}
}

// withReplacements adds to a *LostReplacementError what the module's own go.mod says.
func (b *builder) withReplacements(ctx context.Context, err error) error {
	var lost *LostReplacementError
	if !errors.As(err, &lost) {
		return err
	}
	// Without the go.mod the error says less, and is still right.
	path, version, _ := strings.Cut(lost.Module, "@")
	for _, module := range prefixes(path) {
		output, failed := b.goTool(ctx, b.elsewhere, "", "mod", "download", "-json", module+"@"+cmp.Or(version, "latest"))
		var downloaded struct{ Version, GoMod string }
		if failed != nil || json.Unmarshal([]byte(output), &downloaded) != nil || downloaded.GoMod == "" {
			continue
		}
		lost.Module = module + "@" + downloaded.Version
		if output, failed = b.goTool(ctx, b.elsewhere, "", "mod", "edit", "-json", downloaded.GoMod); failed == nil {
			lost.Flags = replaceFlags(output)
		}
		break
	}
	return err
}

// replaceFlags reads the replace directives from the JSON of a go.mod, as arguments of --replace. Directories are left out: they
// are not where the module is downloaded to.
func replaceFlags(output string) []string {
	var flags []string
	for _, replacement := range replacementsIn(output) {
		if replacement.Dir == "" {
			flags = append(flags, replacement.String())
		}
	}
	return flags
}

// replacementsIn reads the replace directives from the JSON of a go.mod.
func replacementsIn(output string) []Replacement {
	var file struct {
		Replace []struct {
			Old, New struct{ Path, Version string }
		}
	}
	if json.Unmarshal([]byte(output), &file) != nil {
		return nil
	}
	var found []Replacement
	for _, directive := range file.Replace {
		r := Replacement{Module: directive.Old.Path, Version: directive.Old.Version}
		if directive.New.Version == "" {
			r.Dir = directive.New.Path
		} else {
			r.NewModule, r.NewVersion = directive.New.Path, directive.New.Version
		}
		found = append(found, r)
	}
	return found
}

// goTool runs the go tool in a directory, and shows a step if it has a name: with what is downloaded meanwhile.
func (b *builder) goTool(ctx context.Context, dir, step string, args ...string) (string, error) {
	options := gobuild.Options{Dir: dir, Env: b.env}
	downloading := func(string) {}
	end := func(error) {}
	if step != "" {
		shown, downloads := b.display.Begin(step), 0
		downloading = func(module string) { downloads++; shown.Update("%d downloaded, now %s", downloads, module) }
		end = func(err error) {
			if err != nil {
				shown.Fail()
				return
			}
			shown.Done("%d downloaded", downloads)
		}
	}
	output, err := gobuild.Run(ctx, options, args, func(line string) bool {
		module, download := strings.CutPrefix(line, "go: downloading ")
		if download {
			downloading(module)
		}
		if versions, found := strings.CutPrefix(line, "go: upgraded k8s.io/cloud-provider "); found {
			before, after, _ := strings.Cut(versions, " => ")
			b.raised = after + " instead of " + before
		}
		return download || strings.HasPrefix(line, "go: added ") || strings.HasPrefix(line, "go: upgraded ") ||
			strings.HasPrefix(line, "go: finding module ") || strings.HasPrefix(line, "go: found ")
	})
	end(err)
	return output, err
}
