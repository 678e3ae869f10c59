// Package mutants changes the manager in one place each, so it breaks a promise, and holds the chaos run to find that. What it
// changes is a copy that only the compiler sees: "go build -overlay". The checkout is not touched.
package mutants

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mooring-ccm/mooring/dev/chaos/overlay"
	"github.com/mooring-ccm/mooring/dev/chaos/report"
	"github.com/mooring-ccm/mooring/dev/chaos/runner"
	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
)

// Mutant is the manager with a mistake.
type Mutant struct {
	// Name is what commands and documentation call it, and What says what the mistake is.
	Name, What string
	// File is changed, relative to the module: Old, which is there once, becomes New; then More.
	File, Old, New string
	More           []overlay.Replacement
	// Schedule is the text of a schedule that shows it.
	Schedule string
}

// Unchanged returns the manager as it is once for each schedule of the mutants. Nothing may be found in it, or else the schedule is what
// is found.
func Unchanged() []Mutant {
	seen := map[string]bool{}
	var found []Mutant
	for _, m := range All() {
		if !seen[m.Schedule] {
			found = append(found, Mutant{Name: "unchanged-as-for-" + m.Name, What: "none", Schedule: m.Schedule})
		}
		seen[m.Schedule] = true
	}
	return found
}

// Source returns the changed file.
func (m Mutant) Source(root string) ([]byte, error) { return m.changed(root).Source() }

func (m Mutant) changed(root string) overlay.File {
	return overlay.File{Path: filepath.Join(root, m.File), Replacements: append([]overlay.Replacement{{Old: m.Old, New: m.New}}, m.More...)}
}

// Build builds the manager with the mistake into a directory, and returns its path.
func (m Mutant) Build(ctx context.Context, root, dir string) (string, error) {
	binary := filepath.Join(dir, "daemon")
	if m.File == "" {
		return binary, runner.Build(ctx, binary, "")
	}
	changes, err := m.changed(root).Write(dir)
	if err != nil {
		return "", err
	}
	return binary, runner.Build(ctx, binary, changes)
}

// Try builds a mutant and runs its schedule until a rule does not hold. No violation in the report says that it was not found.
func (m Mutant) Try(ctx context.Context, root string, o runner.Options) (report.Report, error) {
	planned, err := schedule.Parse(strings.NewReader(m.Schedule))
	if err != nil {
		return report.Report{}, fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	if o.Binary, err = m.Build(ctx, root, o.Dir); err != nil {
		return report.Report{}, fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	o.UntilViolation = true
	return runner.Run(ctx, planned, o)
}

// Root returns the root of the module that a directory is in.
func Root(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "ARCHITECTURE.md")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is in no checkout of the project", dir)
		}
	}
}
