// Package history keeps the figures of releases as files, one for each, in docs/benchmarks/history. What they say is decided in
// package figures.
package history

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

const suffix = ".json"

// Read returns the entries of a folder in the order of their versions; none if there is no folder. Its error names every file that
// cannot be used.
func Read(folder string) ([]figures.Entry, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*"+suffix))
	if err != nil {
		return nil, fmt.Errorf("read the history of figures in %s: %w", folder, err)
	}
	var entries []figures.Entry
	var errs []error
	for _, name := range names {
		entry, err := readEntry(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("read the history of figures: %s: %w", name, err))
		}
		entries = append(entries, entry)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	figures.SortEntries(entries)
	return entries, nil
}

func readEntry(name string) (figures.Entry, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return figures.Entry{}, err
	}
	entry, err := figures.ParseEntry(data)
	if err != nil {
		return figures.Entry{}, err
	}
	if called := strings.TrimSuffix(filepath.Base(name), suffix); entry.Version != called {
		return figures.Entry{}, fmt.Errorf("version is %q, must be %q as the file is called; rename no file by hand, `%s` does it", entry.Version,
			called, Cutting(called))
	}
	return entry, nil
}

// Cutting is the command that makes the figures of the next release those of a version.
func Cutting(version string) string { return "go -C dev/bench run ./cmd/report --release=" + version }

// Write writes an entry, whole or not at all.
func Write(folder string, entry figures.Entry) error {
	data, err := entry.Encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write the history of figures: %w", err)
	}
	name := file(folder, entry.Version)
	if err := os.WriteFile(name+".new", data, 0o644); err != nil {
		return fmt.Errorf("write the history of figures: %w", err)
	}
	return os.Rename(name+".new", name)
}

// WriteNext has the folder hold what some entries say of the next release: its file, or none.
func WriteNext(folder string, entries []figures.Entry) error {
	for _, entry := range entries {
		if entry.Version == figures.Next {
			return Write(folder, entry)
		}
	}
	if err := os.Remove(file(folder, figures.Next)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("write the history of figures: %w", err)
	}
	return nil
}

func file(folder, version string) string { return filepath.Join(folder, version+suffix) }

// Release makes the figures of the next release those of a version. It is an error if that version has some, which never change, or
// if there are none of the next, or not those of a full run.
func Release(folder, version string, full figures.Size) error {
	if err := figures.CheckVersion(version); err != nil {
		return fmt.Errorf("figures of a release: %w", err)
	}
	name := file(folder, version)
	if _, err := os.Stat(name); err == nil {
		return fmt.Errorf("figures of release %s: %s is there already, and figures of a release do not change", version, name)
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("figures of release %s: %w", version, err)
	}
	entry, err := readEntry(file(folder, figures.Next))
	if err == nil {
		err = entry.CheckFull(full)
	}
	if err != nil {
		return fmt.Errorf("figures of release %s: run `make bench` first: %s: %w", version, file(folder, figures.Next), err)
	}
	entry.Version = version
	if err := Write(folder, entry); err != nil {
		return err
	}
	return os.Remove(file(folder, figures.Next))
}

// Check returns an error if a version cannot be released because its figures are not there, or were measured with other sizes than
// those of a full run. The error names the field, its value and what to run.
func Check(folder, version string, full figures.Size) error {
	if err := figures.CheckVersion(version); err != nil {
		return fmt.Errorf("figures of a release: %w", err)
	}
	name := file(folder, version)
	entry, err := readEntry(name)
	if errors.Is(err, os.ErrNotExist) {
		err = errors.New("is not there")
	} else if err == nil {
		err = entry.CheckFull(full)
	}
	if err != nil {
		return fmt.Errorf("figures of release %s: %s: %w; run %s, and commit what it writes", version, name, err, remedy(folder, version))
	}
	return nil
}

// remedy is what to run for the figures of a version.
func remedy(folder, version string) string {
	if _, err := os.Stat(file(folder, version)); err == nil {
		return fmt.Sprintf("`git rm` on it, `make bench` and `%s`", Cutting(version))
	}
	if _, err := os.Stat(file(folder, figures.Next)); err == nil {
		return fmt.Sprintf("`%s`", Cutting(version))
	}
	return fmt.Sprintf("`make bench` and `%s`", Cutting(version))
}
