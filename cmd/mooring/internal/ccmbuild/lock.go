package ccmbuild

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

// Lock is what a program was built from: its modules, each with its version and the sum of its content, as the go tool records them in the
// program. A module in a directory has neither, and is locked by its path alone.
type Lock []LockedModule

// LockedModule is a line of a lock.
type LockedModule struct {
	// Path and Version are those of the module that is required.
	Path, Version string
	// By is what replaces it, as PATH@VERSION, or byDirectory. Empty: nothing does.
	By string
	// Sum is the hash of the content, "h1:...", or of the replacement's content if there is one.
	Sum string
}

// lockHeading begins the file, for people.
const lockHeading = "# What \"mooring build --lock\" has built from: module, version, what replaces it, sum. Remove the file to choose anew.\n"

// byDirectory is the By of a module in a directory.
const byDirectory = "a-directory"

// String returns the lock as ParseLock reads it.
func (l Lock) String() string {
	text := lockHeading
	for _, module := range l {
		text += module.String() + "\n"
	}
	return text
}

// String returns the line.
func (m LockedModule) String() string {
	text := m.Path + " " + m.Version
	if m.By != "" {
		text += " => " + m.By
	}
	return strings.TrimSpace(text + " " + m.Sum)
}

// ParseLock reads a lock.
func ParseLock(text string) (Lock, error) {
	var lock Lock
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		module := LockedModule{}
		if len(fields) > 3 && fields[2] == "=>" {
			module.By = fields[3]
			fields = slices.Delete(fields, 2, 4)
		}
		if len(fields) == 3 {
			module.Sum = fields[2]
		}
		if len(fields) < 2 || len(fields) > 3 || (module.Sum == "") != (module.By == byDirectory) || module.Sum != "" && !strings.HasPrefix(module.Sum, "h1:") {
			return nil, fmt.Errorf("%q is no line of a lock", strings.TrimSpace(line))
		}
		module.Path, module.Version = fields[0], fields[1]
		lock = append(lock, module)
	}
	return lock, nil
}

// queries returns the arguments of go get that choose the same versions again. The lock answers queries for the newest version. Queries for
// a certain version stay, and checkLock compares them with the lock.
func (l Lock) queries(asked []string) []string {
	if l == nil {
		return asked
	}
	locks := func(path string) func(LockedModule) bool {
		return func(module LockedModule) bool { return within(module.Path, path) }
	}
	var kept []string
	versioned := map[string]bool{}
	for _, query := range asked {
		path, _, hasVersion := strings.Cut(query, "@")
		if i := slices.IndexFunc(l, locks(path)); i < 0 || hasVersion {
			kept = append(kept, query)
			versioned[path] = true
		}
	}
	for _, module := range l {
		overruled := slices.ContainsFunc(slices.Collect(maps.Keys(versioned)), func(path string) bool { return within(module.Path, path) })
		if module.By == "" && !overruled {
			kept = append(kept, module.Path+"@"+module.Version)
		}
	}
	return kept
}

// sums are the lines of a go.sum that hold the go tool to the same content.
func (l Lock) sums() []string {
	var sums []string
	for _, module := range l {
		path, version := module.Path, module.Version
		if module.By != "" {
			path, version, _ = strings.Cut(module.By, "@")
		}
		if module.Sum != "" {
			sums = append(sums, path+" "+version+" "+module.Sum)
		}
	}
	return sums
}

// differences returns a line for each module that is not the same in another lock.
func (l Lock) differences(built Lock) []string {
	byPath := func(lock Lock) map[string]LockedModule {
		found := map[string]LockedModule{}
		for _, module := range lock {
			found[module.Path] = module
		}
		return found
	}
	locked, now := byPath(l), byPath(built)
	all := maps.Clone(locked)
	maps.Copy(all, now)
	var lines []string
	for _, path := range slices.Sorted(maps.Keys(all)) {
		before, was := locked[path]
		after, is := now[path]
		switch {
		case before == after:
		case !was:
			lines = append(lines, "added "+after.String())
		case !is:
			lines = append(lines, "gone "+before.String())
		default:
			lines = append(lines, fmt.Sprintf("%s instead of %s", after, before))
		}
	}
	return lines
}

// lockOf reads what programs were built from: one for each platform, of which some need modules that others do not.
func lockOf(programs []built) (Lock, error) {
	var lock Lock
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program.file)
		if err != nil {
			return nil, fmt.Errorf("reading what the program was built from: %w", err)
		}
		for _, dependency := range info.Deps {
			lock = append(lock, lockedModule(dependency))
		}
	}
	slices.SortFunc(lock, func(a, b LockedModule) int { return strings.Compare(a.Path, b.Path) })
	return slices.Compact(lock), nil
}

func lockedModule(dependency *debug.Module) LockedModule {
	module := LockedModule{Path: dependency.Path, Version: dependency.Version, Sum: dependency.Sum}
	switch by := dependency.Replace; {
	case by == nil:
	case isDirectory(by.Path):
		module.By, module.Sum = byDirectory, ""
	default:
		module.By, module.Sum = by.Path+"@"+by.Version, by.Sum
	}
	return module
}

// LockError says that a program was not built from what is locked.
type LockError struct {
	// File is the lock.
	File string
	// Differences are lines about one module each.
	Differences []string
}

// Error lists the differences and says what to do.
func (e *LockError) Error() string {
	return fmt.Sprintf("%s does not fit what is asked for; remove the file to choose versions anew:\n  %s", e.File, strings.Join(e.Differences, "\n  "))
}

// readLock reads the lock file, or returns nil if there is no lock file yet or no lock is requested.
func (b *builder) readLock() error {
	if b.options.Lock == "" {
		return nil
	}
	content, err := os.ReadFile(b.absolute(b.options.Lock))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if b.lock, err = ParseLock(string(content)); err != nil {
		return fmt.Errorf("lock %s: %w", b.options.Lock, err)
	}
	return nil
}

// checkLock holds programs to the lock, or fills the file that becomes it.
func (b *builder) checkLock(programs []built, to *target) error {
	if b.options.Lock == "" {
		return nil
	}
	now, err := lockOf(programs)
	if err != nil {
		return err
	}
	if b.lock == nil {
		if err := os.WriteFile(to.staged(), []byte(now.String()), 0o644); err != nil {
			return &OutputError{File: to.file, Err: err}
		}
		return nil
	}
	if lines := b.lock.differences(now); len(lines) > 0 {
		return &LockError{File: b.options.Lock, Differences: lines}
	}
	return nil
}
