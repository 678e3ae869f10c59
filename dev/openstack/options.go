package openstack

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Options say what to install or start. The zero value is a cloud in a temporary directory, silently.
type Options struct {
	// CacheDir is where the root directory of the services and the database that a start begins with are kept. Empty means
	// mooring/openstack under os.UserCacheDir.
	CacheDir string
	// Dir is for the state and the logs of one cloud. It is created when absent, may not hold another cloud, and is kept. Empty means a new
	// directory under os.TempDir, which Close removes; when Start fails it is kept, because the error names the logs.
	Dir string
	// Sources are lines of apt's sources.list with packages of Debian 12. Empty means those of this machine.
	Sources []string
	// Progress gets a line every two seconds, or a line repainted in place when it is a terminal.
	Progress io.Writer
}

// cache returns the directory of the cache.
func (o Options) cache() (string, error) {
	if o.CacheDir != "" {
		return filepath.Abs(o.CacheDir)
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory, set HOME or XDG_CACHE_HOME: %w", err)
	}
	return filepath.Join(user, "mooring", "openstack"), nil
}

// makeDir returns the directory of a cloud and whether Close removes it.
func (o Options) makeDir() (dir string, temporary bool, err error) {
	if o.Dir == "" {
		dir, err = os.MkdirTemp("", "mooring-openstack-")
		return dir, true, err
	}
	if dir, err = filepath.Abs(o.Dir); err != nil {
		return "", false, err
	}
	if _, err := os.Stat(filepath.Join(dir, stateName)); err == nil {
		return "", false, fmt.Errorf("the directory %s holds a cloud already", dir)
	}
	return dir, false, os.MkdirAll(dir, 0o755)
}

// MissingError says all that this machine lacks to run a cloud.
type MissingError struct {
	// Lacks are the things, in words.
	Lacks []string
	// Installable says that Install brings what is missing.
	Installable bool
}

// Error names them.
func (e *MissingError) Error() string {
	hint := ""
	if e.Installable {
		hint = " (make test-openstack installs it)"
	}
	return "missing: " + strings.Join(e.Lacks, "; ") + hint
}

// Check returns a *MissingError when Start cannot run here, nil when it can.
func Check(options Options) error {
	lacks := lacksOfMachine()
	installable := len(lacks) == 0
	cache, err := options.cache()
	if err != nil {
		return err
	}
	if _, err := os.Stat(rootOf(cache)); err != nil {
		lacks = append(lacks, "the packages of OpenStack in "+rootOf(cache))
	}
	if len(lacks) > 0 {
		return &MissingError{Lacks: lacks, Installable: installable}
	}
	return nil
}

func lacksOfMachine() []string {
	var lacks []string
	if runtime.GOOS != "linux" {
		lacks = append(lacks, "Linux, for its namespaces")
	}
	if os.Geteuid() != 0 {
		lacks = append(lacks, "root, to make namespaces")
	}
	return lacks
}

// lacksOfInstaller are what Install needs besides.
func lacksOfInstaller() []string {
	lacks := lacksOfMachine()
	for _, program := range []string{"apt-get", "dpkg"} {
		if _, err := exec.LookPath(program); err != nil {
			lacks = append(lacks, fmt.Sprintf("the program %s (of Debian)", program))
		}
	}
	return lacks
}
