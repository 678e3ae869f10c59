package ccmbuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// keep writes the module that would be built to the requested directory. The user edits the module and builds it with the go tool. The
// packages are not asked what they register, because the main that comes of it may pass their constructors on.
func (b *builder) keep(ctx context.Context, found Found, w Workspace, picked Picked) (Result, error) {
	dir := b.absolute(b.options.Sources)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return Result{}, &OutputError{File: dir, Err: errors.New("is not empty, and what is in it may have been edited")}
	}
	if err := b.linkOutside(ctx, dir, w); err != nil {
		return Result{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Result{}, &OutputError{File: dir, Err: err}
	}
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(b.workspace, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o644)
		}
		if err != nil {
			return Result{}, &OutputError{File: filepath.Join(dir, name), Err: err}
		}
	}
	return Result{
		Sources: b.options.Sources, Mooring: found.MooringVersion(), Kubernetes: KubernetesVersion(picked.Modules), Go: found.GoVersion,
		Modules: picked.Modules,
	}, nil
}

// linkOutside replaces the workspace's links in its go.mod by the directories behind them. The paths are relative to the module's future
// place, as a developer with both in one repository would write them.
func (b *builder) linkOutside(ctx context.Context, dir string, w Workspace) error {
	file := filepath.Join(b.workspace, "go.mod")
	output, err := b.goTool(ctx, b.elsewhere, "", "mod", "edit", "-json", file)
	if err != nil {
		return err
	}
	args := []string{"mod", "edit"}
	for _, replacement := range replacementsIn(output) {
		target, linked := w.Links[strings.TrimPrefix(replacement.Dir, "./")]
		if !linked {
			continue
		}
		relative, err := filepath.Rel(dir, target)
		if err != nil {
			relative = target
		}
		if !isDirectory(relative) {
			relative = "./" + relative
		}
		replacement.Dir = relative
		args = append(args, "-replace="+replacement.String())
	}
	if len(args) == 2 {
		return nil
	}
	if _, err := b.goTool(ctx, b.elsewhere, "", append(args, file)...); err != nil {
		return fmt.Errorf("writing the directories into go.mod: %w", err)
	}
	return nil
}
