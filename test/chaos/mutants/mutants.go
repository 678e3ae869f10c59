// Package mutants changes the manager in one place each, so that it breaks a promise, and holds the chaos run to find that. What it
// changes is a copy that only the compiler sees: "go build -overlay". The checkout is not touched.
package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mooring-ccm/mooring/test/chaos/report"
	"github.com/mooring-ccm/mooring/test/chaos/runner"
	"github.com/mooring-ccm/mooring/test/chaos/schedule"
)

// Replacement is a text of a file that is there once, and what takes its place.
type Replacement struct{ Old, New string }

// Mutant is the manager with a mistake.
type Mutant struct {
	// Name is what commands and documentation call it, and What says what the mistake is.
	Name, What string
	// File is changed, relative to the module: Old, which is there once, becomes New; then More.
	File, Old, New string
	More           []Replacement
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
func (m Mutant) Source(root string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	text := string(content)
	for _, r := range append([]Replacement{{m.Old, m.New}}, m.More...) {
		if count := strings.Count(text, r.Old); count != 1 {
			return nil, fmt.Errorf("mutant %s: %s has the text %q %d times, not once: find where that is done now, and change the mutant",
				m.Name, m.File, r.Old, count)
		}
		text = strings.Replace(text, r.Old, r.New, 1)
	}
	return []byte(text), nil
}

// Build builds the manager with the mistake into a directory, and returns its path.
func (m Mutant) Build(ctx context.Context, root, dir string) (string, error) {
	binary := filepath.Join(dir, "daemon")
	if m.File == "" {
		return binary, runner.Build(ctx, binary, "")
	}
	changed, err := m.Source(root)
	if err != nil {
		return "", err
	}
	source, overlay := filepath.Join(dir, filepath.Base(m.File)), filepath.Join(dir, "overlay.json")
	content, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.File): source}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(source, changed, 0o600), os.WriteFile(overlay, content, 0o600)); err != nil {
		return "", err
	}
	return binary, runner.Build(ctx, binary, overlay)
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
