package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// machine is the state of this machine that outlives namespaces.
type machine struct {
	sysctls map[string]string
	cgroups []string // paths
	names   []string // of the control groups looked for
	made    []string // directories that were made as mount points
}

// observe records the state that a sandbox with these options might change, and makes the mount points that it lacks.
func observe(options Options) (machine, error) {
	seen := machine{sysctls: map[string]string{}, names: slices.Concat(options.Cgroups, options.Alone)}
	for name := range options.Sysctls {
		value, err := readSysctl(name)
		if err != nil {
			return seen, err
		}
		seen.sysctls[name] = value
	}
	for _, dir := range options.Dirs {
		switch err := os.Mkdir(dir, 0o755); {
		case err == nil:
			seen.made = append(seen.made, dir)
		case !errors.Is(err, fs.ErrExist):
			return seen, err
		}
	}
	var err error
	seen.cgroups, err = cgroups(seen.names)
	return seen, err
}

// restore puts back what has changed since, and says what that was.
func (m machine) restore() []string {
	var changes []string
	for name, before := range m.sysctls {
		now, err := readSysctl(name)
		if err == nil && now == before {
			continue
		}
		path := filepath.Join(sysctlRoot, name)
		changes = append(changes, fmt.Sprintf("%s was %s and became %s; put back: %v", name, before, now,
			errors.Join(err, os.WriteFile(path, []byte(before), 0))))
	}
	now, err := cgroups(m.names)
	if err != nil {
		changes = append(changes, fmt.Sprintf("control groups: %v", err))
	}
	// Children come after their parents, and must go before them.
	for _, path := range slices.Backward(now) {
		if !slices.Contains(m.cgroups, path) {
			changes = append(changes, fmt.Sprintf("the control group %s was left behind; removed: %v", path, os.Remove(path)))
		}
	}
	for _, dir := range m.made {
		if err := os.Remove(dir); err != nil {
			changes = append(changes, fmt.Sprintf("remove the mount point: %v", err))
		}
	}
	return changes
}

func readSysctl(name string) (string, error) {
	value, err := os.ReadFile(filepath.Join(sysctlRoot, name))
	return strings.TrimSpace(string(value)), err
}

// cgroups returns the directories of control groups of these names, and of those below them, in lexical order.
func cgroups(names []string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(cgroupRoot, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // ended meanwhile
		}
		if err != nil {
			return err
		}
		if !entry.IsDir() {
			return nil
		}
		for part := range strings.SplitSeq(path, "/") {
			if slices.Contains(names, part) {
				found = append(found, path)
				break
			}
		}
		return nil
	})
	return found, err
}
