package openstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mooring-ccm/mooring/dev/filelock"
	"github.com/mooring-ccm/mooring/dev/openstack/chroot"
	"github.com/mooring-ccm/mooring/dev/program"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// installTimeout bounds an installation. It takes minutes, most of them dpkg's.
const installTimeout = 40 * time.Minute

// unpackDir is where Install puts the files of unpacked, within the root directory.
const unpackDir = "/opt/services"

// Install brings the packages of the services into a root directory in the cache and makes the state that clouds begin with, if they are
// not there yet: 150 MB to download, 1.3 GB on disk. The machine's own packages stay as they are, but for mmdebstrap, which makes the root
// directory and is installed when absent. What is cached appears when it is complete; concurrent calls, in this process or another,
// install once. It needs root.
func Install(ctx context.Context, options Options) error {
	cache, err := options.cache()
	if err != nil {
		return err
	}
	root := rootOf(cache)
	if _, err := os.Stat(root); err != nil {
		if lacks := lacksOfInstaller(); len(lacks) > 0 {
			return &MissingError{Lacks: lacks}
		}
		if err := install(ctx, options, cache, root); err != nil {
			return fmt.Errorf("install OpenStack in %s: %w", root, err)
		}
	}
	if _, err := ensureTemplate(ctx, cache, progress.New(options.Progress)); err != nil {
		return fmt.Errorf("start OpenStack for the first time: %w", err)
	}
	return nil
}

func install(ctx context.Context, options Options, cache, root string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, installTimeout, fmt.Errorf("not installed within %s", installTimeout))
	defer cancel()
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	display := progress.New(options.Progress)
	unlock, err := filelock.Take(ctx, filepath.Join(cache, "lock"), display, "another installation of OpenStack")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(root); err == nil {
		return nil // it was installed by the one that was waited for
	}
	sources := options.Sources
	if len(sources) == 0 {
		if sources, err = aptSources(ctx); err != nil {
			return err
		}
	}
	if err := installBootstrap(ctx, display); err != nil {
		return err
	}
	// The lock is held, so what has this name is what a killed installation left behind.
	unfinished := filepath.Join(cache, "unfinished")
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := makeRoot(ctx, unfinished, sources, display); err != nil {
		return errors.Join(err, os.RemoveAll(unfinished))
	}
	if err := os.Rename(unfinished, root); err != nil {
		return err
	}
	return errors.Join(touch(root), prune(cache, time.Now().Add(-unusedFor)))
}

// installBootstrap installs mmdebstrap on this machine, if it is absent: one package that makes root directories by means of the machine's
// own apt, with its keys and proxies.
func installBootstrap(ctx context.Context, display *progress.Display) error {
	if _, err := exec.LookPath("mmdebstrap"); err == nil {
		return nil
	}
	step := display.Begin("installing mmdebstrap")
	args := []string{"install", "-y", "-qq", "--no-install-recommends", "mmdebstrap"}
	_, err := aptGet(ctx, args...)
	if err != nil { // the lists of a machine that was just made are empty or old
		if _, err = aptGet(ctx, "update", "-qq"); err == nil {
			_, err = aptGet(ctx, args...)
		}
	}
	if err != nil {
		step.Fail()
		return fmt.Errorf("install mmdebstrap: %w", err)
	}
	step.Done("done")
	return nil
}

func aptGet(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "apt-get", args...)
	command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// hook runs on this machine when the packages are installed, with the new root directory as its argument: it fetches and unpacks what is
// not to be installed, and makes what a room is mounted on.
func hook() string {
	return strings.Join([]string{
		`set -e`,
		`mkdir -p "$1` + unpackDir + `" "$1` + chroot.StateDir + `" "$1/dev/shm"`,
		`cd "$1/opt"`,
		`APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get download ` + strings.Join(unpacked, " "),
		`for package in *.deb; do dpkg -x "$package" "$1` + unpackDir + `"; done`,
		`rm -f *.deb`,
		`cd "$1/usr/lib/python3/dist-packages"`,
		`rm -rf ` + strings.Join(trimmed, " "),
		`printf '127.0.0.1 localhost\n' >"$1/etc/hosts"`,
	}, "; ")
}

// makeRoot makes a root directory with the packages. What was said is kept in install.log when it fails.
func makeRoot(ctx context.Context, dir string, sources []string, display *progress.Display) error {
	cache := filepath.Dir(dir)
	list := filepath.Join(cache, "sources.list")
	if err := os.WriteFile(list, []byte(strings.Join(sources, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	args := []string{"--verbose", "--mode=root", "--variant=minbase", "--include=" + strings.Join(packages, ",")}
	for _, path := range unwanted {
		args = append(args, "--dpkgopt=path-exclude="+path)
	}
	args = append(args, "--customize-hook="+hook(), codename, dir, list)
	path, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return err
	}
	step := display.Begin("installing the packages of OpenStack, which takes minutes, once")
	running, err := program.Start(program.Options{Name: "install", Path: path, Args: args, Dir: cache, Prepare: chroot.PrivateMounts})
	if err != nil {
		step.Fail()
		return err
	}
	if err := follow(ctx, running, step); err != nil {
		step.Fail()
		return err
	}
	step.Done("done")
	return os.Remove(running.LogPath())
}

// followEvery is how often the log of an installation is looked at.
const followEvery = time.Second

// follow shows how far an installation is until it ends. When ctx does first, it ends the installation.
func follow(ctx context.Context, running *program.Program, step *progress.Step) error {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		select {
		case <-running.Done():
			if running.State().Success() {
				return nil
			}
			return running.Exited()
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), endGroup(running))
		case <-ticker.C:
			step.Update("%s", installed(running.Output()))
		}
	}
}

// endGroup ends an installation and all processes that it started. Its mounts go with them, because no other process has them.
func endGroup(running *program.Program) error {
	return errors.Join(syscall.Kill(-running.PID(), syscall.SIGKILL), running.Kill())
}

// installed says how far an installation is, by what it wrote. The number of packages is not known before: the packages on which all others depend
// come first, in a run of their own.
func installed(output string) string {
	unpacked, configured := strings.Count(output, "\nUnpacking "), strings.Count(output, "\nSetting up ")
	if unpacked == 0 {
		return "downloading"
	}
	return fmt.Sprintf("%d packages unpacked, %d set up", unpacked, configured)
}

// unusedFor is how long an entry of the cache is kept after its last use: others than this version of the project may use it.
const unusedFor = 7 * 24 * time.Hour

// touch marks an entry of the cache as used, for prune.
func touch(path string) error {
	now := time.Now()
	return os.Chtimes(path, now, now)
}

// prune removes root directories and states from the cache that were last used before a time.
func prune(cache string, before time.Time) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		kind, _, _ := strings.Cut(entry.Name(), "-")
		info, err := entry.Info()
		if err != nil || !entry.IsDir() || kind != "root" && kind != "state" || !info.ModTime().Before(before) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(cache, entry.Name())); err != nil {
			return fmt.Errorf("remove what was not used for long: %w", err)
		}
	}
	return nil
}
